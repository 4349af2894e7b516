/** For vendors that take one item a call. */
import { isFault } from './fault.ts'
import type { Op, OpResult } from './provider.ts'

export type Done = { readonly id?: string; readonly mark?: string; readonly note?: string }

/** What is wrong with one name is said of that name; anything else would meet the next op, too, and ends the call. */
export async function* applyEach<One extends Op>(
  ops: readonly One[],
  perform: (op: One) => Promise<Done | undefined>,
): AsyncIterable<OpResult> {
  for (const op of ops) {
    try {
      yield { name: op.name, ...(await perform(op)) }
    } catch (error) {
      if (!isFault(error, 'invalid') && !isFault(error, 'conflict') && !isFault(error, 'quota')) throw error
      yield { name: op.name, fault: error }
    }
  }
}
