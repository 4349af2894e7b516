/** Random bytes for ids and nonces, fetched in bulk because small requests are slow. */
import { randomFillSync } from 'node:crypto'

const pool = new Uint8Array(4_096)
let used = pool.length

export function randomByte(): number {
  if (used === pool.length) {
    randomFillSync(pool)
    used = 0
  }
  return pool[used++] ?? 0
}

export function fillRandom(target: Uint8Array, from: number, to: number): void {
  for (let index = from; index < to; index++) target[index] = randomByte()
}
