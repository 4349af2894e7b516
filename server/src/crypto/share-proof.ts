/** Proofs of those who read a share: only hashes of them are kept, and comparing takes the same time whatever is missing. */
import { createHash, timingSafeEqual } from 'node:crypto'

const nobodys = Buffer.alloc(32)

/** `proof` is base64url; `expected` is absent where there is no such share. */
export function isProofRight(expected: Uint8Array | null | undefined, proof: string | undefined): boolean {
  const isEqual = timingSafeEqual(hashProof(proof ?? ''), expected ?? nobodys)
  return isEqual && expected != null && proof !== undefined
}

export function hashProof(proof: string): Buffer {
  return createHash('sha256').update(Buffer.from(proof, 'base64url')).digest()
}
