/** Rows as bytes, the same from either engine. A cell is a kind (1 byte), then nothing, 8 bytes, or a length and bytes. */
import { Failure } from '../../failure.ts'
import type { Cell } from '../../store/engine/table-reader.ts'

const kinds = { null: 0, integer: 1, text: 2, bytes: 3 } as const
const integerBytes = 8
const lengthBytes = 4
const half = 2 ** 32

/** Collects rows until `take` is called. */
export function createRowEncoder() {
  let room = Buffer.allocUnsafe(64 * 1024)
  let used = 0

  function reserve(bytes: number): void {
    if (used + bytes <= room.length) return
    const larger = Buffer.allocUnsafe(Math.max(2 * room.length, used + bytes))
    room.copy(larger, 0, 0, used)
    room = larger
  }

  function add(cell: Cell): void {
    if (cell === null) {
      reserve(1)
      used = room.writeUInt8(kinds.null, used)
    } else if (typeof cell === 'number') {
      reserve(1 + integerBytes)
      used = room.writeUInt8(kinds.integer, used)
      used = room.writeInt32BE(Math.floor(cell / half), used)
      used = room.writeUInt32BE(cell - Math.floor(cell / half) * half, used)
    } else {
      const isText = typeof cell === 'string'
      const length = isText ? Buffer.byteLength(cell) : cell.length
      reserve(1 + lengthBytes + length)
      used = room.writeUInt8(isText ? kinds.text : kinds.bytes, used)
      used = room.writeUInt32BE(length, used)
      if (isText) room.write(cell, used)
      else room.set(cell, used)
      used += length
    }
  }

  return {
    get bytes() {
      return used
    },
    add: (row: readonly Cell[]) => row.forEach(add),
    /** The bytes of all rows since the last call. */
    take(): Buffer {
      const taken = Buffer.from(room.subarray(0, used))
      used = 0
      return taken
    },
  }
}

/** Throws `integrity` if the bytes are not whole rows. */
export function* decodeRows(bytes: Buffer, columns: number): Generator<Cell[]> {
  let at = 0
  const need = (count: number) => {
    if (at + count > bytes.length) throw new Failure('integrity')
  }
  const next = (): Cell => {
    need(1)
    const kind = bytes.readUInt8(at++)
    if (kind === kinds.null) return null
    if (kind === kinds.integer) {
      need(integerBytes)
      at += integerBytes
      return bytes.readInt32BE(at - integerBytes) * half + bytes.readUInt32BE(at - lengthBytes)
    }
    if (kind !== kinds.text && kind !== kinds.bytes) throw new Failure('integrity')
    need(lengthBytes)
    const length = bytes.readUInt32BE(at)
    at += lengthBytes
    need(length)
    at += length
    return kind === kinds.text ? bytes.toString('utf8', at - length, at) : bytes.subarray(at - length, at)
  }
  while (at < bytes.length) yield Array.from({ length: columns }, next)
}
