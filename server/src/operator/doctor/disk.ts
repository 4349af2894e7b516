/** Room on the disk, for the store and for a copy of it. */
import { access, constants, stat, statfs } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Config } from '../../config.ts'
import { codeOf } from '../../error-code.ts'
import { databaseFile, fileError } from '../../open-store.ts'
import { type Check, type Finding, note, ok, wrong } from './finding.ts'

const minFreeBytes = 1024 ** 3
/** SQLite cannot commit with less. */
const minAnyBytes = 1024 ** 2
/** A log of SQLite is folded into the file all the time. */
const maxLogBytes = 1024 ** 3

const why = 'Every read of a value is recorded: on a full disk the service serves none.'
const fix = 'make room before writes are refused, or move COFFER_DATA_DIR to a larger disk.'

export function diskChecks(config: Config): Check[] {
  return [{ name: 'disk', why, fix, run: () => checkDisk(config) }]
}

async function checkDisk(config: Config): Promise<Finding | Finding[]> {
  const { databaseUrl, dataDir } = config
  if (databaseUrl !== undefined) return checkTemporary(tmpdir())
  const status = await statfs(dataDir).catch((error: unknown) => codeOf(error))
  if (typeof status === 'string') {
    return wrong(`the folder ${dataDir} cannot be read (${status})`, why, 'check COFFER_DATA_DIR and its permissions.')
  }
  await access(dataDir, constants.W_OK).catch((error: unknown) => {
    throw fileError(config, error)
  })
  const freeBytes = status.bavail * status.bsize
  if (freeBytes < minAnyBytes) return wrong(`the disk of ${dataDir} is full`, why, fix)
  if (freeBytes < minFreeBytes) return wrong(`only ${inGiB(freeBytes)} GiB free`, why, fix)
  return checkRoom(dataDir, freeBytes)
}

/** The store is on the disk of PostgreSQL: only backups need room here. */
async function checkTemporary(folder: string): Promise<Finding> {
  const { bavail, bsize } = await statfs(folder)
  const free = `${inGiB(bavail * bsize)} GiB free in ${folder}`
  if (bavail * bsize >= minFreeBytes) return ok(free)
  return note(
    `only ${free}`,
    'Backups are made and verified there, which takes room for the whole store.',
    'set TMPDIR to a folder on a larger disk.',
  )
}

async function checkRoom(dataDir: string, freeBytes: number): Promise<Finding[]> {
  const file = join(dataDir, databaseFile)
  const [storeBytes, logBytes] = await Promise.all([sizeOf(file), sizeOf(`${file}-wal`)])
  const size = `${inGiB(freeBytes)} GiB free, the store takes ${inGiB(storeBytes + logBytes)}`
  const room =
    freeBytes < storeBytes + minFreeBytes
      ? note(size, 'A backup, and the snapshot before an upgrade, need room for a copy of the store.', fix)
      : ok(size)
  if (logBytes < maxLogBytes) return [room]
  return [
    room,
    note(
      `the log ${databaseFile}-wal has grown to ${inGiB(logBytes)} GiB`,
      'Something reads the file for so long that the log cannot be folded into it, and reads become slow.',
      'end programs that have the file open, such as sqlite3, or restart the service.',
    ),
  ]
}

const sizeOf = async (path: string) => (await stat(path).catch(() => undefined))?.size ?? 0
const inGiB = (bytes: number) => (bytes / 1024 ** 3).toFixed(1)
