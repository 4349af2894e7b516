/**
 * Long work gives way. Each turn of the event loop has one portion of a few milliseconds for the whole process, and those
 * who work take it in turns: however many requests work, others wait for one portion at a time.
 */

/** Call between small steps. Undefined while the portion of this turn lasts; then waits for a portion of a later turn. */
export type GiveWay = () => Promise<void> | undefined

export type LongWork = {
  readonly giveWay: GiveWay
  /** Waits for a portion of a later turn, however short the work of this turn was. */
  nextPortion(): Promise<void>
  /** For work that holds a lock: its portions come first, since all who wait for the lock would wait for the others too. */
  readonly ahead: LongWork
  /** Waits for a portion, and measures the work from there on. */
  start(): Promise<Work>
}

export type Work = {
  readonly giveWay: GiveWay
  /** Time spent in portions so far, without the waits between them. */
  workedMs(): number
  /** Call after another wait than that of `giveWay`: it is no work, and the next step has a portion of its own. */
  renew(): Promise<void>
}

const portionMs = 5

export function createLongWork(now: () => number = () => performance.now()): LongWork {
  const urgent: (() => void)[] = []
  const waiting: (() => void)[] = []
  let portionEndsAt = Number.NEGATIVE_INFINITY
  let isScheduled = false

  function schedule(): void {
    isScheduled = urgent.length + waiting.length > 0
    if (isScheduled) setImmediate(runNext)
  }

  function runNext(): void {
    portionEndsAt = now() + portionMs
    const resume = urgent.shift() ?? waiting.shift()
    resume?.()
    schedule()
  }

  function waitIn(queue: (() => void)[]) {
    const nextPortion = () =>
      new Promise<void>((resolve) => {
        queue.push(resolve)
        if (!isScheduled) schedule()
      })
    const giveWay: GiveWay = () => (now() < portionEndsAt ? undefined : nextPortion())

    async function start(): Promise<Work> {
      await nextPortion()
      let startedAt = now()
      let doneMs = 0
      const renew = async (): Promise<void> => {
        await nextPortion()
        startedAt = now()
      }
      return {
        workedMs: () => doneMs + now() - startedAt,
        giveWay() {
          const at = now()
          if (at < portionEndsAt) return undefined
          doneMs += at - startedAt
          return renew()
        },
        renew,
      }
    }
    return { giveWay, nextPortion, start }
  }

  const ahead: LongWork = {
    ...waitIn(urgent),
    get ahead() {
      return ahead
    },
  }
  return { ...waitIn(waiting), ahead }
}

/**
 * For loops over steps that are shorter than a look at the clock: returns a function to call after each, which returns true
 * when it is time to call `giveWay`. Each step counts `workPerStep` in addition to its own work, since many tiny steps add
 * up too.
 */
export function createPause(workPerLook: number, workPerStep: number): (work: number) => boolean {
  let done = 0
  return (work) => {
    done += work + workPerStep
    if (done < workPerLook) return false
    done = 0
    return true
  }
}
