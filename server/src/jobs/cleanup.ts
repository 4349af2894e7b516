import type { Services } from '../domain/context.ts'
import { trashLifeMs } from '../domain/secret-trash.ts'
import { endedShareLifeMs } from '../domain/share.ts'
import { hourMs, minuteMs } from '../domain/time.ts'
import { inQuietTransaction } from '../domain/transaction.ts'
import { inBatches } from './batch.ts'

const batchSize = 500
const secretBatchSize = 50

/** Removes what has no use any more, a batch at a time. */
export async function cleanUp(services: Services): Promise<void> {
  const at = services.now()
  await inQuietTransaction(services, 'cleanup', async (store) => {
    // A node that has not read the log for an hour starts with an empty memory anyway.
    await store.changes.removeBefore(at - hourMs)
    await store.loginAttempts.removeBefore(at - 10 * minuteMs)
  })
  await inBatches(services, 'cleanup', batchSize, (store, limit) => store.sessions.removeExpired(at, limit))
  // A secret takes all of its versions with it, a share the list of its views.
  await inBatches(services, 'cleanup', secretBatchSize, (store, limit) =>
    store.secrets.removeTrashedBefore(at - trashLifeMs, limit),
  )
  await inBatches(services, 'cleanup', batchSize, (store, limit) =>
    store.shares.removeEndedBefore(at - endedShareLifeMs, limit),
  )
}
