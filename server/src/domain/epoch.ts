/**
 * How often each environment has changed since this process began, as far as it has heard: at the commit for changes of
 * its own, within a second for those of other nodes. What was made at one number is stale at the next.
 */
export type Epochs = {
  of(environmentId: string): number
  advance(environmentId: string): void
}

/** Beyond this many, all start anew from a number that was never given out. */
const maxRemembered = 200_000

export function createEpochs(): Epochs {
  const numbers = new Map<string, number>()
  let floor = 0
  let highest = 0
  return {
    of: (environmentId) => numbers.get(environmentId) ?? floor,
    advance(environmentId) {
      highest++
      if (numbers.size >= maxRemembered) {
        numbers.clear()
        floor = highest
      }
      numbers.set(environmentId, highest)
    },
  }
}
