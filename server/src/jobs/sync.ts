/** Pushes what is due: a few at a time, each held by a lease, so that several nodes share the work. */
import type { Services } from '../domain/context.ts'

const maxRuns = 8
/** Slow targets of one workspace leave places to the others. */
const maxRunsPerWorkspace = 4
const lookEveryMs = 500

export async function pushSyncs(services: Services, signal: AbortSignal): Promise<void> {
  if (!services.config.sync || !(await services.store.syncs.hasDue(services.now()))) return
  // Without syncs it takes no memory.
  const { claimSync, runSync } = await import('../domain/sync/run/run.ts')
  /** Each run with its workspace. */
  const running = new Map<Promise<void>, string>()
  try {
    await pushUntilNoneIsDue()
  } finally {
    // Also where the next one cannot be asked for: a stop waits for those that are under way.
    await Promise.all(running.keys())
  }

  async function pushUntilNoneIsDue(): Promise<void> {
    while (!signal.aborted) {
      while (running.size < maxRuns && !signal.aborted) {
        const sync = await claimSync(services, listFull(running.values()))
        if (!sync) break
        const run = runSync(services, sync, signal).finally(() => running.delete(run))
        running.set(run, sync.workspaceId)
      }
      if (running.size === 0) return
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
