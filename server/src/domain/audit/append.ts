/** Appends the entries of a transaction to a chain, as one link, and signs the new head. */
import { composeBatch } from '../../store/audit/batch.ts'
import { canonicalEntry, hashEntry } from '../../store/audit/entry.ts'
import { type KeyList, listSpan } from '../../store/audit/key-list.ts'
import { type ChainContext, type ChainHead, lockHead, signHead } from './chain.ts'
import type { StoredList } from './chain-memory.ts'
import type { Entry } from './event.ts'

/**
 * Returns what to call once the entries are committed. Without entries, the head is signed anew. Entries of one request
 * have rows of their own, which are found more quickly; those of several share one.
 */
export async function appendEntries(
  ctx: ChainContext,
  chain: string,
  entries: readonly Entry[],
  areOfOne = false,
): Promise<() => void> {
  const before = await lockHead(ctx, chain)
  const own = areOfOne ? entries.flatMap(({ fields, ...entry }) => (fields ? [{ ...entry, fields }] : [])) : []
  const insert =
    own.length === entries.length ? insertRows(ctx, chain, before, own) : insertBatch(ctx, chain, before, entries)
  const head = { ...before, ...insert }
  const lists = storeLists(ctx, chain, head, new Set(entries.flatMap((entry) => entry.lists)))
  const signed = signHead(ctx, chain, head)
  ctx.store.audit.saveHead(chain, signed)
  return () => {
    for (const [name, stored] of lists) ctx.chainMemory.rememberList(name, stored)
    if (signed.signature) ctx.chainMemory.rememberHead(chain, signed)
  }
}

type Inserted = Pick<ChainHead, 'sequence' | 'hash'>

function insertRows(
  { store }: ChainContext,
  chain: string,
  head: ChainHead,
  entries: readonly (Entry & Required<Pick<Entry, 'fields'>>)[],
): Inserted {
  let { sequence, hash } = head
  for (const { id, at, requestId, details = '', fields } of entries) {
    sequence++
    const unhashed = { ...fields, chainId: chain, sequence, id, at, requestId, details }
    hash = hashEntry(hash, canonicalEntry(unhashed))
    store.audit.insert({ ...unhashed, hash })
  }
  return { sequence, hash }
}

function insertBatch({ store }: ChainContext, chain: string, head: ChainHead, entries: readonly Entry[]): Inserted {
  const row = composeBatch(chain, head, entries)
  store.audit.insertBatch(row)
  return { sequence: row.lastSequence, hash: row.hash }
}

/** Stores the long key lists that the entries refer to, once per chain. `head` is the one after the entries. */
function storeLists(
  { store, chainMemory }: ChainContext,
  chain: string,
  head: ChainHead,
  lists: Iterable<KeyList>,
): Map<string, StoredList> {
  const fresh = new Map<string, StoredList>()
  for (const list of lists) {
    const name = `${chain}:${list.digest}`
    const known = fresh.get(name) ?? chainMemory.findList(name)
    if (known && isStillStored(known, head)) continue
    store.audit.storeList(chain, list, head.sequence)
    fresh.set(name, { sequence: head.sequence, cutSequence: head.cutSequence })
  }
  return fresh
}

/** Deleting entries, perhaps in another process, deletes unused lists too: a newer cut invalidates the memory. */
function isStillStored(known: StoredList, { sequence, cutSequence }: ChainHead): boolean {
  return known.cutSequence === cutSequence && sequence >= known.sequence && sequence < known.sequence + listSpan
}
