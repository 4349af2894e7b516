/** UUID v7: sorted by time of making, strictly so within one process. */
import { randomFillSync } from 'node:crypto'

/** Random bytes are taken from a pool: asking for a few at a time costs more than the rest of an id. */
const pool = new Uint8Array(4_000)
let used = pool.length

function takeRandomByte(): number {
  if (used === pool.length) {
    randomFillSync(pool)
    used = 0
  }
  return pool[used++] ?? 0
}

const hex = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'))
const randomHex = () => hex[takeRandomByte()] ?? ''
const bits = (value: number, digits: number) => value.toString(16).padStart(digits, '0')

let lastMs = 0
let beginning = ''
let counter = 0

export function newId(nowMs: number = Date.now()): string {
  if (nowMs > lastMs) {
    startAt(nowMs)
    counter = ((takeRandomByte() << 8) | takeRandomByte()) & 0x7ff
  } else if (++counter > 0xfff) {
    startAt(lastMs + 1)
    counter = 0
  }
  const variant = hex[(takeRandomByte() & 0x3f) | 0x80]
  const tail = randomHex() + randomHex() + randomHex() + randomHex() + randomHex() + randomHex()
  return `${beginning}-${bits(0x7000 | counter, 4)}-${variant}${randomHex()}-${tail}`
}

function startAt(ms: number): void {
  lastMs = ms
  const digits = bits(ms, 12)
  beginning = `${digits.slice(0, 8)}-${digits.slice(8)}`
}
