/**
 * Hides what is kept in memory only: each text under a pad of its own, as long as itself, made at random and used once.
 * Neither of the two buffers says anything without the other; both die with the process. Opening one costs a tenth of an
 * AES-GCM record, and the answers that are kept so are opened by every read.
 */
import { randomFillSync } from 'node:crypto'

export type Hidden = {
  readonly pad: Int32Array
  readonly covered: Int32Array
  readonly bytes: number
  /** Where each letter is one byte it is read faster. */
  readonly encoding: 'latin1' | 'utf8'
}

const wordBytes = 4

export function hide(text: string): Hidden {
  const plaintext = Buffer.from(text, 'utf8')
  const words = Math.ceil(plaintext.length / wordBytes)
  const pad = randomFillSync(new Int32Array(words))
  const covered = new Int32Array(words)
  new Uint8Array(covered.buffer).set(plaintext)
  plaintext.fill(0)
  for (let index = 0; index < words; index++) covered[index] = (covered[index] ?? 0) ^ (pad[index] ?? 0)
  return { pad, covered, bytes: plaintext.length, encoding: plaintext.length === text.length ? 'latin1' : 'utf8' }
}

/** Where texts are put together: kept, as making one for every text would cost more than the rest; wiped each time. */
let desk = new Int32Array(4_096)

export function reveal(hidden: Hidden): string {
  const { covered, bytes, encoding } = hidden
  if (desk.length < covered.length) desk = new Int32Array(covered.length)
  uncover(hidden, desk)
  const text = Buffer.from(desk.buffer, 0, bytes).toString(encoding)
  desk.fill(0, 0, covered.length)
  return text
}

/** The same for what is about to be sent: a very long text would only be turned into bytes again. */
export function revealBytes(hidden: Hidden): Buffer {
  const plain = Buffer.allocUnsafeSlow(hidden.covered.byteLength)
  uncover(hidden, new Int32Array(plain.buffer))
  return plain.subarray(0, hidden.bytes)
}

/** Four words a turn: twice as fast as one. Both hold as many, so no word is missing. */
function uncover({ pad, covered }: Hidden, plain: Int32Array): void {
  const words = covered.length
  const word = (index: number) => (covered[index] as number) ^ (pad[index] as number)
  let index = 0
  for (; index + 3 < words; index += 4) {
    plain[index] = word(index)
    plain[index + 1] = word(index + 1)
    plain[index + 2] = word(index + 2)
    plain[index + 3] = word(index + 3)
  }
  for (; index < words; index++) plain[index] = word(index)
}
