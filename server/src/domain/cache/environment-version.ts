/**
 * A version number per environment, increased when this process learns of a change: at the commit for its own changes,
 * within a second for those of other nodes. Data cached at an older version is stale.
 */
export type EnvironmentVersions = {
  of(environmentId: string): number
  advance(environmentId: string): void
  /** Invalidates every environment. */
  advanceAll(): void
}

/** Beyond this many entries the map is cleared, and all environments get a version that was never used before. */
const maxRemembered = 200_000

export function createEnvironmentVersions(): EnvironmentVersions {
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
