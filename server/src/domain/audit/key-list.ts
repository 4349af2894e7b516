/** Stores the long lists that audit entries refer to, once per chain, in the transaction of the entry. */
import { type KeyList, listSpan } from '../../store/audit-key-list.ts'
import type { ChainContext, ChainHead } from './chain.ts'

/** A list that is in the store: it was noted there as used at `sequence`, after the cut at `cutSequence`. */
type StoredList = { readonly sequence: number; readonly cutSequence: number }

/** The lists that this process knows to be stored, so that a repeated read needs no insert. */
export type StoredLists = {
  find(name: string): StoredList | undefined
  remember(name: string, stored: StoredList): void
}

const maxRemembered = 10_000

export function createStoredLists(): StoredLists {
  const remembered = new Map<string, StoredList>()
  return {
    find: (name) => remembered.get(name),
    remember(name, stored) {
      if (remembered.size >= maxRemembered) remembered.clear()
      remembered.set(name, stored)
    },
  }
}

/** `sequence` is that of the last entry in this transaction step that refers to the lists. */
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
    // Only this file writes under this name.
    const known = (scratch.get(name) as StoredList | undefined) ?? ctx.storedLists.find(name)
    if (known && isStillStored(known, head, sequence)) continue
    await ctx.store.audit.storeList(chain, list, sequence)
    const stored = { sequence, cutSequence: head.cutSequence }
    scratch.set(name, stored)
    // A transaction that is rolled back has stored nothing.
    afterCommit.push(() => ctx.storedLists.remember(name, stored))
  }
}

/** Removing entries removes lists too, perhaps in another process: a newer cut makes the memory worthless. */
function isStillStored(known: StoredList, head: ChainHead, sequence: number): boolean {
  return known.cutSequence === head.cutSequence && sequence >= known.sequence && sequence < known.sequence + listSpan
}
