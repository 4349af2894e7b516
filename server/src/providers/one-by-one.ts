/** Helpers for vendors that take one item per call. */
import { isFault } from './fault.ts'
import type { KnownItem, Op, OpResult, RemoteItem } from './provider.ts'

export type Done = { readonly id?: string; readonly mark?: string; readonly note?: string }

/** A fault about one name is reported for that name. Any other fault would hit the next op too, so it ends the call. */
export async function* applyEach<One extends Op>(
  ops: readonly One[],
  perform: (op: One) => Promise<Done | undefined>,
): AsyncIterable<OpResult> {
  for (const op of ops) {
    try {
      yield { name: op.name, ...(await perform(op)) }
    } catch (error) {
      if (!isFault(error, 'invalid') && !isFault(error, 'conflict') && !isFault(error, 'quota')) throw error
      yield { name: op.name, fault: error }
    }
  }
}

/** A list may have hundreds of pages, so up to this many entries are looked up one by one. */
const mostSingleLooks = 10

/** `Remote.find` for vendors with a paginated list. */
export function findFew(
  entries: readonly KnownItem[],
  findOne: (entry: KnownItem) => Promise<RemoteItem | undefined>,
): AsyncIterable<RemoteItem> | undefined {
  return entries.length > mostSingleLooks ? undefined : findEach(entries, findOne)
}

async function* findEach(
  entries: readonly KnownItem[],
  findOne: (entry: KnownItem) => Promise<RemoteItem | undefined>,
): AsyncIterable<RemoteItem> {
  for (const entry of entries) {
    const item = await findOne(entry)
    if (item) yield item
  }
}
