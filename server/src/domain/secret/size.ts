/**
 * Limits how many bytes of values one request may load or write, and when it needs a slot. Sizes are measured before
 * loading: a larger response would not fit into a string, and would block other requests long before that.
 */
import { maxValueBytes } from '@coffer/contract/secret'
import { overheadBytes } from '../../crypto/envelope.ts'
import { invalid } from '../../failure.ts'
import { createPause } from '../../long-work.ts'
import { rowBytes } from '../../store/secret/row-size.ts'
import type { Context, WriteContext } from '../context.ts'
import { acquireLargeSlot } from '../slot.ts'

const mebibyte = 1024 * 1024
const maxBytes = 64 * mebibyte
export const isTooLarge = (value: string) => Buffer.byteLength(value) > maxValueBytes

/** The largest value, with its encryption overhead and the rest of its row. */
const maxRowBytes = maxValueBytes + 2 * rowBytes
/** Loads that cannot exceed this size are not measured first. */
const unmeasuredBytes = 16 * mebibyte
/** From this size on, values are loaded in parts, and the request needs a slot. */
export const largeBytes = 8 * mebibyte
/** Up to this size a response is one string, which can be cached. */
export const smallBytes = mebibyte

/** This many secrets take about 10 MiB while a response is written, however small their values are. */
export const manySecrets = 2_500

/** For loops that decrypt values: takes the bytes of each; true after 128 small values or 1 MiB. */
export const createOpeningPause = () => createPause(mebibyte, 8 * 1024)

export type Allowance = {
  /** Loads up to `maxRows` rows, measured first if they might be large. `list` should load in parts if `isLarge`. */
  load<Row extends { readonly sealed: Uint8Array | null }>(
    maxRows: number,
    measure: () => Promise<number>,
    list: (isLarge: boolean) => Promise<Row[]>,
  ): Promise<Row[]>
  /** Counts bytes that were loaded elsewhere, or written. */
  spend(bytes: number): void
}

/** Size budget. `field` and `advice` tell the caller in the error how to ask for less. Large sizes take a slot. */
export function createAllowance(ctx: Context, field: string, advice: string): Allowance {
  let left = maxBytes

  function refuse(): never {
    throw invalid(field, `these values add up to more than 64 MiB, too much for one request: ${advice}.`)
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

/** Size budget of a write, both for the stored values that it replaces and for the new ones. */
export const createWriteAllowance = (ctx: WriteContext): Allowance =>
  createAllowance(ctx, 'secrets', 'write fewer at once')

/** Counts values at their stored size: a request that fits must also fit when it is repeated. */
export function refuseTooMuch(ctx: WriteContext, edits: readonly { readonly value: string | null }[]): void {
  if (edits.length * maxRowBytes <= largeBytes) return
  let bytes = 0
  for (const { value } of edits) if (value !== null) bytes += rowBytes + overheadBytes + Buffer.byteLength(value)
  createWriteAllowance(ctx).spend(bytes)
}
