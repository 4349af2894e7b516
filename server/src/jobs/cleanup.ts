import { backOffMs } from '../domain/back-off.ts'
import type { Services } from '../domain/context.ts'
import { trashLifeMs } from '../domain/secret-trash.ts'
import { dayMs, hourMs } from '../domain/time.ts'
import { inQuietTransaction } from '../domain/transaction.ts'

const batchSize = 500
/** Rows with indexes and sealed values: about as much as others can wait for without noticing. */
const valueBatchSize = 200
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
  await whileMore(services, async (store) => (await store.sessions.removeExpired(at, batchSize)) === batchSize)
  await whileMore(services, async (store) => (await store.devices.removeExpired(at, batchSize)) === batchSize)
  // A secret takes all of its versions with it.
  await whileMore(services, (store) => store.secrets.removeTrashedBefore(at - trashLifeMs, valueBatchSize))
  await whileMore(services, (store) => store.leftovers.removeSome(valueBatchSize))
}

async function whileMore(services: Services, remove: (store: Services['store']) => Promise<boolean>): Promise<void> {
  while (await inQuietTransaction(services, 'cleanup', remove)) {
    // Each batch is a transaction of its own: others have their turn in between.
  }
}
