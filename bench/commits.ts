/** The reference for durable writes: single-row commits per second, one after another, without a server. */
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import pg from 'pg'
import { makeFolder, removeFolder } from './scratch.ts'

const measuredMs = 1_000

export async function commitsOfSqlite(): Promise<number> {
  const folder = makeFolder()
  const database = new DatabaseSync(join(folder, 'raw.db'))
  database.exec('pragma journal_mode = wal; pragma synchronous = full; create table t (a integer, b text)')
  const insert = database.prepare('insert into t values (?, ?)')
  const startedAt = performance.now()
  let count = 0
  while (performance.now() - startedAt < measuredMs) insert.run(++count, 'a row')
  const perSecond = (count * 1_000) / (performance.now() - startedAt)
  database.close()
  removeFolder(folder)
  return perSecond
}

export async function commitsOfPostgres(url: string): Promise<number> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    await client.query('create table if not exists raw_commit (a integer, b text)')
    const insert = { name: 'insert', text: 'insert into raw_commit values ($1, $2)' }
    const startedAt = performance.now()
    let count = 0
    while (performance.now() - startedAt < measuredMs) await client.query({ ...insert, values: [++count, 'a row'] })
    return (count * 1_000) / (performance.now() - startedAt)
  } finally {
    await client.end()
  }
}
