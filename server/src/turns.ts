/** A few at a time, some more that wait, and no more: what is costly cannot take all memory or all cores. */
import { Failure } from './failure.ts'

export type Turns = <Result>(work: () => Promise<Result>) => Promise<Result>

/** Whoever finds the queue full is refused with `overloaded`. */
export function createTurns(maxRunning: number, maxWaiting: number): Turns {
  const inLateTurn = createLateTurns(maxRunning, maxWaiting)
  return (work) =>
    inLateTurn(async (turn) => {
      await turn.take()
      return work()
    })
}

/** A turn for work that may prove costly: taken when it does, and once however often; it is over when the work is. */
export type Turn = { take(): Promise<void> | undefined }
type LateTurns = <Result>(work: (turn: Turn) => Promise<Result>) => Promise<Result>

export function createLateTurns(maxRunning: number, maxWaiting: number): LateTurns {
  let running = 0
  const waiting: (() => void)[] = []

  function enter(): Promise<void> | undefined {
    if (running < maxRunning) {
      running++
      return undefined
    }
    if (waiting.length >= maxWaiting) throw new Failure('overloaded')
    // The turn is handed over, so that nobody who comes in between takes it.
    return new Promise((resolve) => void waiting.push(resolve))
  }

  function leave(): void {
    const next = waiting.shift()
    if (next) next()
    else running--
  }

  return async (work) => {
    let isTaken = false
    const take = () => {
      if (isTaken) return undefined
      const entering = enter()
      isTaken = true
      return entering
    }
    try {
      return await work({ take })
    } finally {
      if (isTaken) leave()
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
