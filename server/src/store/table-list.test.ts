/** The list of tables that backups hold is the schema itself. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createDatabase, type Database } from '../../../test/harness.ts'
import { openEngine } from '../../../test/store.ts'
import { isDeep } from '../../../test/tier.ts'
import { type Engine, sql } from './engine/sql.ts'
import { steps } from './migrate.ts'
import { backedUpNames, tableNames } from './table-list.ts'

let database: Database
let engine: Engine

beforeAll(async () => {
  // The deep tier looks at the schema after every step on the way.
  database = await createDatabase({ hasSchema: !isDeep })
  engine = openEngine(database.settings)
})
afterAll(async () => {
  await engine.close()
  await database.drop()
})

async function listLive(): Promise<string[]> {
  const rows =
    engine.kind === 'sqlite'
      ? await engine.all<{ name: string }>(sql`select name from sqlite_schema where type = 'table'`)
      : await engine.all<{ name: string }>(sql`select tablename as name from pg_tables where schemaname = 'public'`)
  const bookkeeping = /^(schema_step|schema_lock|sqlite_.*)$/
  return rows.map(({ name }) => name).filter((name) => !bookkeeping.test(name))
}

test('after the migrations, the list names exactly the tables that are there', async () => {
  for (const [index, { name, statement }] of steps.entries()) {
    if (!isDeep && index + 1 < steps.length) continue
    await engine.migrateStep(index + 1, name, statement, 0)
    expect(tableNames(index + 1), name).toEqual((await listLive()).sort())
  }
})

test('a backup holds every table but those that describe the installation, each after those it references', async () => {
  const left = tableNames(steps.length).filter((name) => !backedUpNames(steps.length).includes(name))
  expect(left).toEqual(['backup', 'change', 'lease', 'node'])
  const shapes = await engine.shapes(backedUpNames(steps.length))
  const seen = new Set<string>()
  for (const { name, references } of shapes) {
    expect(
      references.filter((other) => !seen.has(other)),
      name,
    ).toEqual([])
    seen.add(name)
  }
  expect([...seen].sort()).toEqual(backedUpNames(steps.length))
  expect(shapes.find(({ name }) => name === 'secret_version')).toMatchObject({
    primaryKey: ['environment_id', 'secret_id', 'version'],
    columns: expect.arrayContaining([
      { name: 'sealed', kind: 'bytes' },
      { name: 'revision', kind: 'integer' },
    ]),
  })
})
