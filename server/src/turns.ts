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
  const room = createRoom(maxRunning, { maxWaiting })
  return async (work) => {
    let isTaken = false
    const take = () => {
      if (isTaken) return undefined
      const entering = room.enter()
      isTaken = true
      return entering
    }
    try {
      return await work({ take })
    } finally {
      if (isTaken) room.leave()
    }
  }
}

/** Room for so many at a time; whoever has entered it leaves it once. */
export type Room = {
  /** Throws `overloaded` where too many wait already; rejects as `unavailable` after waiting for too long. */
  enter(): Promise<void> | undefined
  leave(): void
}

export function createRoom(
  size: number,
  { maxWaiting = Number.POSITIVE_INFINITY, patienceMs }: { maxWaiting?: number; patienceMs?: number },
): Room {
  let left = size
  const waiting = new Set<() => void>()

  function wait(): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    waiting.add(resolve)
    if (patienceMs === undefined) return promise
    const giveUp = () => waiting.delete(resolve) && reject(new Failure('unavailable'))
    const timer = setTimeout(giveUp, patienceMs)
    return promise.finally(() => clearTimeout(timer))
  }

  return {
    enter() {
      if (left === 0 && waiting.size >= maxWaiting) throw new Failure('overloaded')
      if (left === 0) return wait()
      left--
      return undefined
    },
    leave() {
      // It is handed over, so that nobody who comes in between takes it.
      const [next] = waiting
      if (next) {
        waiting.delete(next)
        next()
      } else left++
    },
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
