/** How statements reach PostgreSQL: short lists are made longer, and statements of one moment are sent together. */
import type { Writable } from 'node:stream'

/** How long PostgreSQL assumes a list to be when it plans a query for any list. */
const plannedItems = 10

/**
 * Repeats the last item of a short list. Otherwise the plan for any list would look dearer than one for this list, and
 * PostgreSQL would plan the query at every call, which takes longer than running it.
 */
export function withPadding(list: readonly string[]): readonly string[] {
  const last = list.at(-1)
  if (last === undefined || list.length >= plannedItems) return list
  return [...list, ...Array<string>(plannedItems - list.length).fill(last)]
}

/** Runs a function that sends statements: the connection holds them back until it has returned. */
type Packing = <Sent>(send: () => Sent) => Sent

/** Each packet costs both sides a system call, and wakes the server. */
export function packing(stream: Writable | undefined): Packing {
  return (send) => {
    stream?.cork()
    try {
      return send()
    } finally {
      stream?.uncork()
    }
  }
}
