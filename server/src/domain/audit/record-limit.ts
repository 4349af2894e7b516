/**
 * Which acts of strangers are written into the audit trail. Anybody can repeat what is refused, so the first few of each
 * window are recorded, and with the next one how many were not.
 */

const maxNames = 10_000

type Limit = { readonly max: number; readonly windowMs: number }
type Admitted = { readonly unrecorded: number }

export type RecordLimit = {
  /** Undefined where this one is not to be recorded; else how many were not since the last that was. */
  admit(name: string): Admitted | undefined
  /** Counts one that is not recorded for another reason. */
  skip(name: string): void
  /** How many were not recorded in a window that is over; the count starts anew. */
  takeUnrecorded(name: string): number
}

export function createRecordLimit(now: () => number, { max, windowMs }: Limit): RecordLimit {
  const counts = new Map<string, { startedAt: number; recorded: number; unrecorded: number }>()
  // A clock that jumps back must not freeze a window.
  const isOver = (startedAt: number, at: number) => at - startedAt >= windowMs || at < startedAt

  function open(name: string) {
    const at = now()
    const count = counts.get(name) ?? { startedAt: at, recorded: 0, unrecorded: 0 }
    if (isOver(count.startedAt, at)) Object.assign(count, { startedAt: at, recorded: 0 })
    counts.delete(name)
    counts.set(name, count)
    const oldest = counts.keys().next()
    if (counts.size > maxNames && !oldest.done) counts.delete(oldest.value)
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
