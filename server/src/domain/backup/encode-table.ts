/** The rows of a table as bytes, in pieces of bounded size. Their digest does not depend on where a piece ends. */
import { createHash } from 'node:crypto'
import type { TableReader, TableShape } from '../../store/engine/table-reader.ts'
import { frameBytes } from './file.ts'
import type { TableEntry } from './manifest.ts'
import { createRowEncoder } from './row-codec.ts'

type OnPiece = (bytes: Buffer, rows: number) => Promise<void> | void

export async function encodeTable(
  reader: TableReader,
  table: TableShape,
  onPiece: OnPiece,
): Promise<Pick<TableEntry, 'rows' | 'digest'>> {
  const digest = createHash('sha256')
  const encoder = createRowEncoder()
  let rows = 0
  let held = 0
  const flush = async () => {
    if (held === 0) return
    const bytes = encoder.take()
    digest.update(bytes)
    await onPiece(bytes, held)
    rows += held
    held = 0
  }
  for await (const page of reader.pages(table)) {
    for (const row of page) {
      encoder.add(row)
      held++
      if (encoder.bytes >= frameBytes) await flush()
    }
  }
  await flush()
  return { rows, digest: digest.digest('hex') }
}
