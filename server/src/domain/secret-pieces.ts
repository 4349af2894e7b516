/**
 * Answers that are too large to be written in one go: entry by entry and into pieces, with others answered in between, and
 * measured as they are written, since what a format makes of a value may be six times as long.
 */
import { rowBytes } from '../store/secret-value.ts'
import { nextTurn } from '../turns.ts'
import type { Allowance } from './secret-size.ts'

/** What is to be sent one after the other. */
export type Pieces = Buffer[]

const pieceLength = 256 * 1024

/** `weight` is what a byte of the text counts for. What each entry has beside its value is free, as it is in what is loaded. */
export async function* writePieces(
  entries: Iterable<string>,
  allowance: Allowance,
  weight = 1,
): AsyncGenerator<Buffer> {
  let pending: string[] = []
  let length = 0

  async function flush(): Promise<Buffer> {
    const piece = Buffer.from(pending.join(''))
    allowance.spend(Math.max(0, piece.length * weight - pending.length * rowBytes))
    await nextTurn()
    pending = []
    length = 0
    return piece
  }

  for (const entry of entries) {
    pending.push(entry)
    length += entry.length
    if (length >= pieceLength) yield await flush()
  }
  if (length > 0) yield await flush()
}

/** The length of an answer as it is sent. */
export function bytesOf(body: string | Pieces): number {
  return typeof body === 'string' ? Buffer.byteLength(body) : body.reduce((sum, { length }) => sum + length, 0)
}

/** Before an element or a member of JSON. */
export const commaAt = (index: number): string => (index === 0 ? '' : ',')
