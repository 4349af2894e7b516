/** A state of the whole store that stays as it is while it is read, for backups: the same rows from either engine. */

type ColumnKind = 'text' | 'integer' | 'bytes'
export type Cell = string | number | null | Uint8Array
export type TableShape = {
  readonly name: string
  /** In the order of their names, which is the same on both engines. */
  readonly columns: readonly { readonly name: string; readonly kind: ColumnKind }[]
  readonly primaryKey: readonly string[]
  /** Other tables that must be filled before this one. */
  readonly references: readonly string[]
}

export type TableReader = {
  /** Migration steps that were applied. */
  readonly steps: number
  readonly shapes: ShapeReader
  count(table: TableShape): Promise<number>
  /** All rows in the order of the primary key, text by its bytes. A page holds little memory, but at least one row. */
  pages(table: TableShape): AsyncGenerator<readonly Cell[][]>
}

/** Shapes of the named tables, each after those that it references. */
export type ShapeReader = (names: readonly string[]) => Promise<TableShape[]>

type FoundColumn = { readonly name: string; readonly type: string; readonly keyPlace: number }

export function shapeOf(name: string, found: readonly FoundColumn[], references: readonly string[]): TableShape {
  const columns = found
    .map((column) => ({ name: column.name, kind: kindOf(name, column) }))
    .toSorted((one, other) => (one.name < other.name ? -1 : 1))
  const primaryKey = found
    .filter(({ keyPlace }) => keyPlace > 0)
    .toSorted((one, other) => one.keyPlace - other.keyPlace)
    .map((column) => column.name)
  if (primaryKey.length === 0) throw new Error(`the table ${name} is missing or has no primary key`)
  return { name, columns, primaryKey, references: references.filter((other) => other !== name) }
}

function kindOf(table: string, { name, type }: FoundColumn): ColumnKind {
  if (type === 'text') return 'text'
  if (type === 'integer' || type === 'bigint') return 'integer'
  if (type === 'bytea') return 'bytes'
  throw new Error(`the column ${name} of ${table} has the type ${type}, which no backup knows`)
}

/** Each table after those that it references, and by name where there is a choice. */
export function inReferenceOrder(tables: readonly TableShape[]): TableShape[] {
  const waiting = tables.toSorted((one, other) => (one.name < other.name ? -1 : 1))
  const ordered: TableShape[] = []
  while (waiting.length > 0) {
    const isFree = (table: TableShape) =>
      !table.references.some((name) => waiting.some((other) => other.name === name && other !== table))
    const next = waiting.findIndex(isFree)
    if (next < 0) throw new Error('tables reference each other in a circle')
    ordered.push(...waiting.splice(next, 1))
  }
  return ordered
}

/** Memory that a page may take. A single large row may take more. */
export const pageBytes = 512 * 1024
export const rowsPerPage = 500

export function cellBytes(row: readonly Cell[]): number {
  let bytes = 0
  for (const cell of row) bytes += typeof cell === 'string' || cell instanceof Uint8Array ? cell.length : 8
  return bytes
}
