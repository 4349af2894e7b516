/** Query plans of all statements in the store: none scans a table that grows. */
import { readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { describe, expect, test } from 'vitest'
import { createDatabase, type Database, engine as kind } from '../../../test/harness.ts'
import { connectPostgres } from '../../../test/postgres-client.ts'
import { openEngine } from '../../../test/store.ts'
import { anyOf, compile, type Engine, forUpdate, fragment, skipLocked, sql } from './engine/sql.ts'
import { openSqlite } from './engine/sqlite.ts'
import { migrate } from './migrate.ts'

async function withDatabase<Result>(work: (database: Database) => Promise<Result>): Promise<Result> {
  const database = await createDatabase()
  try {
    return await work(database)
  } finally {
    await database.drop()
  }
}

async function withEngine<Result>(database: Database, work: (engine: Engine) => Promise<Result>): Promise<Result> {
  const engine = openEngine(database.settings)
  try {
    return await work(engine)
  } finally {
    await engine.close()
  }
}

type Statement = { readonly file: string; readonly sqlite: string; readonly postgres: string }

/** Every statement in the source of the store, compiled for both engines; new files are covered automatically. */
function listStatements(): Statement[] {
  const folder = resolve(import.meta.dirname)
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter(
    (name) => name.endsWith('.ts') && !name.endsWith('.test.ts') && !name.startsWith('migrations/'),
  )
  const texts = new Map(files.map((file) => [file, readFileSync(join(folder, file), 'utf8')]))
  const exported = [...texts.values()].flatMap((text) => fragmentsIn(text, 'export '))
  return [...texts].flatMap(([file, text]) => {
    const fragments = new Map([...exported, ...fragmentsIn(text, '')])
    return [...text.matchAll(/\bsql`((?:[^`\\]|\\.)*)`/g)].map(([, body = '']) => {
      const strings: string[] = []
      const values: Parameters<typeof sql>[1][] = []
      let rest = body.replaceAll('\\\\', '\\')
      for (let start = rest.indexOf('${'); start >= 0; start = rest.indexOf('${')) {
        const end = endOfExpression(rest, start + 2)
        const expression = rest.slice(start + 2, end).trim()
        strings.push(rest.slice(0, start))
        const known = fragments.get(expression)
        if (known !== undefined) values.push(fragment(known))
        else if (expression === 'forUpdate') values.push(forUpdate)
        else if (expression === 'skipLocked') values.push(skipLocked)
        else if (expression.startsWith('anyOf(')) values.push(anyOf([]))
        else values.push(null)
        rest = rest.slice(end + 1)
      }
      const query = sql(Object.assign([...strings, rest], { raw: [] }), ...values)
      return { file, sqlite: compile(query, 'sqlite').text, postgres: compile(query, 'postgres').text }
    })
  })
}

/** Names and texts of the fragments that a file defines. */
const fragmentsIn = (text: string, before: '' | 'export ') =>
  [...text.matchAll(/(?<=^|\n)(export )?const (\w+) = fragment\(\s*([`'])([^`']*)\3,?\s*\)/g)]
    .filter(([, isExported]) => before === '' || isExported !== undefined)
    .map(([, , name = '', , body = '']) => [name, body] as const)

function endOfExpression(text: string, from: number): number {
  let depth = 1
  for (let index = from; index < text.length; index++) {
    if (text[index] === '{') depth++
    if (text[index] === '}') depth--
    if (depth === 0) return index
  }
  throw new Error(`an expression without an end: ${text.slice(from, from + 40)}`)
}

/** Tables with a handful of rows, whatever the size of the installation. */
const smallTables = /\b(root_key|signing_key|instance|master_handover|kept|schema_step|schema_lock|r)\b/
const notMoved = /where (mac_)?root_id <> /
/** Statements of operator commands that must read everything. */
const operatorStatements: readonly RegExp[] = [
  // `keys status`, and the end of a rotation.
  /select r\.id, r\.is_active/,
  // `keys rotate-root`: the final check for rows under an old root, and the removal of a root that nothing uses.
  notMoved,
  /delete from root_key/,
  // The start and `doctor` compare clocks: one look-up by index for each workspace.
  /select max\(at\) as at from change\s+union all/,
]
/** Of `restore` and `backup verify`, which read or change everything. */
const operatorFiles: readonly string[] = ['revived-state.ts', 'secret/sealed-walk.ts']
/** Stops at the first row. */
const boundedScan = /^select count\(\*\) as count from \(select id from account limit 1\) a$/

describe('no statement scans a table that grows', () => {
  const statements = listStatements()
  const checked = statements.filter(
    ({ file, sqlite }) => !operatorFiles.includes(file) && !operatorStatements.some((known) => known.test(sqlite)),
  )

  test('all statements are checked', () => {
    expect(statements.length).toBeGreaterThan(60)
    for (const { sqlite } of statements) expect(sqlite).not.toContain('${')
    for (const known of operatorStatements) expect(statements.some(({ sqlite }) => known.test(sqlite))).toBe(true)
  })

  test('according to the query plans of the engine', async () => {
    await withDatabase(async (database) => {
      await withEngine(database, (engine) => migrate(engine, 1))
      const plans = await (kind === 'sqlite' ? sqlitePlans : postgresPlans)(database, checked)
      const scans = plans.flatMap(({ statement, lines }) =>
        lines
          .filter((line) => /\bSCAN\b|Seq Scan/.test(line))
          .filter((line) => !/SCAN CONSTANT ROW|VIRTUAL TABLE|SCAN \(?(subquery|a|given)\b|SCAN json_each/.test(line))
          .filter((line) => !smallTables.test(line) && !boundedScan.test(statement.sqlite))
          .map((line) => `${statement.file}: ${line.trim()} in ${statement.sqlite.replace(/\s+/g, ' ').trim()}`),
      )
      expect(plans.length).toBe(checked.length)
      expect(scans).toEqual([])
    })
  })

  test('a key rotation finds the remaining rows by an index on their root, and does not scan the moved ones', async () => {
    await withDatabase(async (database) => {
      await withEngine(database, (engine) => migrate(engine, 1))
      const moves = statements.filter(({ sqlite }) => notMoved.test(sqlite))
      const plans = await (kind === 'sqlite' ? sqlitePlans : postgresPlans)(database, moves)
      expect(plans).toHaveLength(15)
      for (const { statement, lines } of plans) {
        expect(lines.join(), statement.sqlite).toMatch(/(USING INDEX|Index Scan using) \w+_root\b/)
        expect(lines.join(), statement.sqlite).not.toMatch(/TEMP B-TREE|Sort/)
      }
    })
  })

  type Plan = { readonly statement: Statement; readonly lines: readonly string[] }

  async function sqlitePlans({ dataDir }: Database, asked: readonly Statement[]): Promise<Plan[]> {
    const { DatabaseSync } = await import('node:sqlite')
    const connection = new DatabaseSync(join(dataDir, 'coffer.db'))
    const plans = asked.map((statement) => ({
      statement,
      lines: connection
        .prepare(`explain query plan ${statement.sqlite}`)
        .all()
        .map(({ detail }) => String(detail)),
    }))
    connection.close()
    return plans
  }

  async function postgresPlans({ settings }: Database, asked: readonly Statement[]): Promise<Plan[]> {
    const client = await connectPostgres(settings.COFFER_DATABASE_URL)
    // PostgreSQL scans an empty table unless sequential scans are disabled.
    await client.query('set enable_seqscan = off')
    const plans: Plan[] = []
    for (const statement of asked) {
      const { rows } = await client.query(`explain (generic_plan) ${statement.postgres}`)
      plans.push({ statement, lines: rows.map((row) => String(row['QUERY PLAN'])) })
    }
    await client.end()
    return plans
  }

  test('deleting a referenced row scans no table: every foreign key has an index', async () => {
    await withDatabase(async ({ dataDir }) => {
      const path = join(dataDir, 'references.db')
      const engine = openSqlite(path)
      await migrate(engine, 1)
      await engine.close()
      const { DatabaseSync } = await import('node:sqlite')
      const connection = new DatabaseSync(path)
      const tables = connection.prepare(`select name from sqlite_master where type = 'table'`).all()
      const missing = tables.flatMap(({ name: table }) => {
        const columnsOf = (index: unknown) =>
          connection
            .prepare('select name from pragma_index_info(?) order by seqno')
            .all(String(index))
            .map(({ name }) => String(name))
        const indexes = connection.prepare('select name from pragma_index_list(?)').all(String(table))
        const lists = indexes.map(({ name }) => columnsOf(name))
        const references = connection
          .prepare('select id, "table" as parent, "from" as column from pragma_foreign_key_list(?) order by id, seq')
          .all(String(table))
        const grouped = Map.groupBy(references, ({ id }) => id)
        return [...grouped.values()]
          .filter((parts) => parts[0]?.parent !== 'root_key')
          .map((parts) => parts.map(({ column }) => String(column)))
          .filter(
            (columns) =>
              !lists.some((list) => columns.every((column) => list.slice(0, columns.length).includes(column))),
          )
          .map((columns) => `${String(table)} (${columns.join(', ')})`)
      })
      connection.close()
      expect(tables.length).toBeGreaterThan(15)
      expect(missing).toEqual([])
    })
  })
})
