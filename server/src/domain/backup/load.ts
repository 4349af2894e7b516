/** Loads a backup into an empty store of either engine, which stays marked as unfinished until `endRestore`. */
import type { KeyObject } from 'node:crypto'
import { Failure } from '../../failure.ts'
import type { Engine } from '../../store/engine/sql.ts'
import { steps } from '../../store/migrate.ts'
import { beginRestore, insertInto, requireMark } from '../../store/restore-target.ts'
import { backedUpNames } from '../../store/table-list.ts'
import { type BackupFile, damaged } from './file.ts'
import type { BackupHeader, BackupOptions, Manifest } from './manifest.ts'
import { type BackupTable, readBackup } from './read.ts'

export function refuseNewerBackup({ schemaStep, version }: BackupHeader): void {
  if (schemaStep <= steps.length) return
  throw new Failure(
    'conflict',
    `This backup is of Coffer ${version} (step ${schemaStep}, this version knows ${steps.length}): restore it with that version or a later one.`,
  )
}

export type Loaded = { readonly manifest: Manifest; readonly mark: string }

export async function loadBackup(
  engine: Engine,
  file: BackupFile,
  key: KeyObject,
  nowMs: number,
  options: BackupOptions,
): Promise<Loaded> {
  const { schemaStep } = file.header
  refuseNewerBackup(file.header)
  const mark = await beginRestore(engine, schemaStep, nowMs)
  const shapes = await engine.shapes(backedUpNames(schemaStep))
  const inserts = new Map(
    shapes.map(({ name, columns }) => {
      const names = columns.map((column) => column.name)
      return [name, { columns: names.join(), insert: insertInto(name, names) }]
    }),
  )
  const requireInsert = ({ name, columns }: BackupTable) => {
    const known = inserts.get(name)
    if (known?.columns !== columns.join()) throw damaged(`its table ${name} is not one of step ${schemaStep}`)
    return known.insert
  }
  const manifest = await readBackup(file, key, 'load', options, async (table, rows) => {
    const insert = requireInsert(table)
    await engine.transaction('restore', async ({ db }) => {
      await requireMark(db, mark)
      db.writeMany([...rows()], insert)
    })
  })
  return { manifest, mark }
}
