import { backOffMs } from '../domain/account/attempt-limit.ts'
import { recordUnrecorded } from '../domain/audit/stranger.ts'
import type { Services } from '../domain/context.ts'
import { trashLifeMs } from '../domain/secret/trash.ts'
import { endedShareLifeMs } from '../domain/share/share.ts'
import { dayMs, hourMs } from '../domain/time.ts'
import { inQuietTransaction } from '../domain/transaction.ts'
import { inBatches, whileMore } from './batch.ts'

const batchSize = 500
/** Rows with indexes and sealed values: about as much as others can wait for without noticing. */
const valueBatchSize = 200
/** A network that nobody has signed in from for so long is one like any other. */
const knownAddressMs = 90 * dayMs

/** For so long it is seen in the list of tokens what had access for a few hours. */
const endedCliTokenMs = 30 * dayMs

/** Removes what has no use any more, a batch at a time. */
export async function cleanUp(services: Services, signal?: AbortSignal): Promise<void> {
  const at = services.now()
  const shift = { services, signal }
  await inQuietTransaction(services, 'cleanup', async (store) => {
    // A node that has not read the log for half of that forgets everything (domain/cache/change-follower.ts).
    await store.changes.removeBefore(at - hourMs)
    await store.loginAttempts.removeBefore(at - backOffMs)
    await store.loginAddresses.removeBefore(at - knownAddressMs)
  })
  await recordUnrecorded(services)
  await inBatches(shift, 'cleanup', batchSize, (store, limit) => store.sessions.removeExpired(at, limit))
  await inBatches(shift, 'cleanup', batchSize, (store, limit) => store.devices.removeExpired(at, limit))
  await inBatches(shift, 'cleanup', batchSize, (store, limit) => store.emailConfirmations.removeExpired(at, limit))
  await inBatches(shift, 'cleanup', batchSize, (store, limit) =>
    store.tokens.removeCliEndedBefore(at - endedCliTokenMs, limit),
  )
  await inBatches(shift, 'cleanup', batchSize, (store, limit) => store.syncs.removeAbandoned(at, limit))
  await inBatches(shift, 'cleanup', batchSize, (store, limit) => store.syncs.forgetAbandonedEdits(at, limit))
  // A secret takes all of its versions with it, a share the list of its views.
  await whileMore(shift, 'cleanup', (store) => store.secrets.removeTrashedBefore(at - trashLifeMs, valueBatchSize))
  await whileMore(shift, 'cleanup', (store) => store.leftovers.removeSome(valueBatchSize))
  await inBatches(shift, 'cleanup', batchSize, (store, limit) =>
    store.shares.removeEndedBefore(at - endedShareLifeMs, limit),
  )
}
