/** Long work in short transactions: each batch is one of its own, and others have their turn in between. */
import type { Services } from '../domain/context.ts'
import { inQuietTransaction } from '../domain/transaction.ts'

type Store = Services['store']

/** What the work is done with, and when it is to end early: the rest is found again by the next run. */
type Shift = { readonly services: Services; readonly signal: AbortSignal | undefined }

/** Works until it is told that nothing is left. */
export async function whileMore(
  { services, signal }: Shift,
  lock: string,
  work: (store: Store) => Promise<boolean>,
): Promise<void> {
  let hasMore = true
  while (hasMore && !signal?.aborted) hasMore = await inQuietTransaction(services, lock, work)
}

/** Works until less than a whole batch was left. */
export function inBatches(
  shift: Shift,
  lock: string,
  size: number,
  work: (store: Store, limit: number) => Promise<number>,
): Promise<void> {
  return whileMore(shift, lock, async (store) => (await work(store, size)) === size)
}
