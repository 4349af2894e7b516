import type { Services } from '../domain/context.ts'
import { hourMs, minuteMs } from '../domain/time.ts'
import { inQuietTransaction } from '../domain/transaction.ts'

const batchSize = 500

/** Removes what has no use any more, a batch at a time, so that no transaction is long. */
export async function cleanUp(services: Services): Promise<void> {
  const at = services.now()
  await inQuietTransaction(services, 'cleanup', async (store) => {
    // A node that has not read the log for an hour starts with an empty memory anyway.
    await store.changes.removeBefore(at - hourMs)
    await store.loginAttempts.removeBefore(at - 10 * minuteMs)
  })
  let removed = batchSize
  while (removed === batchSize) {
    removed = await inQuietTransaction(services, 'cleanup', (store) => store.sessions.removeExpired(at, batchSize))
  }
}
