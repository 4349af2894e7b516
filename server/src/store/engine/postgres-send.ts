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

/**
 * Call before each statement: the connection then holds its statements back until nothing more can be sent without an
 * answer. Each packet costs both sides a system call, and wakes the server.
 */
export function createPacker(stream: Writable | undefined): () => void {
  let isHeld = false
  const send = () => {
    isHeld = false
    stream?.uncork()
  }
  return () => {
    if (isHeld) return
    isHeld = true
    stream?.cork()
    // Twice, because a commit follows the statements before it one tick later.
    process.nextTick(() => queueMicrotask(() => process.nextTick(send)))
  }
}
