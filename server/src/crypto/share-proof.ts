/**
 * Proofs that readers of a share send. Only their hashes are stored, and the comparison takes constant time even if
 * there is no share or no proof.
 */
import { createHash, timingSafeEqual } from 'node:crypto'

const nobodys = Buffer.alloc(32)

/** `proof` is base64url; `expected` is missing if the share does not exist. */
export function isProofRight(expected: Uint8Array | null | undefined, proof: string | undefined): boolean {
  const isEqual = timingSafeEqual(hashProof(proof ?? ''), expected ?? nobodys)
  return isEqual && expected != null && proof !== undefined
}

export function hashProof(proof: string): Buffer {
  return createHash('sha256').update(Buffer.from(proof, 'base64url')).digest()
}
