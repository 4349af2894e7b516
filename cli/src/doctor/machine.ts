/** Checks of this machine: Node, the login file and the keychain. */
import { readFileSync, statSync } from 'node:fs'
import type { Context } from '../context.ts'
import { hasKeychain } from '../session/keychain.ts'
import { loginFilePath, parseLogins } from '../session/login-file.ts'
import { type Check, fail, ok, warn } from './check.ts'

const oldestNode = 24

export function checkNode(): Check {
  const version = process.versions.node
  return Number.parseInt(version, 10) >= oldestNode
    ? ok('node', `Node ${version}`)
    : fail('node', `Node ${version} is too old.`, `install Node ${oldestNode} or later`)
}

/** The file names accounts, and holds sessions where there is no keychain. */
export function checkLoginFile({ env }: Context): Check {
  const path = loginFilePath(env)
  if (!path) return warn('login file', 'There is no home folder, so no login can be kept.', 'set HOME, or COFFER_TOKEN')
  try {
    const { mode, uid } = statSync(path)
    if (process.getuid && uid !== process.getuid()) {
      return fail('login file', `${path} belongs to another user.`, `remove ${path}, then coffer login`)
    }
    if (process.platform !== 'win32' && (mode & 0o077) !== 0) {
      return fail('login file', `Others can read ${path}.`, `chmod 600 ${path}; coffer logout; coffer login`)
    }
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    return code === 'ENOENT'
      ? ok('login file', 'none')
      : fail('login file', `${path} cannot be read (${code ?? 'unknown'}).`)
  }
  try {
    parseLogins(readFileSync(path, 'utf8'))
    return ok('login file', `${path}, readable by you alone`)
  } catch {
    return warn('login file', `${path} is damaged and counts as no login.`, 'coffer login')
  }
}

export async function checkKeychain(): Promise<Check> {
  return (await hasKeychain())
    ? ok('keychain', 'works: the next login is kept there')
    : ok('keychain', 'none, or locked: sessions are kept in the login file')
}
