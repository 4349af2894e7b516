/**
 * The folder in which scheduled backups are made before they are stored in their target. The file of a verified backup
 * stays there until the target has it, so that an upload can go on after a kill; everything else is removed by the next run.
 */
import { hash } from 'node:crypto'
import { lstat, mkdir, readdir, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Config } from '../../config.ts'
import { codeOf } from '../../error-code.ts'
import { requireRoom } from './room.ts'
import { backupTime } from './target/name.ts'
import { TargetError } from './target/target.ts'

export type Staging = {
  readonly folder: string
  pathOf(name: string): string
  /** The newest verified backup that no target has yet, if it was begun after this time. */
  findStaged(sinceMs: number): Promise<string | undefined>
  /** Removes everything else. */
  keepOnly(name: string | undefined): Promise<void>
  remove(): Promise<void>
}

/** A backup needs room for a copy of the store, for the backup itself and for the store of the verification. */
const copies = 3
export async function openStaging({ dataDir, databaseUrl }: Config): Promise<Staging> {
  const folder = databaseUrl === undefined ? join(dataDir, 'backup-staging') : temporaryFolder(dataDir, databaseUrl)
  await makeOwnFolder(folder)
  if (databaseUrl === undefined) {
    const { size } = await stat(join(dataDir, 'coffer.db'))
    await requireRoom(folder, copies * size, 'The disk of the data folder', 'making a backup')
  }
  return {
    folder,
    pathOf: (name) => join(folder, name),
    async findStaged(sinceMs) {
      const names = (await readdir(folder)).filter((name) => (backupTime(name) ?? 0) > sinceMs)
      return names.sort().at(-1)
    },
    async keepOnly(name) {
      for (const one of await readdir(folder)) {
        if (one !== name) await rm(join(folder, one), { recursive: true, force: true })
      }
    },
    remove: () => rm(folder, { recursive: true, force: true }),
  }
}

/** Two installations on one machine may have the same path of a data folder, as in containers that share `/tmp`. */
function temporaryFolder(dataDir: string, databaseUrl: string): string {
  const { hostname, port, pathname, searchParams } = new URL(databaseUrl)
  // A path of a socket is given as a parameter. The password must not reach a name on the disk, not even as a hash.
  const database = [searchParams.get('host') ?? hostname, searchParams.get('port') ?? (port || '5432'), pathname]
  const own = hash('sha256', JSON.stringify([dataDir, ...database]), 'hex').slice(0, 16)
  return join(tmpdir(), `coffer-backup-${own}`)
}

/** Anybody may make folders in the folder for temporary files: one of another user is refused. */
async function makeOwnFolder(folder: string): Promise<void> {
  try {
    await mkdir(folder, { mode: 0o700 })
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') {
      throw new TargetError(`The folder ${folder}, where backups are made, cannot be created (${codeOf(error)}).`)
    }
  }
  const { uid, mode } = await lstat(folder)
  if (uid !== process.getuid?.() || (mode & 0o077) !== 0) {
    throw new TargetError(`The folder ${folder}, where backups are made, is open to others: remove it.`)
  }
}
