/**
 * Limits the audit entries that anonymous or refused requests can cause, because anyone can repeat them. The first few
 * per window are recorded; the next recorded entry carries the number of those skipped.
 */
import { setBounded } from '../../bounded-map.ts'

const maxNames = 10_000

type Limit = { readonly max: number; readonly windowMs: number }
type Admitted = { readonly unrecorded: number }

export type RecordLimit = {
  /** Undefined if this act must not be recorded; otherwise how many were skipped since the last recorded one. */
  admit(name: string): Admitted | undefined
  /** Counts an act that another limit has already rejected. */
  skip(name: string): void
  /** Returns and resets the number of skipped acts, once their window is over; 0 before. */
  takeUnrecorded(name: string): number
}

export function createRecordLimit(now: () => number, { max, windowMs }: Limit): RecordLimit {
  const counts = new Map<string, { startedAt: number; recorded: number; unrecorded: number }>()
  // A clock that is set back must not keep a window open forever.
  const isOver = (startedAt: number, at: number) => at - startedAt >= windowMs || at < startedAt

  function open(name: string) {
    const at = now()
    const count = counts.get(name) ?? { startedAt: at, recorded: 0, unrecorded: 0 }
    if (isOver(count.startedAt, at)) Object.assign(count, { startedAt: at, recorded: 0 })
    setBounded(counts, maxNames, name, count)
    return count
  }

  return {
    admit(name) {
      const count = open(name)
      if (count.recorded >= max) {
        count.unrecorded++
        return undefined
      }
      const { unrecorded } = count
      count.recorded++
      count.unrecorded = 0
      return { unrecorded }
    },
    skip(name) {
      open(name).unrecorded++
    },
    takeUnrecorded(name) {
      const count = counts.get(name)
      if (!count || !isOver(count.startedAt, now())) return 0
      const { unrecorded } = count
      count.unrecorded = 0
      return unrecorded
    },
  }
}
