/** Pushes the syncs that are due, a few at a time. Each is claimed by a lease, so that several nodes share the work. */
import type { Services } from '../domain/context.ts'

const maxRuns = 8
/** Keeps slow targets of one workspace from occupying all runs. */
const maxRunsPerWorkspace = 4
const lookEveryMs = 500

export async function pushSyncs(services: Services, signal: AbortSignal): Promise<void> {
  if (!services.config.sync || !(await services.store.syncs.hasDue(services.now()))) return
  // Loaded on demand, so that an installation without syncs saves the memory.
  const { claimSync, runSync } = await import('../domain/sync/run/run.ts')
  /** Maps each run to its workspace. */
  const running = new Map<Promise<void>, string>()
  try {
    await pushUntilNoneIsDue()
  } finally {
    // Also after an error: a stop must wait for the runs in progress.
    await Promise.all(running.keys())
  }

  async function pushUntilNoneIsDue(): Promise<void> {
    while (!signal.aborted) {
      let full: readonly string[] = []
      while (running.size < maxRuns && !signal.aborted) {
        full = listFull(running.values())
        const sync = await claimSync(services, full)
        if (!sync) break
        const run = runSync(services, sync, signal).finally(() => running.delete(run))
        running.set(run, sync.workspaceId)
      }
      if (running.size === 0) {
        if (full.length === 0) return
        // The runs of a full workspace have ended during the claim, which left out its other syncs.
        continue
      }
      const pause = Promise.withResolvers<void>()
      const timer = setTimeout(pause.resolve, lookEveryMs)
      await Promise.race([...running.keys(), pause.promise])
      clearTimeout(timer)
    }
  }
}

function listFull(workspaceIds: Iterable<string>): string[] {
  const runs = Map.groupBy(workspaceIds, (id) => id)
  return [...runs].flatMap(([id, { length }]) => (length < maxRunsPerWorkspace ? [] : [id]))
}
