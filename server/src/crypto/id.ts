/** UUID v7: sorted by time of making, strictly so within one process. */
import { randomFillSync } from 'node:crypto'

/** Random bytes are taken from a pool: asking for ten at a time costs more than the rest of an id. */
const pool = Buffer.alloc(4_000)
let used = pool.length

function tenRandomBytes(): Buffer {
  if (used === pool.length) {
    randomFillSync(pool)
    used = 0
  }
  used += 10
  return pool.subarray(used - 10, used)
}

let lastMs = 0
let counter = 0

export function newId(nowMs: number = Date.now()): string {
  const random = tenRandomBytes()
  if (nowMs > lastMs) {
    lastMs = nowMs
    counter = random.readUInt16BE(0) & 0x7ff
  } else if (++counter > 0xfff) {
    lastMs++
    counter = 0
  }
  const bytes = Buffer.alloc(16)
  bytes.writeUIntBE(lastMs, 0, 6)
  bytes.writeUInt16BE(0x7000 | counter, 6)
  random.copy(bytes, 8, 2)
  bytes.writeUInt8(((bytes[8] ?? 0) & 0x3f) | 0x80, 8)
  const hex = bytes.toString('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
}
