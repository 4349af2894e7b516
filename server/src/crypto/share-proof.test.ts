import { createHash, randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { hashProof, isProofRight } from './share-proof.ts'

test('a proof matches only its own hash', () => {
  const proof = randomBytes(32)
  const text = proof.toString('base64url')
  const hash = createHash('sha256').update(proof).digest()
  expect(hashProof(text)).toEqual(hash)
  expect(isProofRight(hash, text)).toBe(true)
  expect(isProofRight(hash, randomBytes(32).toString('base64url'))).toBe(false)
  expect(isProofRight(hash, text.slice(0, -2))).toBe(false)
})

test('a missing proof or a missing hash never matches', () => {
  const empty = createHash('sha256').digest()
  for (const expected of [undefined, null]) {
    for (const proof of [undefined, '', randomBytes(32).toString('base64url')]) {
      expect(isProofRight(expected, proof)).toBe(false)
    }
  }
  expect(isProofRight(empty, undefined)).toBe(false)
})
