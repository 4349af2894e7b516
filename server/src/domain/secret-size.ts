/**
 * How much of values one request may hold. It is measured before anything is loaded: beyond it the answer would not fit
 * into a string, and long before that nobody else would be answered.
 */
import { maxValueBytes } from '@coffer/contract/secret'
import { invalid } from '../failure.ts'
import { rowBytes, sealedBytes } from '../store/secret-value.ts'

const maxBytes = 64 * 1024 * 1024
/** The largest value, its seal, and what goes with it. */
const maxRowBytes = maxValueBytes + 2 * rowBytes

/** So many values are opened before others are let in. */
export const opensPerTurn = 128

export type Allowance = {
  /** Loads at most so many rows; where these might be too much, they are measured first. */
  load<Row extends { readonly sealed: Uint8Array | null }>(
    maxRows: number,
    measure: () => Promise<number>,
    list: () => Promise<Row[]>,
  ): Promise<Row[]>
  /** What is loaded already. */
  spend(bytes: number): void
}

/** `field` is what the caller can ask less by, and `advice` how. */
export function createAllowance(field: string, advice: string): Allowance {
  let left = maxBytes

  function refuse(): never {
    throw invalid(field, `these values come to more than 64 MiB, too much for one request: ${advice}.`)
  }

  return {
    async load(maxRows, measure, list) {
      if (maxRows * maxRowBytes > left && (await measure()) > left) refuse()
      const rows = await list()
      for (const { sealed } of rows) left -= rowBytes + (sealed?.length ?? 0)
      return rows
    },
    spend(bytes) {
      left -= bytes
      if (left < 0) refuse()
    },
  }
}

/** For what stands where something is to be written, and for what is to be written there. */
export const createWriteAllowance = (): Allowance => createAllowance('secrets', 'write fewer at once')

/** Counted as they will be once they stand there: what one request may write, it may write again. */
export function refuseTooMuch(wishes: readonly { readonly value: string | null }[]): void {
  if (wishes.length * maxRowBytes <= maxBytes) return
  const allowance = createWriteAllowance()
  for (const { value } of wishes) if (value !== null) allowance.spend(rowBytes + sealedBytes(value))
}
