/** Inserts of many rows in one prepared statement. */
import { hash } from 'node:crypto'
import type pg from 'pg'
import { compile, type Sql } from './sql.ts'

/** Names a prepared statement by the digest of its text: equal on every connection, distinct for distinct texts. */
export const nameOf = (text: string) => `coffer_${hash('sha256', text, 'hex').slice(0, 32)}`

/** Limits of one insert: its values are in memory several times while it is sent. */
const rowsPerInsert = 1_000
const lengthPerInsert = 4 * 1024 * 1024

export function* portions(inserts: readonly Sql[]): Generator<Sql[]> {
  let portion: Sql[] = []
  let length = 0
  for (const one of inserts) {
    portion.push(one)
    for (const value of one.values) {
      if (typeof value === 'string' || value instanceof Uint8Array) length += value.length
    }
    if (portion.length < rowsPerInsert && length < lengthPerInsert) continue
    yield portion
    portion = []
    length = 0
  }
  if (portion.length > 0) yield portion
}

type ListType = 'text' | 'bigint' | 'bytea' | undefined
/** Keyed by template, then by the column types of its lists. */
const joinedInserts = new WeakMap<TemplateStringsArray, Map<string, { readonly name: string; readonly text: string }>>()

/**
 * One prepared insert for any number of rows, with one array parameter per template value. A parameter for each single
 * value would make the server parse and plan every row count anew. All queries must come from the same template.
 */
export function joinInserts(queries: readonly Sql[]): pg.QueryConfig {
  const [first] = queries
  if (!first) throw new Error('there is nothing to insert')
  const lists = first.values.map((_, place) => queries.map(({ values }) => values[place]))
  const types = lists.map(listType)
  const shapes = joinedInserts.get(first.strings) ?? new Map()
  joinedInserts.set(first.strings, shapes)
  const text = shapes.get(types.join())?.text ?? joinedText(first, types)
  const insert = shapes.get(types.join()) ?? { name: nameOf(text), text }
  shapes.set(types.join(), insert)
  return { ...insert, values: lists.filter((_, place) => types[place]) }
}

const manyRows = /^([\s\S]*?)values\s*\(([\s\S]*?)\)((?:\s*on conflict[\s\S]*|\s*\)\s*as given\s[\s\S]*)?)$/

const isUpdate = ({ strings }: Sql): boolean => strings[0]?.trimStart().startsWith('update') ?? false

/** Names the columns as the engines name those of `values`. */
const withColumns = (items: string) =>
  items
    .split(',')
    .map((item, index) => `${item} as column${index + 1}`)
    .join()

/** Undefined if all values are null. */
function listType(list: readonly unknown[]): ListType {
  const value = list.find((one) => one !== null)
  if (value === undefined) return undefined
  if (typeof value === 'string') return 'text'
  return typeof value === 'number' ? 'bigint' : 'bytea'
}

function joinedText(query: Sql, types: readonly ListType[]): string {
  const { text, kinds } = compile(query, 'postgres')
  const match = manyRows.exec(text.trim())
  if (!match || kinds.some((kind) => kind !== 'value'))
    throw new Error('writeMany takes an insert or update with one group of values')
  const [, head = '', group = '', tail = ''] = match
  const items = group.replace(/\$(\d+)/g, (_all, number) => (types[number - 1] ? `v${number}` : 'null'))
  const named = types.flatMap((type, place) => (type ? [{ name: `v${place + 1}`, type }] : []))
  const lists = named.map(({ type }, index) => `$${index + 1}::${type}[]`)
  return `${head}select ${isUpdate(query) ? withColumns(items) : items} from unnest(${lists}) as given(${named.map(({ name }) => name)})${tail}`
}
