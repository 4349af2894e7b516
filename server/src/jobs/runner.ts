/**
 * Runs the background jobs. Each job has its own timer and never overlaps with itself. A failure is logged once, until
 * the job succeeds again.
 */
import type { Services } from '../domain/context.ts'
import { createNode, nodeBeatMs } from '../domain/upgrade/node.ts'
import { traceOf } from '../log.ts'
import { removeOldEntries } from './audit.ts'
import { backUp } from './backup.ts'
import { cleanUp } from './cleanup.ts'
import { createClockJob } from './clock.ts'
import { createIntegrityJob } from './integrity.ts'
import { createMemoryJob, lookMs } from './memory.ts'
import { endShares } from './share.ts'
import { pushSyncs } from './sync.ts'
import { flushUsage } from './usage.ts'

type Job = {
  readonly name: string
  /** Wait before the first run; as before every other if undefined. */
  readonly firstMs?: number
  readonly everyMs: number
  readonly run: (services: Services, signal: AbortSignal) => Promise<void>
}

const jobs: readonly Job[] = [
  { name: 'usage', everyMs: 5_000, run: flushUsage },
  { name: 'share', everyMs: 5_000, run: endShares },
  { name: 'sync', everyMs: 500, run: pushSyncs },
  { name: 'backup', everyMs: 5_000, run: backUp },
  { name: 'cleanup', everyMs: 60_000, run: cleanUp },
  { name: 'audit', everyMs: 3_600_000, run: removeOldEntries },
]

export type Runner = { stop(): Promise<void> }

export function startJobs(services: Services): Runner {
  const timers = new Map<string, NodeJS.Timeout>()
  const running = new Set<Promise<void>>()
  const failing = new Set<string>()
  const stopping = new AbortController()

  function onSuccess({ name }: Job): void {
    if (failing.delete(name)) services.log.info('a job succeeds again', { job: name })
  }

  function onFailure({ name }: Job, error: unknown): void {
    if (!failing.has(name)) services.log.error('a job failed', { job: name, ...traceOf(error) })
    failing.add(name)
  }

  function schedule(job: Job, waitMs = job.everyMs): void {
    const timer = setTimeout(() => {
      const run = job
        .run(services, stopping.signal)
        .then(
          () => onSuccess(job),
          (error: unknown) => onFailure(job, error),
        )
        .finally(() => {
          running.delete(run)
          if (!stopping.signal.aborted) schedule(job)
        })
      running.add(run)
    }, waitMs)
    timer.unref()
    timers.set(job.name, timer)
  }

  const node = createNode(services)
  const own: readonly Job[] = [
    { name: 'clock', everyMs: 60_000, run: createClockJob(services) },
    { name: 'memory', everyMs: lookMs, run: createMemoryJob(services) },
    { name: 'integrity', firstMs: 10_000, everyMs: 60_000, run: createIntegrityJob() },
    { name: 'node', firstMs: 500, everyMs: nodeBeatMs, run: node.beat },
  ]
  for (const job of [...jobs, ...own]) schedule(job, job.firstMs)
  return {
    async stop() {
      stopping.abort()
      for (const timer of timers.values()) clearTimeout(timer)
      await Promise.all(running)
      await flushUsage(services).catch(() => undefined)
      await node.leave().catch(() => undefined)
    },
  }
}
