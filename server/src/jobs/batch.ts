import type { Services } from '../domain/context.ts'
import { inQuietTransaction } from '../domain/transaction.ts'

/** Works until less than a whole batch was left, each batch by itself, so that no transaction is long. */
export async function inBatches(
  services: Services,
  lock: string,
  size: number,
  work: (store: Services['store'], limit: number) => Promise<number>,
): Promise<void> {
  let done = size
  while (done === size) done = await inQuietTransaction(services, lock, (store) => work(store, size))
}
