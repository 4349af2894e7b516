/** The store that a backup is loaded into: empty before, and marked as unfinished until the restore is complete. */
import { newId } from '../crypto/id.ts'
import { Failure } from '../failure.ts'
import { type Db, type Engine, type Reader, type Sql, sql } from './engine/sql.ts'
import type { Cell } from './engine/table-reader.ts'
import { restoringStep, steps } from './migrate.ts'
import { tableNames } from './table-list.ts'

const elsewhere = 'Name a new folder in COFFER_DATA_DIR or a new database in COFFER_DATABASE_URL'

/** Throws `conflict` if the database holds data or tables of others. What an interrupted restore has left is no data. */
export async function requireEmpty(engine: Engine): Promise<void> {
  const applied = await engine.migratedSteps()
  const ours = tableNames(await schemaSteps(engine, applied))
  const known = new Set([...ours, ...bookTables])
  const foreign = (await listTables(engine)).find((name) => !known.has(name))
  if (foreign !== undefined) {
    throw new Failure(
      'conflict',
      `The database has the table ${JSON.stringify(foreign)}, which is not of Coffer: restore into an empty one. ${elsewhere}.`,
    )
  }
  if (applied === restoringStep) return
  for (const name of ours) {
    if (await engine.one(plain(`select 1 as found from ${name} limit 1`))) {
      throw new Failure(
        'conflict',
        `The store is not empty: restore into an empty one. ${elsewhere}, or move the old one away.`,
      )
    }
  }
}

/** Creates the schema as it was after `schemaStep` steps, marked as unfinished. Returns the mark of this restore. */
export async function beginRestore(engine: Engine, schemaStep: number, nowMs: number): Promise<string> {
  await requireEmpty(engine)
  if ((await engine.migratedSteps()) > 0) await removeTables(engine)
  await applySteps(engine, 1, 1, nowMs)
  const mark = `restore ${newId()}`
  await engine.transaction('restore', async ({ db }) => {
    db.write(sql`insert into schema_step (step, name, applied_at) values (${restoringStep}, ${mark}, ${nowMs})`)
  })
  await applySteps(engine, 2, schemaStep, nowMs)
  return mark
}

/** Call in every transaction of a restore: another one may have started over since, and rows of two must not mix. */
export async function requireMark(db: Reader, mark: string): Promise<void> {
  const found = await db.one(sql`select step from schema_step where step = ${restoringStep} and name = ${mark}`)
  if (!found) throw takenOver()
}

const takenOver = () =>
  new Failure('conflict', 'Another restore into this store was begun or has ended meanwhile: this one was given up.')

/** Brings a restored store of an older version up to date, while it is still marked. */
export async function finishSchema(engine: Engine, schemaStep: number, nowMs: number): Promise<void> {
  await applySteps(engine, schemaStep + 1, steps.length, nowMs)
}

/** Call in the last transaction of a restore. */
export async function endRestore(db: Db, mark: string): Promise<void> {
  await requireMark(db, mark)
  db.write(sql`delete from schema_step where step = ${restoringStep}`)
}

async function applySteps(engine: Engine, from: number, to: number, nowMs: number): Promise<void> {
  for (let step = from; step <= to; step++) {
    const next = steps[step - 1]
    if (next) await engine.migrateStep(step, next.name, next.statement, nowMs)
  }
}

/** The log of the migrations, which is older than the first of them. */
const bookTables = ['schema_step', 'schema_lock']

/** Steps that made the tables: the mark of a restore is none. */
async function schemaSteps(engine: Engine, applied: number): Promise<number> {
  if (applied !== restoringStep) return applied
  const row = await engine.one<{ step: number }>(sql`
    select coalesce(max(step), 0) as step from schema_step where step < ${restoringStep}`)
  return row?.step ?? 0
}

/** Each step commits with its entry in the log, so these are the tables that there are, and never another program's. */
async function removeTables(engine: Engine): Promise<void> {
  const applied = await engine.migratedSteps()
  const present = await engine.shapes(tableNames(await schemaSteps(engine, applied)))
  await engine.transaction('restore', async ({ db }) => {
    // The other restore may have just ended: its store is not one to start over.
    const marks = await db.count(sql`delete from schema_step where step = ${restoringStep}`)
    if (applied === restoringStep && marks === 0) throw takenOver()
    for (const { name } of present.toReversed()) await db.count(plain(`drop table ${name}`))
    await db.count(plain('drop table schema_step'))
  })
}

/** Every table that a name without a schema can mean. */
async function listTables(engine: Engine): Promise<string[]> {
  const query =
    engine.kind === 'sqlite'
      ? plain(`select name from sqlite_schema where type = 'table' and name not glob 'sqlite_*'`)
      : plain(`select relname as name from pg_class
          where pg_table_is_visible(oid) and relkind in ('r', 'p', 'f') and relnamespace <> 'pg_catalog'::regnamespace`)
  return (await engine.all<{ name: string }>(query)).map(({ name }) => name)
}

/** For `runMany`: an insert of one row, with the same template for every row of the table. */
export function insertInto(table: string, columns: readonly string[]): (row: readonly Cell[]) => Sql {
  const parts = columns.map((_, index) =>
    index === 0 ? `insert into ${table} (${columns.join(', ')}) values (` : ', ',
  )
  parts.push(')')
  const strings = Object.assign(parts, { raw: parts })
  return (row) => ({ strings, values: row })
}

/** For text without values, made of names that our migrations define. */
function plain(text: string): Sql {
  const parts = [text]
  return { strings: Object.assign(parts, { raw: parts }), values: [] }
}
