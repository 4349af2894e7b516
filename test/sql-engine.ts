/** A database with a few plain tables, open on two nodes, for tests of the SQL layer. */
import { join } from 'node:path'
import { openPostgres } from '../server/src/store/engine/postgres.ts'
import { type Db, type Engine, type Reader, sql } from '../server/src/store/engine/sql.ts'
import { openSqlite } from '../server/src/store/engine/sqlite.ts'
import { createDatabase, type Database } from './harness.ts'

type SqlDatabase = {
  readonly database: Database
  readonly engine: Engine
  /** A second node on the same database. */
  readonly other: Engine
  openEngine(): Engine
  close(): Promise<void>
}

export async function createSqlDatabase(): Promise<SqlDatabase> {
  const database = await createDatabase()
  const openEngine = () => {
    const url = database.settings.COFFER_DATABASE_URL
    return url === undefined ? openSqlite(join(database.dataDir, 'sql-test.db')) : openPostgres(url)
  }
  const engine = openEngine()
  await engine.migratedSteps()
  const tables = [
    `create table item (id text primary key, label text, amount bigint, bytes bytea)`,
    `create table part (id text primary key, item_id text not null references item (id))`,
    `create table balance (id text primary key, amount bigint not null)`,
    `create table arrival (sequence $serial, id text not null)`,
  ]
  for (const [index, statement] of tables.entries()) await engine.migrateStep(index + 1, 'test', statement, 0)
  const other = openEngine()
  const close = async () => {
    await other.close()
    await engine.close()
    await database.drop()
  }
  return { database, engine, other, openEngine, close }
}

let made = 0
export const unused = () => `id-${++made}`

export type Item = { id: string; label: string | null; amount: number | null; bytes: Uint8Array | null }
export const findItem = (reader: Reader, id: string) =>
  reader.one<Item>(sql`select id, label, amount, bytes from item where id = ${id}`)
export const insertItem = (db: Db, id: string, label: string | null = null) =>
  db.count(sql`insert into item (id, label) values (${id}, ${label})`)

type Settled = { ok: true } | { ok: false; error: unknown }
export const settle = (promise: Promise<unknown>): Promise<Settled> =>
  promise.then(
    () => ({ ok: true }),
    (error: unknown) => ({ ok: false, error }),
  )

/** A promise that never settles fails with its description. */
const hangMs = 120_000
export const soon = <Result>(promise: Promise<Result>, what: string): Promise<Result> => {
  const { promise: late, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new Error(`${what} took longer than ${hangMs} ms`)), hangMs)
  return Promise.race([promise, late]).finally(() => clearTimeout(timer))
}
