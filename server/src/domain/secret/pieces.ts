/**
 * Answers with values, written entry by entry and measured as they are written, since what a format makes of a value may be
 * six times as long. Other requests get the event loop after each piece.
 */

import { nextTurn } from '../../event-loop.ts'
import { rowBytes } from '../../store/secret-value.ts'
import { type Allowance, smallBytes } from './size.ts'

/** What is to be sent one after the other. */
export type Pieces = Buffer[]

/** Small ones are text, which can be kept for others who ask the same. */
export type WrittenAnswer = { readonly body: string | Pieces; readonly bytes: number }

type Options = {
  /** What a byte of the text counts for. What each entry has beside its value is free, as it is in what is loaded. */
  readonly weight?: number
  readonly onPiece?: (piece: Buffer) => void
}

const pieceLength = 256 * 1024

export async function writeAnswer(
  entries: Iterable<string>,
  allowance: Allowance,
  { weight = 1, onPiece }: Options = {},
): Promise<WrittenAnswer> {
  const pieces: Pieces = []
  let bytes = 0
  let pending: string[] = []
  let length = 0

  function flush(): void {
    const piece = Buffer.from(pending.join(''))
    allowance.spend(Math.max(0, piece.length * weight - pending.length * rowBytes))
    onPiece?.(piece)
    pieces.push(piece)
    bytes += piece.length
    pending = []
    length = 0
  }

  for (const entry of entries) {
    pending.push(entry)
    length += entry.length
    if (length < pieceLength) continue
    flush()
    await nextTurn()
  }
  flush()
  return { body: bytes > smallBytes ? pieces : Buffer.concat(pieces).toString(), bytes }
}

/** Before an element or a member of JSON. */
export const commaAt = (index: number): string => (index === 0 ? '' : ',')
