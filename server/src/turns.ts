/** A few at a time, some more that wait, and no more: what is costly cannot take all memory or all cores. */
import { Failure } from './failure.ts'

export type Turns = <Result>(work: () => Promise<Result>) => Promise<Result>

/** Whoever finds the queue full is refused with `overloaded`. */
export function createTurns(maxRunning: number, maxWaiting: number): Turns {
  let running = 0
  const waiting: (() => void)[] = []
  return async (work) => {
    if (running >= maxRunning) {
      if (waiting.length >= maxWaiting) throw new Failure('overloaded')
      // The turn is handed over, so that nobody who comes in between takes it.
      await new Promise<void>((resolve) => waiting.push(resolve))
    } else running++
    try {
      return await work()
    } finally {
      const next = waiting.shift()
      if (next) next()
      else running--
    }
  }
}

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
