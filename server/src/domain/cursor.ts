/** Opaque page cursors: the position of the last row of a page, encoded. */
import { invalid } from '../failure.ts'
import { isId } from './id.ts'

export const encodeCursor = (position: number | string): string => Buffer.from(String(position)).toString('base64url')

export function decodeCursor(cursor: string): number {
  const text = decode(cursor)
  const position = Number(text)
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(position) || position < 1) throw unknownCursor()
  return position
}

/** Like `decodeCursor`, for lists whose position is a row id. */
export function decodeIdCursor(cursor: string): string {
  const id = decode(cursor)
  if (!isId(id)) throw unknownCursor()
  return id
}

/** For lists of several kinds of rows, whose position is the kind and the id of a row. */
export function decodeTypedCursor<Type extends string>(
  cursor: string,
  types: readonly Type[],
): { readonly type: Type; readonly id: string } {
  const [word = '', id = '', ...rest] = decode(cursor).split(':')
  const type = types.find((one) => one === word)
  if (type === undefined || !isId(id) || rest.length > 0) throw unknownCursor()
  return { type, id }
}

const decode = (cursor: string) => Buffer.from(cursor, 'base64url').toString('latin1')
export const unknownCursor = () => invalid('cursor', 'is not valid: use the X-Next-Cursor of the previous page.')
