/**
 * How often each environment has changed since this process began, as far as it has heard: at the commit for changes of
 * its own, within a second for those of other nodes. What was made at one number is stale at the next.
 */
export type Epochs = {
  of(environmentId: string): number
  advance(environmentId: string): void
  /** As if every environment had changed. */
  advanceAll(): void
}

/** Beyond this many, all start anew from a number that was never given out. */
const maxRemembered = 200_000

export function createEpochs(): Epochs {
  const numbers = new Map<string, number>()
  let floor = 0
  let highest = 0
  function startAnew(): void {
    numbers.clear()
    floor = highest
  }

  return {
    of: (environmentId) => numbers.get(environmentId) ?? floor,
    advance(environmentId) {
      highest++
      if (numbers.size >= maxRemembered) startAnew()
      numbers.set(environmentId, highest)
    },
    advanceAll() {
      highest++
      startAnew()
    },
  }
}
