/** Backups in a folder, on any file system. */
import { access, constants, lstat, mkdir, open, readdir, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { codeOf } from '../../../error-code.ts'
import { copyDurably, unfinishedSuffix } from './file-copy.ts'
import { backupTime, isStoredName, markedBackup } from './name.ts'
import { type BackupTarget, byAge, type StoredFile, TargetError } from './target.ts'

export function openFolder(folder: string): BackupTarget {
  const explain = async <Result>(what: string, work: Promise<Result>): Promise<Result> => {
    try {
      return await work
    } catch (error) {
      throw error instanceof Error && 'code' in error ? new TargetError(problemOf(folder, what, codeOf(error))) : error
    }
  }

  async function list(): Promise<StoredFile[]> {
    const files: StoredFile[] = []
    for (const name of (await readFolder(folder)).filter(isStoredName)) {
      const stat = await findStat(join(folder, name))
      const at = backupTime(markedBackup(name) ?? name)
      if (stat?.isFile() && at !== undefined) files.push({ name, bytes: stat.size, at })
    }
    return files.sort(byAge)
  }

  async function dropUnfinished(beforeMs: number, except: ReadonlySet<string>): Promise<void> {
    for (const file of await readFolder(folder)) {
      const name = file.endsWith(unfinishedSuffix) ? file.slice(0, -unfinishedSuffix.length) : ''
      if (!isStoredName(name) || except.has(name)) continue
      const stat = await findStat(join(folder, file))
      if (stat?.isFile() && stat.mtimeMs < beforeMs) await rm(join(folder, file), { force: true })
    }
  }

  return {
    name: folder,
    check: () => explain('written to', requireWritable(folder)),
    list: () => explain('read', list()),
    async put(name, stagedFile, options) {
      await explain('made', makeFolder(folder))
      await explain('written to', copyDurably(stagedFile, join(folder, name), options))
    },
    findBytes: async (name) => (await explain('read', findStat(join(folder, name))))?.size,
    read: (name, maxBytes) => explain('read', readText(join(folder, name), maxBytes)),
    async download(name, file, bytes, options) {
      const { size } = await explain('read', lstat(join(folder, name)))
      if (size !== bytes) throw new TargetError(`The file ${name} in the backup folder ${folder} has changed its size.`)
      await explain('read', copyDurably(join(folder, name), file, options))
    },
    remove: (name) => explain('written to', rm(join(folder, name), { force: true })),
    dropUnfinished: (beforeMs, except) => explain('written to', dropUnfinished(beforeMs, except)),
  }
}

/** Makes only the last part of the path: where a disk is not mounted, its mount point would fill instead. */
async function makeFolder(folder: string): Promise<void> {
  await mkdir(folder, { mode: 0o700 }).catch((error: unknown) => {
    if (codeOf(error) !== 'EEXIST') throw error
  })
}

/** The first backup makes the folder, in the folder above it. */
async function requireWritable(folder: string): Promise<void> {
  const isThere = (await stat(folder).catch(orMissing))?.isDirectory()
  if (isThere === undefined && !(await stat(dirname(folder)).catch(orMissing))?.isDirectory()) {
    throw new TargetError(problemOf(folder, 'made', 'ENOENT'))
  }
  if (isThere === false) throw new TargetError(problemOf(folder, 'written to', 'ENOTDIR'))
  await access(isThere ? folder : dirname(folder), constants.W_OK | constants.X_OK)
}

function orMissing(error: unknown): undefined {
  if (codeOf(error) !== 'ENOENT') throw error
}

async function readFolder(folder: string): Promise<string[]> {
  return readdir(folder).catch((error: unknown) => {
    // The first backup makes it.
    if (codeOf(error) === 'ENOENT') return []
    throw error
  })
}

async function readText(path: string, maxBytes: number): Promise<string> {
  const file = await open(path)
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(maxBytes))
    return buffer.toString('utf8', 0, bytesRead)
  } finally {
    await file.close()
  }
}

/** Undefined if the file is gone. On any other error nothing may be concluded, least of all that a backup has no marker. */
async function findStat(path: string) {
  return lstat(path).catch((error: unknown) => {
    if (codeOf(error) === 'ENOENT') return undefined
    throw error
  })
}

function problemOf(folder: string, what: string, code: string): string {
  if (code === 'ENOSPC' || code === 'EDQUOT') {
    return `The disk of the backup folder ${folder} is full (${code}): make room, or keep fewer backups.`
  }
  if (code === 'EROFS') return `The disk of the backup folder ${folder} is mounted read-only: mount it for writing.`
  if (code === 'ENOENT' && what === 'made') {
    return `The folder that should hold the backup folder ${folder} does not exist: check that its disk is mounted.`
  }
  return `The backup folder ${folder} cannot be ${what} (${code}): check that it belongs to the user of this process.`
}
