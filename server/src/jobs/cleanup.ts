import { backOffMs } from '../domain/back-off.ts'
import type { Services } from '../domain/context.ts'
import { trashLifeMs } from '../domain/secret-trash.ts'
import { dayMs, hourMs } from '../domain/time.ts'
import { inQuietTransaction } from '../domain/transaction.ts'

const batchSize = 500
const secretBatchSize = 50
/** A network that nobody has signed in from for so long is one like any other. */
const knownAddressMs = 90 * dayMs

/** Removes what has no use any more, a batch at a time, so that no transaction is long. */
export async function cleanUp(services: Services): Promise<void> {
  const at = services.now()
  await inQuietTransaction(services, 'cleanup', async (store) => {
    // A node that has not read the log for an hour starts with an empty memory anyway.
    await store.changes.removeBefore(at - hourMs)
    await store.loginAttempts.removeBefore(at - backOffMs)
    await store.loginAddresses.removeBefore(at - knownAddressMs)
  })
  await inBatches(services, (store) => store.sessions.removeExpired(at, batchSize), batchSize)
  await inBatches(services, (store) => store.devices.removeExpired(at, batchSize), batchSize)
  // A secret takes all of its versions with it.
  await inBatches(
    services,
    (store) => store.secrets.removeTrashedBefore(at - trashLifeMs, secretBatchSize),
    secretBatchSize,
  )
}

async function inBatches(
  services: Services,
  remove: (store: Services['store']) => Promise<number>,
  size: number,
): Promise<void> {
  let removed = size
  while (removed === size) removed = await inQuietTransaction(services, 'cleanup', remove)
}
