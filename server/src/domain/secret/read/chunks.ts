/**
 * Writes responses with values entry by entry, and measures them while writing: a format can make a value six times as
 * long. Each piece is a portion of long work.
 */
import { rowBytes } from '../../../store/secret/row-size.ts'
import type { Context } from '../../context.ts'
import { type Allowance, smallBytes } from '../size.ts'

/** Buffers of a response, in the order of sending. */
export type Chunks = Buffer[]

/** A small body is a string, which can be cached. */
export type WrittenAnswer = { readonly body: string | Chunks; readonly bytes: number }

type Options = {
  /** Cost of each written byte. Every entry gets `rowBytes` for free, which covers its key and metadata. */
  readonly weight?: number
  readonly onPiece?: (piece: Buffer) => void
}

const pieceLength = 128 * 1024

export async function writeAnswer(
  { longWork }: Pick<Context, 'longWork'>,
  entries: Iterable<string>,
  allowance: Allowance,
  { weight = 1, onPiece }: Options = {},
): Promise<WrittenAnswer> {
  const pieces: Chunks = []
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
    await longWork.nextPortion()
  }
  flush()
  return { body: bytes > smallBytes ? pieces : Buffer.concat(pieces).toString(), bytes }
}

/** Separator before the JSON element or member at this index. */
export const commaAt = (index: number): string => (index === 0 ? '' : ',')
