/** Waits for changes of an environment by asking with the ETag of the last answer, which is cheap for the service. */
import type { Platform } from './platform.ts'

const defaultIntervalMs = 30_000
/** A shorter one would flood the service; a timer beyond the longest would overflow and end at once. */
const [minIntervalMs, maxIntervalMs] = [1_000, 86_400_000]

/** Names only: the values are read with `get`. */
export type Change = {
  readonly added: readonly string[]
  readonly changed: readonly string[]
  readonly removed: readonly string[]
}

export type WatchOptions = {
  /** 30 seconds by default, at least a second and at most a day. */
  readonly intervalMs?: number
  /** Ends the loop without an error. */
  readonly signal?: AbortSignal
}

type Values = ReadonlyMap<string, string>

/** Compares with what this loop has seen last: another loop or a call of `refresh` may have fetched a change first. */
export async function* watchChanges(
  first: Values,
  refreshed: (signal: AbortSignal | undefined) => Promise<Values>,
  { sleep, random }: Platform,
  { intervalMs = defaultIntervalMs, signal }: WatchOptions = {},
): AsyncGenerator<Change, void, undefined> {
  let seen = first
  const pauseMs = Math.min(maxIntervalMs, intervalMs > minIntervalMs ? intervalMs : minIntervalMs)
  try {
    while (true) {
      // Instances that were started together must not ask together.
      await sleep(pauseMs * (0.9 + random() / 5), signal)
      const values = await refreshed(signal)
      const change = compare(seen, values)
      seen = values
      if (change.added.length + change.changed.length + change.removed.length > 0) yield change
    }
  } catch (error) {
    if (!signal?.aborted) throw error
  }
}

export function compare(before: Values, after: Values): Change {
  const names = [...after.keys()]
  return {
    added: names.filter((name) => !before.has(name)),
    changed: names.filter((name) => before.has(name) && before.get(name) !== after.get(name)),
    removed: [...before.keys()].filter((name) => !after.has(name)),
  }
}
