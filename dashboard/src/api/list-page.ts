/** Long lists come in pages; the header of each has the cursor of the next. */
import type { CallOptions } from '@coffer/sdk'

type ListPage<Item> = {
  readonly items: readonly Item[]
  readonly nextCursor: string | undefined
  /** The time back to which a search has looked. A search may end before its page is full. */
  readonly searchedTo: string | undefined
}
type Load<Item> = (query: { limit: number; cursor?: string }, options: CallOptions) => Promise<Item[]>

export const pageLength = 50

export async function loadPage<Item>(cursor: string | undefined, load: Load<Item>): Promise<ListPage<Item>> {
  let nextCursor: string | undefined
  let searchedTo: string | undefined
  const query = { limit: pageLength, ...(cursor !== undefined && { cursor }) }
  const items = await load(query, {
    onResponse(details) {
      nextCursor = details.nextCursor
      searchedTo = details.searchedTo
    },
  })
  return { items, nextCursor, searchedTo }
}

/** Options of an infinite query whose pages come from `loadPage`. */
export const paged = {
  initialPageParam: undefined as string | undefined,
  getNextPageParam: ({ nextCursor }: ListPage<unknown>) => nextCursor,
}
