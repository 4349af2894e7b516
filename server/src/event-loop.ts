/** The event loop, shared: deadlines for what takes too long, and pauses in what works for long. */
import { Failure } from './failure.ts'

/** Rejects as `unavailable` where the work takes longer; it goes on, but nobody waits for it. */
export async function within<Result>(limitMs: number, work: Promise<Result>): Promise<Result> {
  const { promise, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new Failure('unavailable')), limitMs)
  try {
    return await Promise.race([work, promise])
  } finally {
    clearTimeout(timer)
  }
}

/** Between the steps of what takes long: whoever else waits for the event loop has it first. */
export const nextTurn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve))

/**
 * For a walk of many steps: says after each whether it is time for `nextTurn`, which is after so much work. A step counts
 * somewhat more than what it works on, as many that work on little are work, too.
 */
export function createPause(workPerTurn: number, workPerStep: number): (work: number) => boolean {
  let done = 0
  return (work) => {
    done += work + workPerStep
    if (done < workPerTurn) return false
    done = 0
    return true
  }
}
