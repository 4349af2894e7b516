import type { Services } from '../domain/context.ts'
import { claimMs, skewMs } from '../domain/share/opening.ts'
import { inBatches } from './batch.ts'

const batchSize = 100

/** Marks shares as expired, and erases the contents of every share that has ended. */
export async function endShares(services: Services, signal?: AbortSignal): Promise<void> {
  const at = services.now()
  const shift = { services, signal }
  await inBatches(shift, 'share', batchSize, (store, limit) => store.shares.expireAll(at, limit))
  await inBatches(shift, 'share', batchSize, (store, limit) =>
    store.shares.eraseEnded(at - claimMs, at + skewMs, limit),
  )
}
