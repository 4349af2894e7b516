/** Long work in short transactions: each batch is one of its own, and others have their turn in between. */
import type { Services } from '../domain/context.ts'
import { inQuietTransaction } from '../domain/transaction.ts'

type Store = Services['store']

/** Works until it is told that nothing is left. */
export async function whileMore(
  services: Services,
  lock: string,
  work: (store: Store) => Promise<boolean>,
): Promise<void> {
  let hasMore = true
  while (hasMore) hasMore = await inQuietTransaction(services, lock, work)
}

/** Works until less than a whole batch was left. */
export function inBatches(
  services: Services,
  lock: string,
  size: number,
  work: (store: Store, limit: number) => Promise<number>,
): Promise<void> {
  return whileMore(services, lock, async (store) => (await work(store, size)) === size)
}
