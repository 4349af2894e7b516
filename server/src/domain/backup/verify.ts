/** Proves that a backup can be restored: restores it into a scratch store, and checks everything in there. */
import { join } from 'node:path'
import { Failure } from '../../failure.ts'
import { createScratchFolder } from '../../store/engine/scratch-folder.ts'
import { openSqlite } from '../../store/engine/sqlite.ts'
import { fileTrouble } from '../../store/engine/sqlite-connection.ts'
import { readSqliteFile } from '../../store/engine/sqlite-table-reader.ts'
import type { TableReader } from '../../store/engine/table-reader.ts'
import type { MasterAccess } from '../../store/key/key.ts'
import { endRestore, finishSchema } from '../../store/restore-target.ts'
import { backedUpNames } from '../../store/table-list.ts'
import { checkStore } from './check-store.ts'
import { encodeTable } from './encode-table.ts'
import { type BackupFile, openBackupFile } from './file.ts'
import { loadBackup } from './load.ts'
import type { BackupHeader, BackupOptions, Manifest } from './manifest.ts'
import { unlockBackup } from './read.ts'

export type Verdict = {
  readonly ok: boolean
  /** One sentence each. */
  readonly problems: readonly string[]
  /** Undefined if the file could not be read to its end. */
  readonly manifest: Manifest | undefined
}

export const notVerified = ({ problems }: Verdict) =>
  new Failure('integrity', `The backup could not be verified, so it was not stored: ${problems[0]}`)

type VerifyOptions = BackupOptions & {
  /** Needs room for the whole store. */
  readonly scratchFolder: string
}

/** `unlock` gets the header, because a key service may have to open the master key that is wrapped in it. */
export async function verifyBackup(
  path: string,
  unlock: (header: BackupHeader) => Promise<MasterAccess>,
  options: VerifyOptions,
): Promise<Verdict> {
  let file: BackupFile | undefined
  try {
    file = await openBackupFile(path)
    return await verifyFile(file, await unlock(file.header), options)
  } catch (error) {
    // A problem of the scratch store says nothing about the backup.
    const trouble = fileTrouble(error)
    if (trouble) throw new Failure('unavailable', `The scratch store in ${options.scratchFolder} ${trouble}`)
    if (!(error instanceof Failure)) throw error
    return { ok: false, problems: [error.message], manifest: undefined }
  } finally {
    await file?.close()
  }
}

async function verifyFile(file: BackupFile, master: MasterAccess, options: VerifyOptions): Promise<Verdict> {
  const key = unlockBackup(file, master)
  const scratch = createScratchFolder(options.scratchFolder, 'coffer-verify-')
  try {
    const store = join(scratch.path, 'coffer.db')
    const engine = openSqlite(store)
    try {
      const { manifest, mark } = await loadBackup(engine, file, key, Date.now(), options)
      const problems = await readSqliteFile(store, (reader) => findDifferences(reader, manifest, options))
      await finishSchema(engine, manifest.schemaStep, Date.now())
      await engine.transaction('restore', ({ db }) => endRestore(db, mark))
      problems.push(...(await checkStore(engine, await master.openKeys(engine), manifest, options)))
      return { ok: problems.length === 0, problems, manifest }
    } finally {
      await engine.close()
    }
  } finally {
    scratch.remove()
  }
}

/** Compares the rows that are in the scratch store now with those that were written. */
async function findDifferences(reader: TableReader, manifest: Manifest, options: BackupOptions): Promise<string[]> {
  const total = manifest.tables.reduce((sum, { rows }) => sum + rows, 0)
  const tables = await reader.shapes(backedUpNames(manifest.schemaStep))
  const problems: string[] = []
  let done = 0
  for (const expected of manifest.tables) {
    const table = tables.find(({ name }) => name === expected.name)
    const found = table && (await encodeTable(reader, table, (_bytes, rows) => report(rows)))
    if (found?.rows !== expected.rows || found.digest !== expected.digest) {
      problems.push(`The restored table ${expected.name} differs from the one that was backed up.`)
    }
  }
  return problems

  function report(rows: number): void {
    options.signal?.throwIfAborted()
    done += rows
    options.onProgress?.({ stage: 'compare', done, total })
  }
}
