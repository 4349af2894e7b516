/** Size of stored values, measured before they are loaded. */
import { fragment, type Reader, type Sql } from '../engine/sql.ts'

/** Size of a row in memory and in a response, without its value. */
export const rowBytes = 200

/** For `sizeOf`: both engines know the length without reading the value. */
export const sealedSize = fragment(`coalesce(sum(octet_length(sealed)), 0) as bytes, count(*) as count`)

/** Size of the selected rows in memory. */
export async function sizeOf(db: Reader, query: Sql): Promise<number> {
  const size = await db.one<{ bytes: number; count: number }>(query)
  return size ? size.bytes + size.count * rowBytes : 0
}
