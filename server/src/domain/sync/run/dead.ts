/**
 * Runs whose process died. Each is listed as interrupted. Its lease ends at once if its process is known to be gone, so
 * that a node that was restarted does not wait for itself; otherwise the lease runs out first.
 */
import { hostname } from 'node:os'
import type { Store } from '../../../store/store.ts'
import type { HeldSync } from '../../../store/sync/lease.ts'
import type { RunMark } from '../../../store/sync/run-mark.ts'
import type { Services } from '../../context.ts'
import { countItems } from './outcome.ts'

/** Two processes of one host with the same pid, one after the other, differ in their start. */
const here = { host: hostname(), pid: process.pid, since: Math.round(performance.timeOrigin) }

export const markOf = (id: string, at: number): RunMark => ({ id, at, ...here })

/** Call in the transaction of a claim. */
export async function endDeadRuns(services: Services, store: Store, at: number): Promise<void> {
  for (const held of await store.syncLeases.listHeld(at)) {
    if (held.isExpired === 0 && !isGone(services, held)) continue
    await store.syncLeases.end(held)
    if (!held.run) continue
    store.syncRuns.insert({
      id: held.run.id,
      syncId: held.id,
      cause: held.triggerNext,
      state: 'interrupted',
      startedAt: held.run.at,
      endedAt: at,
      counts: countItems([], 0),
      error: 'The process that ran it ended without notice. The next run continues.',
      attempts: held.failCount + 1,
      items: [],
    })
    services.syncStats.runs.interrupted++
  }
}

/** Only for runs from before the start of this node: two live nodes must never end the runs of each other in turn. */
function isGone({ engine, startedAt }: Services, { run, runFence, fence }: HeldSync): boolean {
  // A node of an earlier version that took over left the mark of the run before.
  if (!run || runFence !== fence || run.at >= startedAt) return false
  // A SQLite file has one node, whatever the name of its container.
  if (run.host !== here.host) return engine.kind === 'sqlite'
  return run.pid === here.pid ? run.since !== here.since : !isAlive(run.pid)
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    // Processes of other users may not be signalled, but they exist.
    return error instanceof Error && 'code' in error && error.code === 'EPERM'
  }
}
