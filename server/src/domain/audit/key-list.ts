/** Stores the long key lists that audit entries refer to, once per chain, in the transaction of the entry. */
import { type KeyList, listSpan } from '../../store/audit/key-list.ts'
import type { ChainContext, ChainHead } from './chain.ts'
import type { StoredList } from './stored-list.ts'

/** `sequence` is that of the last entry written now that refers to the lists. */
export async function storeLists(
  ctx: ChainContext,
  chain: string,
  head: ChainHead,
  sequence: number,
  lists: Iterable<KeyList>,
): Promise<void> {
  const { scratch, afterCommit } = ctx.transaction
  for (const list of lists) {
    const name = `audit-list:${chain}:${list.digest}`
    // The cast is safe: only this file uses this key.
    const known = (scratch.get(name) as StoredList | undefined) ?? ctx.storedLists.find(name)
    if (known && isStillStored(known, head, sequence)) continue
    await ctx.store.audit.storeList(chain, list, sequence)
    const stored = { sequence, cutSequence: head.cutSequence }
    scratch.set(name, stored)
    // Only after the commit: a rollback removes the list from the store.
    afterCommit.push(() => ctx.storedLists.remember(name, stored))
  }
}

/** Deleting entries, perhaps in another process, deletes unused lists too: a newer cut invalidates the cache entry. */
function isStillStored(known: StoredList, head: ChainHead, sequence: number): boolean {
  return known.cutSequence === head.cutSequence && sequence >= known.sequence && sequence < known.sequence + listSpan
}
