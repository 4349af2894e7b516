/**
 * How much of values one request may hold, and from when on it lets others in or waits for its turn. It is measured before
 * anything is loaded: beyond it the answer would not fit into a string, and long before that nobody else would be answered.
 */
import { maxValueBytes } from '@coffer/contract/secret'
import { overheadBytes } from '../crypto/envelope.ts'
import { invalid } from '../failure.ts'
import { rowBytes } from '../store/secret-value.ts'
import { createLateTurns, createPause, type Turn } from '../turns.ts'

const mebibyte = 1024 * 1024
const maxBytes = 64 * mebibyte
/** The largest value, its seal, and what goes with it. */
const maxRowBytes = maxValueBytes + 2 * rowBytes
/** Where there cannot be more than this, it is not measured before it is loaded. */
const unmeasuredBytes = 16 * mebibyte
/** From here on it is loaded in parts, and in turn. */
export const largeBytes = 8 * mebibyte
/** Up to here all values of an answer are written in one go. */
export const smallBytes = mebibyte

/** However small their values are, so many secrets take some 10 MiB until they are written down. */
export const manySecrets = 2_500

/** So that memory stays bounded: of those who read so much, a few at a time do. */
export const inLargeTurn = createLateTurns(2, 32)

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
  spentBytes(): number
}

/** `field` is what the caller can ask less by, and `advice` how; `turn` is taken where it is much. */
export function createAllowance(field: string, advice: string, turn?: Turn): Allowance {
  let left = maxBytes

  function refuse(): never {
    throw invalid(field, `these values come to more than 64 MiB, too much for one request: ${advice}.`)
  }

  return {
    async load(maxRows, measure, list) {
      let isLarge = false
      if (maxRows * maxRowBytes > (turn ? Math.min(left, unmeasuredBytes) : left)) {
        const bytes = await measure()
        if (bytes > left) refuse()
        isLarge = bytes > largeBytes
        if (isLarge) await turn?.take()
      }
      const rows = await list(isLarge)
      for (const { sealed } of rows) left -= rowBytes + (sealed?.length ?? 0)
      if (maxBytes - left > largeBytes) await turn?.take()
      return rows
    },
    spend(bytes) {
      left -= bytes
      if (left < 0) refuse()
    },
    spentBytes: () => maxBytes - left,
  }
}

/** For what stands where something is to be written, and for what is to be written there. */
export const createWriteAllowance = (turn?: Turn): Allowance => createAllowance('secrets', 'write fewer at once', turn)

/** Counted as they will be once they stand there: what one request may write, it may write again. */
export async function refuseTooMuch(wishes: readonly { readonly value: string | null }[], turn?: Turn): Promise<void> {
  if (wishes.length * maxRowBytes <= largeBytes) return
  const allowance = createWriteAllowance()
  for (const { value } of wishes) {
    if (value !== null) allowance.spend(rowBytes + overheadBytes + Buffer.byteLength(value))
  }
  if (allowance.spentBytes() > largeBytes) await turn?.take()
}
