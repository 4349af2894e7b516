/** Snapshots of a service's database, to prove that a refused request changed nothing and to undo an allowed one. */
import type { Services } from '../server/src/domain/context.ts'
import type { Db, Engine, Sql, SqlValue } from '../server/src/store/engine/sql.ts'

type Row = Readonly<Record<string, SqlValue>>
type Table = { readonly name: string; readonly key: readonly string[] }
type Rows = ReadonlyMap<string, Row>
export type Content = {
  /** Rows by table and primary key; referenced tables come first. */
  readonly tables: ReadonlyMap<Table, Rows>
  /** The head of every audit chain. */
  readonly trail: string
}

/** Append-only tables; `trail` holds the heads of the chains. */
const journals = new Set([
  'audit_entry',
  'audit_head',
  'audit_batch',
  'audit_key_list',
  'audit_mark',
  'change',
  'schema_step',
  'schema_lock',
  'node',
])
/** Usage timestamps, which every request updates whatever its status. */
const volatileColumns = new Set(['last_used_at', 'last_used_ip', 'last_seen_at'])

export async function readContent({ engine }: Pick<Services, 'engine'>): Promise<Content> {
  const { tables, rows } = await watch(engine)
  const touched = await engine.transaction('test:content', ({ db }) =>
    db.all<{ name: string }>(statement(['delete from test_touched returning name'])),
  )
  const names = new Set(touched.map(({ name }) => name))
  const stale = tables.filter((table) => names.has(table.name) || !rows.has(table))
  await Promise.all(stale.map(async (table) => rows.set(table, await readRows(engine, table))))
  const heads = await engine.all<Row>(statement(['select chain_id, sequence, hash from audit_head order by chain_id']))
  return {
    tables: new Map(tables.map((table) => [table, rows.get(table) ?? new Map()])),
    trail: heads.map(toText).join('\n'),
  }
}

/** Describes every added, removed or changed row; empty if nothing changed. */
export const describeChanges = (before: Content, after: Content): string[] =>
  changesBetween(before, after).map(describeChange)

export function describeChange({ table, was, is }: Change): string {
  const what = !was ? 'added' : !is ? 'removed' : 'changed'
  return `${table.name} ${what}: ${was ? toText(was) : ''} → ${is ? toText(is) : ''}`
}

/** Restores every row except the audit trail, and returns the new content. */
export async function restoreContent(
  services: Services,
  before: Content,
  after: Content,
  changes = changesBetween(before, after),
): Promise<Content> {
  const apply = (updates: typeof changes) =>
    services.engine.transaction('test:restore', async ({ db }) => {
      for (const { table, was, is } of changes.toReversed()) if (!was && is) await remove(db, table, is)
      for (const { table, was, is } of changes) if (was && !is) await insert(db, table, was)
      for (const { table, was, is } of updates) if (was && is) await update(db, table, was)
    })
  // A unique value can move from one row to another in one order only.
  await apply(changes).catch(() => apply(changes.toReversed()))
  services.snapshots.clear()
  services.credentials.clear()
  return { ...before, trail: after.trail }
}

export type Change = { readonly table: Table; readonly was: Row | undefined; readonly is: Row | undefined }

export function changesBetween(before: Content, after: Content): Change[] {
  const changes: Change[] = []
  for (const [table, rows] of before.tables) {
    const now: Rows = after.tables.get(table) ?? new Map()
    if (rows === now) continue
    for (const [key, was] of rows) {
      const is = now.get(key)
      if (!is || !isSame(was, is)) changes.push({ table, was, is })
    }
    for (const [key, is] of now) if (!rows.has(key)) changes.push({ table, was: undefined, is })
  }
  return changes
}

function isSame(was: Row, is: Row): boolean {
  for (const column in was) {
    const [a, b] = [was[column], is[column]]
    const isEqual = a instanceof Uint8Array && b instanceof Uint8Array ? Buffer.compare(a, b) === 0 : a === b
    if (!isEqual && !volatileColumns.has(column)) return false
  }
  return true
}

async function readRows(engine: Engine, table: Table): Promise<Rows> {
  const rows = await engine.all<Row>(statement([`select * from "${table.name}"`]))
  return new Map(rows.map((row) => [table.key.map((column) => row[column]).join(), row]))
}

/** Tables are read again only after a change; triggers record changes on any connection. */
type Watched = { readonly tables: readonly Table[]; readonly rows: Map<Table, Rows> }
const watched = new WeakMap<Engine, Promise<Watched>>()

function watch(engine: Engine): Promise<Watched> {
  let watching = watched.get(engine)
  if (!watching) {
    watching = addTriggers(engine)
    watched.set(engine, watching)
  }
  return watching
}

/** One transaction per statement: a transaction that locks many tables could deadlock with a job. */
async function addTriggers(engine: Engine): Promise<Watched> {
  const tables = await readSchema(engine)
  // Without a key, two transactions that touch the same tables do not wait for each other.
  const texts = ['create table if not exists test_touched (name text not null)']
  if (engine.kind === 'postgres') {
    texts.push(
      `create or replace function test_touch() returns trigger language plpgsql as
        'begin insert into test_touched values (TG_TABLE_NAME); return null; end'`,
    )
  }
  texts.push(...tables.flatMap(({ name }) => triggers[engine.kind](name)))
  for (const text of texts) await engine.transaction('test:content', ({ db }) => db.count(statement([text])))
  return { tables, rows: new Map() }
}

const triggers: Readonly<Record<Engine['kind'], (table: string) => string[]>> = {
  sqlite: (table) =>
    ['insert', 'update', 'delete'].map(
      (event) =>
        `create trigger if not exists "test_${event}_${table}" after ${event} on "${table}"
          begin insert into test_touched values ('${table}'); end`,
    ),
  postgres: (table) => [
    `create or replace trigger test_touched after insert or update or delete on "${table}"
      for each statement execute function test_touch()`,
  ],
}

const schemaQueries = {
  sqlite: `select m.name, i.name as "column" from sqlite_schema m join pragma_table_info(m.name) i
    where m.type = 'table' and i.pk > 0 order by m.rowid, i.pk`,
  postgres: `select c.relname as name, a.attname as "column"
    from pg_class c join pg_index i on i.indrelid = c.oid and i.indisprimary
    join pg_attribute a on a.attrelid = c.oid and a.attnum = any(i.indkey)
    where c.relkind = 'r' and c.relnamespace = 'public'::regnamespace order by c.oid, a.attnum`,
}

async function readSchema(engine: Engine): Promise<Table[]> {
  const columns = await engine.all<{ name: string; column: string }>(statement([schemaQueries[engine.kind]]))
  const byTable = [...Map.groupBy(columns, ({ name }) => name)]
  // Older tables have got references to this one, which itself refers to the workspace alone.
  const isReferenced = ([name]: (typeof byTable)[number]) => name === 'service_account'
  const place = byTable.findIndex(([name]) => name === 'workspace') + 1
  const others = byTable.filter((table) => !isReferenced(table))
  return [...others.slice(0, place), ...byTable.filter(isReferenced), ...others.slice(place)]
    .filter(([name]) => !journals.has(name) && !name.startsWith('sqlite_'))
    .map(([name, parts]) => ({ name, key: parts.map(({ column }) => column) }))
}

function remove(db: Db, table: Table, row: Row): Promise<number> {
  return db.count(conditional(`delete from "${table.name}"`, [], table, row))
}

function insert(db: Db, table: Table, row: Row): Promise<number> {
  const columns = Object.keys(row)
  const places = columns.map((_column, index) => (index === 0 ? '' : ', '))
  const [first, ...rest] = places
  const head = `insert into "${table.name}" (${columns.join(', ')}) values (${first}`
  return db.count(statement([head, ...rest, ')'], Object.values(row)))
}

function update(db: Db, table: Table, row: Row): Promise<number> {
  return db.count(
    conditional(
      `update "${table.name}" set `,
      Object.keys(row).filter((column) => !table.key.includes(column)),
      table,
      row,
    ),
  )
}

/** `head column = ?, … where key = ? and …` */
function conditional(head: string, columns: readonly string[], table: Table, row: Row): Sql {
  const assignments = columns.map((column, index) => `${index === 0 ? head : ', '}${column} = `)
  const [firstKey, ...otherKeys] = table.key
  const start = columns.length === 0 ? head : ''
  const parts = [...assignments, `${start} where ${firstKey} = `, ...otherKeys.map((column) => ` and ${column} = `), '']
  return statement(
    parts,
    [...columns, ...table.key].map((column) => row[column] ?? null),
  )
}

/** Engines cache prepared statements by template object, so the same text must be the same object. */
const templates = new Map<string, TemplateStringsArray>()

function statement(parts: readonly string[], values: readonly SqlValue[] = []): Sql {
  const key = parts.join('?')
  let strings = templates.get(key)
  if (!strings) {
    strings = Object.assign([...parts], { raw: parts })
    templates.set(key, strings)
  }
  return { strings, values }
}

function toText(row: Row): string {
  return Object.entries(row)
    .filter(([column]) => !volatileColumns.has(column))
    .map(([column, value]) => {
      const text = value instanceof Uint8Array ? Buffer.from(value).toString('base64') : JSON.stringify(value)
      return `${column}=${text}`
    })
    .join(' ')
}
