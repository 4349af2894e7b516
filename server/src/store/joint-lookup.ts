/** One query for all lookups of the same turn of the event loop. */
import { yieldToEventLoop } from '../event-loop.ts'

/** `load` gets the distinct keys of all lookups, and returns the rows that exist. */
export function createJointLookup<Row>(
  load: (keys: readonly string[]) => Promise<ReadonlyMap<string, Row>>,
): (keys: readonly string[]) => Promise<Row | undefined> {
  let next: { readonly keys: Set<string>; readonly rows: Promise<ReadonlyMap<string, Row>> } | undefined

  function begin() {
    const keys = new Set<string>()
    const rows = yieldToEventLoop().then(() => {
      next = undefined
      return load([...keys])
    })
    return { keys, rows }
  }

  /** Finds the row of the first key that has one. */
  return async (keys) => {
    next ??= begin()
    for (const key of keys) next.keys.add(key)
    const rows = await next.rows
    const key = keys.find((one) => rows.has(one))
    return key === undefined ? undefined : rows.get(key)
  }
}
