/** UUID v7: ordered by creation time, strictly within one process. */
import { randomByte } from './random-pool.ts'

const hex = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'))
const randomHex = () => hex[randomByte()] ?? ''
const bits = (value: number, digits: number) => value.toString(16).padStart(digits, '0')

let lastMs = 0
let beginning = ''
let counter = 0

export function newId(nowMs: number = Date.now()): string {
  if (nowMs > lastMs) {
    startAt(nowMs)
    counter = ((randomByte() << 8) | randomByte()) & 0x7ff
  } else if (++counter > 0xfff) {
    startAt(lastMs + 1)
    counter = 0
  }
  const variant = hex[(randomByte() & 0x3f) | 0x80]
  const tail = randomHex() + randomHex() + randomHex() + randomHex() + randomHex() + randomHex()
  return `${beginning}-${bits(0x7000 | counter, 4)}-${variant}${randomHex()}-${tail}`
}

function startAt(ms: number): void {
  lastMs = ms
  const digits = bits(ms, 12)
  beginning = `${digits.slice(0, 8)}-${digits.slice(8)}`
}
