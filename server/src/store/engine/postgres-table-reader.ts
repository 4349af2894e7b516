/** Reads all of a PostgreSQL store: one read-only transaction on a connection of its own, which no time limit ends. */
import pg from 'pg'
import { codeOf } from '../../error-code.ts'
import {
  type Cell,
  cellBytes,
  inReferenceOrder,
  pageBytes,
  rowsPerPage,
  type ShapeReader,
  shapeOf,
  type TableReader,
  type TableShape,
} from './table-reader.ts'

type Ask = (text: string, values?: readonly unknown[]) => Promise<unknown[][]>

export async function withPostgresTables<Result>(
  config: pg.ClientConfig,
  wrapErrors: <Answer>(query: () => Promise<Answer>) => Promise<Answer>,
  names: readonly string[],
  work: (reader: TableReader) => Promise<Result>,
): Promise<Result> {
  const client = new pg.Client(config)
  // The query in progress rejects too; an unhandled error event would end the process.
  client.on('error', () => undefined)
  await wrapErrors(() => client.connect())
  try {
    const ask: Ask = (text, values = []) =>
      wrapErrors(async () => (await client.query({ text, values: [...values], rowMode: 'array' })).rows)
    await begin(ask, names)
    return await work(await readerOf(ask))
  } finally {
    await client.end().catch(() => undefined)
  }
}

const undefinedTable = '42P01'

/**
 * Locks the tables before the first query, which fixes the state that is seen: a table that a migration rewrites after
 * that moment would look empty. The locks hold up nothing but migrations.
 */
async function begin(ask: Ask, names: readonly string[]): Promise<void> {
  const found = await ask('select name from unnest($1::text[]) as given(name) where to_regclass(name) is not null', [
    names,
  ])
  await ask('begin transaction isolation level repeatable read, read only')
  for (const name of ['statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout']) {
    await ask(`set local ${name} = 0`)
  }
  try {
    if (found.length > 0) await ask(`lock table ${found.flat().join(', ')} in access share mode`)
  } catch (error) {
    if (codeOf(error) !== undefinedTable) throw error
    // A migration has removed one of them since: the next look does not find it.
    await ask('rollback')
    return begin(ask, names)
  }
  // Only some versions know it.
  await ask(`select set_config(name, '0', true) from pg_settings where name = 'transaction_timeout'`)
}

async function readerOf(ask: Ask): Promise<TableReader> {
  const [[steps] = []] = await ask('select coalesce(max(step), 0) from schema_step')
  return {
    steps: Number(steps),
    shapes: postgresShapes(ask),
    count: async ({ name }) => Number((await ask(`select count(*) from ${name}`))[0]?.[0]),
    pages: (table) => pagesOf(ask, table),
  }
}

export function postgresShapes(ask: Ask): ShapeReader {
  return async (names) => {
    const columns = await ask(
      `select c.relname, a.attname, format_type(a.atttypid, null), coalesce(array_position(i.indkey::int2[], a.attnum) + 1, 0)
       from pg_class c
       join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
       left join pg_index i on i.indrelid = c.oid and i.indisprimary
       where c.oid = any (select to_regclass(name) from unnest($1::text[]) as given(name))`,
      [names],
    )
    const references = await ask(
      `select c.relname, f.relname from pg_constraint k
       join pg_class c on c.oid = k.conrelid join pg_class f on f.oid = k.confrelid
       where k.contype = 'f' and c.oid = any (select to_regclass(name) from unnest($1::text[]) as given(name))`,
      [names],
    )
    const shapes = names.map((name) => {
      const found = columns
        .filter(([table]) => table === name)
        .map(([, column, type, place]) => ({ name: String(column), type: String(type), keyPlace: Number(place) }))
      const others = references.filter(([table]) => table === name).map(([, other]) => String(other))
      return shapeOf(name, found, others)
    })
    return inReferenceOrder(shapes)
  }
}

async function* pagesOf(ask: Ask, { name, columns, primaryKey }: TableShape) {
  const kindOf = (column: string) => columns.find((one) => one.name === column)?.kind
  // The collation of the database would order text differently from SQLite.
  const order = primaryKey.map((column) => (kindOf(column) === 'text' ? `${column} collate "C"` : column))
  await ask(`declare backup_rows no scroll cursor for
    select ${columns.map((column) => column.name).join(', ')} from ${name} order by ${order.join(', ')}`)
  let limit = 50
  for (;;) {
    // The cast is safe: `shapeOf` has refused columns of other types.
    const page = (await ask(`fetch ${limit} from backup_rows`)) as Cell[][]
    if (page.length === 0) break
    yield page
    const bytes = page.reduce((sum, row) => sum + cellBytes(row), 0)
    limit = Math.max(1, Math.min(rowsPerPage, Math.floor((pageBytes / bytes) * page.length)))
  }
  await ask('close backup_rows')
}
