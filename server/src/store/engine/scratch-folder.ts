/**
 * A folder for work that must not outlive its process. Its owner holds a lock that the system releases when the process
 * dies, so that the next run can tell a folder in use from one that a killed run has left behind.
 */
import { randomBytes } from 'node:crypto'
import { lstatSync, mkdirSync, readdirSync, rmSync, type Stats } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'

const lockFile = 'lock'
/** A folder whose owner was killed before it could take the lock is empty and may wait. */
const unlockedMs = 3_600_000

type ScratchFolder = { readonly path: string; remove(): void }

/** Removes what killed runs left in `parent`, then creates a folder there that only this user can read. */
export function createScratchFolder(parent: string, prefix: string): ScratchFolder {
  removeLeftovers(parent, prefix)
  const path = join(parent, `${prefix}${randomBytes(6).toString('hex')}`)
  mkdirSync(path, { mode: 0o700 })
  const lock = new DatabaseSync(join(path, lockFile), { timeout: 0 })
  const remove = () => {
    rmSync(path, { recursive: true, force: true })
    lock.close()
  }
  try {
    lock.exec('begin exclusive')
  } catch (error) {
    // The disk is full.
    remove()
    throw error
  }
  return { path, remove }
}

function removeLeftovers(parent: string, prefix: string): void {
  for (const name of listFolder(parent)) {
    const isNamedSo = name.startsWith(prefix) && /^[0-9a-f]{12}$/.test(name.slice(prefix.length))
    if (isNamedSo) removeLeftover(join(parent, name))
  }
}

/** Anybody may make folders and links in a folder for temporary files: what cannot be removed must not stop the work. */
function removeLeftover(path: string): void {
  try {
    const folder = lstatSync(path)
    if (folder.isDirectory() && isOwn(folder) && !isInUse(path, folder)) rmSync(path, { recursive: true, force: true })
  } catch {
    // It stays: the next run tries again.
  }
}

function listFolder(parent: string): string[] {
  try {
    return readdirSync(parent)
  } catch {
    return []
  }
}

const isOwn = ({ uid }: Stats): boolean => uid === process.getuid?.()

function isInUse(path: string, folder: Stats): boolean {
  const lockPath = join(path, lockFile)
  const found = lstatSync(lockPath, { throwIfNoEntry: false })
  if (!found) return Date.now() - folder.mtimeMs < unlockedMs
  // A link could lead to another user's file, which opening would lock.
  if (!found.isFile() || !isOwn(found)) return true
  const lock = new DatabaseSync(lockPath, { timeout: 0 })
  try {
    lock.exec('begin exclusive')
    return false
  } catch {
    return true
  } finally {
    lock.close()
  }
}
