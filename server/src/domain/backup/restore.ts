/** Restores a backup into an empty store of either engine. The store is usable after `finishMove` or `endRevivedState`. */
import type { Engine } from '../../store/engine/sql.ts'
import type { Keys, MasterAccess } from '../../store/key/key.ts'
import { endRestore, finishSchema, requireEmpty, requireMark } from '../../store/restore-target.ts'
import type { BackupFile } from './file.ts'
import { loadBackup, refuseNewerBackup } from './load.ts'
import type { BackupOptions, Manifest } from './manifest.ts'
import { readBackup, unlockBackup } from './read.ts'

export type Restored = { readonly manifest: Manifest; readonly mark: string; readonly keys: Keys }

/** Changes nothing before the whole file was checked. If it is interrupted after that, run it again: it starts over. */
export async function restoreBackup(
  engine: Engine,
  file: BackupFile,
  master: MasterAccess,
  options: BackupOptions,
): Promise<Restored> {
  refuseNewerBackup(file.header)
  await requireEmpty(engine)
  const key = unlockBackup(file, master)
  await readBackup(file, key, 'check', options)
  const { manifest, mark } = await loadBackup(engine, file, key, Date.now(), options)
  await requireMark(engine, mark)
  await finishSchema(engine, manifest.schemaStep, Date.now())
  return { manifest, mark, keys: await master.openKeys(engine) }
}

/** The store goes on as it was, on another engine or machine. */
export async function finishMove(engine: Engine, mark: string): Promise<void> {
  await engine.transaction('restore', ({ db }) => endRestore(db, mark))
}
