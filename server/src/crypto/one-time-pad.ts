/**
 * Hides what is kept in memory only: each text under a pad of its own, as long as itself, made at random and used once.
 * Neither of the two buffers says anything without the other; both die with the process. Opening one costs a tenth of an
 * AES-GCM record, and the answers that are kept so are opened by every read.
 */
import { randomFillSync } from 'node:crypto'

export type Hidden = { readonly pad: Uint32Array; readonly covered: Uint32Array; readonly bytes: number }

const wordBytes = 4

export function hide(plaintext: Uint8Array): Hidden {
  const words = Math.ceil(plaintext.length / wordBytes)
  const pad = randomFillSync(new Uint32Array(words))
  const covered = new Uint32Array(words)
  new Uint8Array(covered.buffer).set(plaintext)
  for (let index = 0; index < words; index++) covered[index] = (covered[index] ?? 0) ^ (pad[index] ?? 0)
  return { pad, covered, bytes: plaintext.length }
}

export function reveal({ pad, covered, bytes }: Hidden): Buffer {
  const plain = new Uint32Array(covered.length)
  for (let index = 0; index < plain.length; index++) plain[index] = (covered[index] ?? 0) ^ (pad[index] ?? 0)
  return Buffer.from(plain.buffer, 0, bytes)
}
