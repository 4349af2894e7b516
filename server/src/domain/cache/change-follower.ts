/**
 * Follows the log of changes. What this node remembers may be used only while the log was read within the last second:
 * when the store does not answer, requests wait for it or are refused rather than served from a stale memory.
 */
import type { Log } from '../../log.ts'
import { traceOf } from '../../log.ts'
import { type Change, maxListed } from '../../store/change.ts'
import type { Services } from '../context.ts'
import { hourMs } from '../time.ts'
import { forget, forgetAll, type Memories } from '../transaction.ts'

const pollEveryMs = 250
const freshForMs = 900
/** Rows are kept for an hour: whoever has not read them for so long cannot tell what they said. */
const maxSilenceMs = hourMs / 2
/**
 * A transaction that took a number has committed or failed by then: PostgreSQL ends much earlier both a statement that
 * takes too long and a node that freezes between two of them.
 */
const gapLifeMs = 60_000
/** How far back a node looks at its start, or after it was cut off: transactions with these numbers may not have committed yet. */
const startGap = 1_000

export type ChangeFollower = {
  /** Undefined while the log is followed, as there is nothing to wait for; otherwise resolves after reading it. */
  ensureFresh(): Promise<void> | undefined
  start(): Promise<void>
  stop(): void
}

export function createChangeFollower(
  services: Memories & Pick<Services, 'store' | 'keys' | 'now'> & { readonly log: Log },
): ChangeFollower {
  // Monotonic: a jump of the wall clock must not make stale memory look fresh.
  let readAt = Number.NEGATIVE_INFINITY
  // And a machine that sleeps stops the monotonic one.
  let readAtTime = Number.NEGATIVE_INFINITY
  let sequence = 0
  let reading: Promise<void> | undefined
  let timer: NodeJS.Timeout | undefined
  let isDown = false
  /** Numbers that were taken but not yet visible when a later one was: PostgreSQL commits out of order. */
  const gaps = new Map<number, number>()

  async function apply(change: Change): Promise<void> {
    if (change.subject === 'keyring') await services.keys.reload()
    forget(services, change.subject, change.subjectId)
  }

  /** True where rows after the last one that was read may be gone: this node was cut off, or stood still. */
  async function hasMissed(next: Change | undefined, startedAt: number, startedAtTime: number): Promise<boolean> {
    if (startedAt - readAt > maxSilenceMs) return true
    // Of the wall clock it cannot be told whether time has passed or only the clock was set: the log itself tells.
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

  async function read(): Promise<void> {
    const startedAt = performance.now()
    const startedAtTime = services.now()
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
      forgetAll(services)
      // As at the start: to wait for each of the numbers in between, however many they are, would be for nothing.
      sequence = Math.max(sequence, (changes[0]?.sequence ?? 0) - startGap)
    }
    await applyAll(changes, startedAt)
    // What is remembered is fresh only when nothing is left to be read.
    while (changes.length === maxListed) {
      changes = await services.store.changes.listAfter(sequence)
      await applyAll(changes, startedAt)
    }
    readAt = startedAt
    readAtTime = startedAtTime
  }

  function readOnce(): Promise<void> {
    reading ??= read().finally(() => {
      reading = undefined
    })
    return reading
  }

  /** A read that was begun long ago tells of long ago: then it takes another one. */
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
      sequence = Math.max(0, (await services.store.changes.newest()) - startGap)
      await services.keys.reload()
      await readOnce()
      timer = setTimeout(poll, pollEveryMs)
      timer.unref()
    },
    stop() {
      clearTimeout(timer)
    },
  }
}
