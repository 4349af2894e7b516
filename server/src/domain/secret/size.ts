/**
 * How much of values one request may hold, and from when on it lets others in or needs a slot. It is measured before
 * anything is loaded: beyond it the answer would not fit into a string, and long before that nobody else would be answered.
 */
import { maxValueBytes } from '@coffer/contract/secret'
import { overheadBytes } from '../../crypto/envelope.ts'
import { createPause } from '../../event-loop.ts'
import { invalid } from '../../failure.ts'
import { rowBytes } from '../../store/secret-value.ts'
import type { Context, WriteContext } from '../context.ts'
import { acquireLargeSlot } from '../slot.ts'

const mebibyte = 1024 * 1024
const maxBytes = 64 * mebibyte
/** The largest value, its seal, and what goes with it. */
const maxRowBytes = maxValueBytes + 2 * rowBytes
/** Where there cannot be more than this, it is not measured before it is loaded. */
const unmeasuredBytes = 16 * mebibyte
/** From here on it is loaded in parts, and needs a slot. */
export const largeBytes = 8 * mebibyte
/** Up to here an answer is one text, which is kept for others who ask the same. */
export const smallBytes = mebibyte

/** However small their values are, so many secrets take some 10 MiB until they are written down. */
export const manySecrets = 2_500

/** For a walk over values that are opened, by the bytes of each: 128 small ones or 1 MiB at a time. */
export const createOpeningPause = () => createPause(mebibyte, 8 * 1024)

export type Allowance = {
  /** Loads at most so many rows; where these might be too much, they are measured first. Many are best loaded in parts. */
  load<Row extends { readonly sealed: Uint8Array | null }>(
    maxRows: number,
    measure: () => Promise<number>,
    list: (isLarge: boolean) => Promise<Row[]>,
  ): Promise<Row[]>
  /** What is loaded already, or written. */
  spend(bytes: number): void
}

/** `field` is what the caller can ask less by, and `advice` how. Takes a slot where it is much. */
export function createAllowance(ctx: Context, field: string, advice: string): Allowance {
  let left = maxBytes

  function refuse(): never {
    throw invalid(field, `these values come to more than 64 MiB, too much for one request: ${advice}.`)
  }

  return {
    async load(maxRows, measure, list) {
      let isLarge = false
      if (maxRows * maxRowBytes > Math.min(left, unmeasuredBytes)) {
        const bytes = await measure()
        if (bytes > left) refuse()
        isLarge = bytes > largeBytes
        if (isLarge) acquireLargeSlot(ctx)
      }
      const rows = await list(isLarge)
      for (const { sealed } of rows) left -= rowBytes + (sealed?.length ?? 0)
      if (maxBytes - left > largeBytes) acquireLargeSlot(ctx)
      return rows
    },
    spend(bytes) {
      left -= bytes
      if (left < 0) refuse()
      if (maxBytes - left > largeBytes) acquireLargeSlot(ctx)
    },
  }
}

/** For what stands where something is to be written, and for what is to be written there. */
export const createWriteAllowance = (ctx: WriteContext): Allowance =>
  createAllowance(ctx, 'secrets', 'write fewer at once')

/** Counted as they will be once they stand there: what one request may write, it may write again. */
export function refuseTooMuch(ctx: WriteContext, wishes: readonly { readonly value: string | null }[]): void {
  if (wishes.length * maxRowBytes <= largeBytes) return
  let bytes = 0
  for (const { value } of wishes) if (value !== null) bytes += rowBytes + overheadBytes + Buffer.byteLength(value)
  createWriteAllowance(ctx).spend(bytes)
}
