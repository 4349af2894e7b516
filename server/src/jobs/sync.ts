/** Pushes what is due: a few at a time, each held by a lease, so that several nodes share the work. */
import type { Services } from '../domain/context.ts'

const maxRuns = 4
const lookEveryMs = 500

export async function pushSyncs(services: Services, signal: AbortSignal): Promise<void> {
  if (!services.config.sync || !(await services.store.syncs.hasDue(services.now()))) return
  // Without syncs it takes no memory.
  const { claimSync, runSync } = await import('../domain/sync-run.ts')
  const running = new Set<Promise<void>>()
  try {
    await pushUntilNoneIsDue()
  } finally {
    // Also where the next one cannot be asked for: a stop waits for those that are under way.
    await Promise.all(running)
  }

  async function pushUntilNoneIsDue(): Promise<void> {
    while (!signal.aborted) {
      while (running.size < maxRuns && !signal.aborted) {
        const sync = await claimSync(services)
        if (!sync) break
        const run = runSync(services, sync, signal).finally(() => running.delete(run))
        running.add(run)
      }
      if (running.size === 0) return
      const pause = Promise.withResolvers<void>()
      const timer = setTimeout(pause.resolve, lookEveryMs)
      await Promise.race([...running, pause.promise])
      clearTimeout(timer)
    }
  }
}
