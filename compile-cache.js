// The folder in which Node keeps compiled code. Whoever can write to it can run code as this user. So it is a folder of
// this user alone, below a home that nobody else can write to; Node's own choice would be a folder of the machine that any user
// can prepare. Without such a folder nothing is kept. A folder of somebody else stays as it is.
import { lstatSync, mkdirSync, statSync } from 'node:fs'
import module from 'node:module'

export function enableCompileCache({ HOME, XDG_CACHE_HOME } = process.env) {
  // NODE_COMPILE_CACHE has switched it on.
  if (module.getCompileCacheDir()) return
  const folder = findOwnFolder(XDG_CACHE_HOME || HOME, XDG_CACHE_HOME ? [] : ['.cache'])
  if (folder) module.enableCompileCache(folder)
}

function findOwnFolder(base, names) {
  try {
    if (!isOwn(statSync(base))) return undefined
    let path = base
    for (const name of names) {
      path = `${path}/${name}`
      makeFolder(path)
      if (!isOwn(statSync(path))) return undefined
    }
    path = `${path}/coffer-node`
    makeFolder(path)
    const found = lstatSync(path)
    return isOwn(found) && found.isDirectory() && (found.mode & 0o777) === 0o700 ? path : undefined
  } catch {
    // No home, or nothing can be written there.
    return undefined
  }
}

/** As start-package.cjs of the command line: no other user can change what is below. Windows has no such numbers. */
const isOwn = ({ uid, mode }) => uid === process.getuid?.() && (mode & 0o022) === 0

function makeFolder(path) {
  try {
    mkdirSync(path, { mode: 0o700 })
  } catch (error) {
    if (error.code !== 'EEXIST') throw error
  }
}
