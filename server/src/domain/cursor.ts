/** Where a page ended, as an opaque word. */
import { invalid } from '../failure.ts'

export const encodeCursor = (position: number): string => Buffer.from(String(position)).toString('base64url')

export function decodeCursor(cursor: string): number {
  const text = Buffer.from(cursor, 'base64url').toString('latin1')
  const position = Number(text)
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(position) || position < 1)
    throw invalid('cursor', 'is not one that we gave out.')
  return position
}
