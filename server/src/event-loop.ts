/** Helpers for sharing the event loop: deadlines for slow work, and turns to wait for. */
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

/** Waits for the next turn. Between the steps of long work, call `giveWay` (long-work.ts) instead. */
export const yieldToEventLoop = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve))
