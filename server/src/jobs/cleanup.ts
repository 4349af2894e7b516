import { backOffMs } from '../domain/account/attempt-limit.ts'
import { recordUnrecorded } from '../domain/audit/anonymous-count.ts'
import type { Services } from '../domain/context.ts'
import { trashLifeMs } from '../domain/secret/write/trash.ts'
import { endedShareLifeMs } from '../domain/share/share.ts'
import { dayMs, hourMs } from '../domain/time.ts'
import { inQuietTransaction } from '../domain/transaction.ts'
import { inBatches, whileMore } from './batch.ts'

const batchSize = 500
/**
 * Smaller batches for rows with indexes and sealed values: a transaction of this size does not delay other writers
 * noticeably.
 */
const valueBatchSize = 200
/** A network without a sign-in for this long is no longer treated as known. */
const knownAddressMs = 90 * dayMs

/** Ended CLI tokens stay in the token list for this long, to show what had access. */
const endedCliTokenMs = 30 * dayMs

/** Removes expired data, one batch at a time. */
export async function cleanUp(services: Services, signal?: AbortSignal): Promise<void> {
  const at = services.now()
  const shift = { services, signal }
  await inQuietTransaction(services, 'cleanup', async (store) => {
    // Safe after an hour: a node that has not read the change log for half of that clears its caches
    // (domain/cache/change-follower.ts).
    await store.changes.removeBefore(at - hourMs)
    await store.loginAttempts.removeBefore(at - backOffMs)
    await store.loginAddresses.removeBefore(at - knownAddressMs)
  })
  await recordUnrecorded(services)
  await inBatches(shift, 'cleanup', batchSize, (store, limit) => store.sessions.removeExpired(at, limit))
  await inBatches(shift, 'cleanup', batchSize, (store, limit) => store.devices.removeExpired(at, limit))
  await inBatches(shift, 'cleanup', batchSize, (store, limit) => store.emailConfirmations.removeExpired(at, limit))
  await inBatches(shift, 'cleanup', batchSize, (store, limit) => store.passwordResets.removeExpired(at, limit))
  await inBatches(shift, 'cleanup', batchSize, (store, limit) =>
    store.tokens.removeCliEndedBefore(at - endedCliTokenMs, limit),
  )
  await inBatches(shift, 'cleanup', batchSize, (store, limit) => store.syncs.removeAbandoned(at, limit))
  await inBatches(shift, 'cleanup', batchSize, (store, limit) => store.syncs.forgetAbandonedEdits(at, limit))
  // Deleting a secret also deletes its versions, and deleting a share its views.
  await whileMore(shift, 'cleanup', (store) => store.secrets.removeTrashedBefore(at - trashLifeMs, valueBatchSize))
  await whileMore(shift, 'cleanup', (store) => store.purgeQueue.removeSome(valueBatchSize))
  await inBatches(shift, 'cleanup', batchSize, (store, limit) =>
    store.shares.removeEndedBefore(at - endedShareLifeMs, limit),
  )
}
