/** Splits long work into short transactions, one per batch, so that other writers get their turn in between. */
import type { Services } from '../domain/context.ts'
import { inQuietTransaction } from '../domain/transaction.ts'

type Store = Services['store']

/** `signal` ends the work early; the next run picks up the rest. */
type Shift = { readonly services: Services; readonly signal: AbortSignal | undefined }

/** Repeats the work until it returns false. */
export async function whileMore(
  { services, signal }: Shift,
  lock: string,
  work: (store: Store) => Promise<boolean>,
): Promise<void> {
  let hasMore = true
  while (hasMore && !signal?.aborted) hasMore = await inQuietTransaction(services, lock, work)
}

/** Repeats the work until a batch is not full. */
export function inBatches(
  shift: Shift,
  lock: string,
  size: number,
  work: (store: Store, limit: number) => Promise<number>,
): Promise<void> {
  return whileMore(shift, lock, async (store) => (await work(store, size)) === size)
}
