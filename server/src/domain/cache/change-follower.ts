/**
 * Follows the change log. Cached data may be used only while the log was read within the last second: when the store
 * does not answer, requests wait or fail rather than get stale data.
 */
import type { Log } from '../../log.ts'
import { traceOf } from '../../log.ts'
import { type Change, maxListed } from '../../store/change.ts'
import type { Services } from '../context.ts'
import { hourMs } from '../time.ts'
import { type Caches, invalidate, invalidateAll } from './invalidation.ts'

const pollEveryMs = 250
const freshForMs = 900
/** Rows are kept for an hour. After this long without a read, some may be gone, so all caches are dropped. */
const maxSilenceMs = hourMs / 2
/**
 * By then, the transaction that holds a missing sequence number has committed or failed: PostgreSQL times out slow
 * statements and idle transactions much earlier.
 */
const gapLifeMs = 60_000
/** Sequence numbers to look back at startup or after an outage: their transactions may not have committed yet. */
const startGap = 1_000

export type ChangeFollower = {
  /** Undefined if the log was read recently enough; otherwise resolves after the next read. */
  ensureFresh(): Promise<void> | undefined
  start(): Promise<void>
  stop(): void
}

export function createChangeFollower(
  services: Caches & Pick<Services, 'store' | 'keys' | 'now'> & { readonly log: Log },
): ChangeFollower {
  // Monotonic clock: setting the wall clock must not make stale data look fresh.
  let readAt = Number.NEGATIVE_INFINITY
  // Wall clock: the monotonic clock stops while the machine is suspended.
  let readAtTime = Number.NEGATIVE_INFINITY
  let sequence = 0
  let reading: Promise<void> | undefined
  let timer: NodeJS.Timeout | undefined
  let isDown = false
  /** After a failed read, another server may have taken over that lacks the newest changes and gives out their numbers again. */
  let mustStartOver = true
  /**
   * Skipped sequence numbers in ascending order, and since when. PostgreSQL commits out of order, so their rows may
   * still appear.
   */
  const gaps = new Map<number, number>()

  async function apply(change: Change): Promise<void> {
    if (change.subject === 'keyring') await services.keys.reload()
    invalidate(services, change.subject, change.subjectId)
  }

  /** True if unread rows may have been deleted, because this node was disconnected or suspended for too long. */
  async function hasMissed(next: Change | undefined, startedAt: number, startedAtTime: number): Promise<boolean> {
    if (startedAt - readAt > maxSilenceMs) return true
    // A late wall clock can mean that time has passed or that the clock was set; the oldest row in the log decides.
    const isLate = startedAtTime - readAtTime > maxSilenceMs
    if (!isLate && (next?.sequence ?? 0) <= sequence + 1) return false
    const oldest = await services.store.changes.oldest()
    return oldest === 0 ? isLate : oldest > sequence + 1
  }

  async function applyAll(changes: readonly Change[], startedAt: number): Promise<void> {
    for (const change of changes) {
      await apply(change)
      for (let missing = sequence + 1; missing < change.sequence; missing++) gaps.set(missing, startedAt)
      sequence = change.sequence
    }
  }

  /** Forgets what was cached and read. */
  async function startOver(): Promise<void> {
    const newest = await services.store.changes.newest()
    await services.keys.reload()
    invalidateAll(services)
    gaps.clear()
    sequence = Math.max(0, newest - startGap)
  }

  async function read(): Promise<void> {
    const startedAt = performance.now()
    const startedAtTime = services.now()
    if (mustStartOver) await startOver()
    mustStartOver = true
    if (gaps.size > 0) {
      for (const change of await services.store.changes.listOnly([...gaps.keys()])) {
        await apply(change)
        gaps.delete(change.sequence)
      }
      for (const [missing, since] of gaps) if (startedAt - since > gapLifeMs) gaps.delete(missing)
    }
    let changes = await services.store.changes.listAfter(sequence)
    if (await hasMissed(changes[0], startedAt, startedAtTime)) {
      await services.keys.reload()
      invalidateAll(services)
      // As at startup: tracking every skipped number as a gap would be costly, and all caches have just been dropped.
      sequence = Math.max(sequence, (changes[0]?.sequence ?? 0) - startGap)
    }
    await applyAll(changes, startedAt)
    // Caches count as fresh only once the log has been read to its end.
    while (changes.length === maxListed) {
      changes = await services.store.changes.listAfter(sequence)
      await applyAll(changes, startedAt)
    }
    readAt = startedAt
    readAtTime = startedAtTime
    mustStartOver = false
  }

  function readOnce(): Promise<void> {
    reading ??= read().finally(() => {
      reading = undefined
    })
    return reading
  }

  /** The read in progress may have started too long ago to count as fresh: then another one follows. */
  async function readFresh(): Promise<void> {
    const askedAt = performance.now()
    do await readOnce()
    while (askedAt - readAt > freshForMs)
  }

  async function poll(): Promise<void> {
    try {
      await readOnce()
      if (isDown) services.log.info('the store answers again')
      isDown = false
    } catch (error) {
      if (!isDown) services.log.error('the store does not answer', traceOf(error))
      isDown = true
    }
    timer = setTimeout(poll, pollEveryMs)
    timer.unref()
  }

  return {
    ensureFresh() {
      return performance.now() - readAt <= freshForMs ? undefined : readFresh()
    },
    async start() {
      await readOnce()
      timer = setTimeout(poll, pollEveryMs)
      timer.unref()
    },
    stop() {
      clearTimeout(timer)
    },
  }
}
