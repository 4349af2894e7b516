/** Helpers for sharing the event loop: deadlines for slow work, and pauses in long work. */
import { Failure } from './failure.ts'

/** Rejects with `unavailable` if the work takes longer. The work itself is not cancelled. */
export async function withTimeout<Result>(limitMs: number, work: Promise<Result>): Promise<Result> {
  const { promise, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new Failure('unavailable')), limitMs)
  try {
    return await Promise.race([work, promise])
  } finally {
    clearTimeout(timer)
  }
}

/** Await between the steps of long work, so that other requests get the event loop. */
export const yieldToEventLoop = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve))

/**
 * Returns a function to call after each step of long work; it returns true when it is time for `yieldToEventLoop`. Each step
 * counts `workPerStep` in addition to its own work, since many tiny steps add up too.
 */
export function createPause(workPerYield: number, workPerStep: number): (work: number) => boolean {
  let done = 0
  return (work) => {
    done += work + workPerStep
    if (done < workPerYield) return false
    done = 0
    return true
  }
}
