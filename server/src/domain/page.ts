/** Cursor pagination, newest first. */
import { encodeCursor } from './cursor.ts'

export type Page<Item> = { readonly items: Item[]; readonly nextCursor: string | undefined }

export const defaultPageLength = 50

type Shown<Row, Item> = { readonly item: (row: Row) => Item; readonly position: (row: Row) => number | string }

/** Expects up to limit + 1 rows; the extra one signals a next page. */
export function pageOf<Row, Item>(
  rows: readonly Row[],
  limit: number,
  { item, position }: Shown<Row, Item>,
): Page<Item> {
  const page = rows.slice(0, limit)
  const last = page.at(-1)
  const hasMore = rows.length > limit && last !== undefined
  return { items: page.map(item), nextCursor: hasMore ? encodeCursor(position(last)) : undefined }
}
