import type { Services } from '../domain/context.ts'
import { dayMs, hourMs } from '../domain/time.ts'
import { inQuietTransaction } from '../domain/transaction.ts'
import { findBrokenSets } from '../domain/workspace/row-set.ts'

/**
 * Checks the sets of rows that grant rights after the start, and at the first minute of each day (UTC), which one node
 * does for all.
 */
export function createIntegrityJob(): (services: Services, signal?: AbortSignal) => Promise<void> {
  let checkedDay: number | undefined
  return async (services, signal) => {
    const at = services.now()
    const today = Math.floor(at / dayMs)
    if (today === checkedDay) return
    if (checkedDay === undefined || (await claimNight(services, at))) await reportBrokenSets(services, signal)
    checkedDay = today
  }
}

async function claimNight(services: Services, at: number): Promise<boolean> {
  const fence = await inQuietTransaction(services, 'integrity', ({ leases }) =>
    leases.claim('integrity', at, at + hourMs),
  )
  return fence !== undefined
}

async function reportBrokenSets({ store, log, longWork }: Services, signal: AbortSignal | undefined): Promise<void> {
  for await (const { workspaceId, what } of findBrokenSets(store)) {
    if (signal?.aborted) return
    log.error(`rows were removed or put back in the database: ${what}`, { workspaceId })
    await longWork.giveWay()
  }
}
