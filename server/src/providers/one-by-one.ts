/** For vendors that take one thing at a time: what is wrong with one op stays with it, what is wrong with all ends the call. */
import { isFault } from './fault.ts'
import type { Op, OpResult } from './provider.ts'

export type Done = { readonly id?: string; readonly mark?: string; readonly note?: string }

export async function* oneByOne<One extends Op>(
  ops: readonly One[],
  work: (op: One) => Promise<Done>,
): AsyncIterable<OpResult> {
  for (const op of ops) {
    try {
      yield { name: op.name, ...(await work(op)) }
    } catch (error) {
      const isOfThisOne = isFault(error, 'invalid') || isFault(error, 'conflict') || isFault(error, 'quota')
      if (!isOfThisOne) throw error
      yield { name: op.name, fault: error }
    }
  }
}
