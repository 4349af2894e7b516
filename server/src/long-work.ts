/**
 * Long work gives way. It runs in portions of a few milliseconds, and each turn of the event loop has one portion for the
 * whole process: however many requests work, others wait for one portion at a time.
 */

export type LongWork = {
  /** Waits for a turn, then begins the first portion. */
  start(): Promise<Work>
}

export type Work = {
  /** Time spent in portions so far, without the waits between them. */
  workedMs(): number
  /** Call between small steps. Undefined while the portion lasts; then waits for the next turn. */
  giveWay(): Promise<void> | undefined
  /** Call after another wait than that of `giveWay`: it is no work, and the next portion begins with a turn of its own. */
  renew(): Promise<void>
}

const portionMs = 5

export function createLongWork(now: () => number = () => performance.now()): LongWork {
  const waiting: (() => void)[] = []

  function runNext(): void {
    waiting.shift()?.()
    if (waiting.length > 0) setImmediate(runNext)
  }

  function nextTurn(): Promise<void> {
    return new Promise((resolve) => {
      if (waiting.push(resolve) === 1) setImmediate(runNext)
    })
  }

  return {
    async start() {
      await nextTurn()
      let startedAt = now()
      let doneMs = 0
      const renew = async (): Promise<void> => {
        await nextTurn()
        startedAt = now()
      }
      return {
        workedMs: () => doneMs + now() - startedAt,
        giveWay() {
          const elapsedMs = now() - startedAt
          if (elapsedMs < portionMs) return undefined
          doneMs += elapsedMs
          return renew()
        },
        renew,
      }
    },
  }
}
