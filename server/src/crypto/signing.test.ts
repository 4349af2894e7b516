import { createPublicKey, generateKeyPairSync, verify } from 'node:crypto'
import { inspect } from 'node:util'
import { describe, expect, test } from 'vitest'
import { newKey } from './envelope.ts'
import { newId } from './id.ts'
import { createRootKey, masterWrapKey } from './keyring.ts'
import { createSigningKey, isSignatureGenuine, openSigningKey, rewrapSigningKey, signBytes } from './signing.ts'

const master = masterWrapKey(newKey())
const root = createRootKey(newId(), master).root
const other = createRootKey(newId(), master).root
const row = createSigningKey(newId(), 'jwt', root)
const signer = openSigningKey(row, root)
const message = Buffer.from('header.payload')
const signature = signBytes(signer, message)
const integrity = expect.objectContaining({ code: 'integrity' })

test('a signature is Ed25519 and verifies with the stored public key', () => {
  const publicKey = createPublicKey({ key: Buffer.from(row.publicKey), format: 'der', type: 'spki' })
  expect(publicKey.asymmetricKeyType).toBe('ed25519')
  expect(verify(null, message, publicKey, signature)).toBe(true)
  expect(isSignatureGenuine(signer, message, signature)).toBe(true)
})

test('a change to any bit of the signature or the message is rejected', () => {
  for (const [bytes, isGenuine] of [
    [signature, (changed: Buffer) => isSignatureGenuine(signer, message, changed)],
    [message, (changed: Buffer) => isSignatureGenuine(signer, changed, signature)],
  ] as const) {
    for (let at = 0; at < bytes.length; at++) {
      for (let bit = 0; bit < 8; bit++) {
        const changed = Buffer.from(bytes)
        changed.writeUInt8(changed.readUInt8(at) ^ (1 << bit), at)
        expect(isGenuine(changed)).toBe(false)
      }
    }
  }
})

test('a signature of another length, all zeros, or by another key is rejected', () => {
  for (let length = 0; length < 64; length++) {
    expect(isSignatureGenuine(signer, message, signature.subarray(0, length))).toBe(false)
  }
  expect(isSignatureGenuine(signer, message, Buffer.concat([signature, Buffer.alloc(1)]))).toBe(false)
  expect(isSignatureGenuine(signer, message, Buffer.alloc(64))).toBe(false)
  const stranger = openSigningKey(createSigningKey(row.id, 'jwt', root), root)
  expect(isSignatureGenuine(signer, message, signBytes(stranger, message))).toBe(false)
})

test('a non-canonical signature (scalar plus group order) is rejected', () => {
  const order = 2n ** 252n + 27742317777372353535851937790883648493n
  const scalar = BigInt(`0x${Buffer.from(signature.subarray(32)).reverse().toString('hex')}`) + order
  const second = Buffer.from(scalar.toString(16).padStart(64, '0'), 'hex').reverse()
  expect(isSignatureGenuine(signer, message, Buffer.concat([signature.subarray(0, 32), second]))).toBe(false)
})

test('a public key replaced in the row is not used', () => {
  const attacker = generateKeyPairSync('ed25519')
  const publicKey = attacker.publicKey.export({ format: 'der', type: 'spki' })
  const opened = openSigningKey({ ...row, publicKey }, root)
  expect(opened.publicKey.equals(signer.publicKey)).toBe(true)
})

describe('a wrapped key is refused', () => {
  test('with any byte changed', () => {
    for (let at = 0; at < row.wrapped.length; at++) {
      const wrapped = Buffer.from(row.wrapped)
      wrapped.writeUInt8(wrapped.readUInt8(at) ^ 0x40, at)
      expect(() => openSigningKey({ ...row, wrapped }, root)).toThrow(integrity)
    }
  })

  test('under another id, for another purpose, or with another root', () => {
    expect(() => openSigningKey({ ...row, id: newId() }, root)).toThrow(integrity)
    expect(() => openSigningKey({ ...row, purpose: 'audit' }, root)).toThrow(integrity)
    expect(() => openSigningKey(row, other)).toThrow(integrity)
    expect(() => rewrapSigningKey(row, other, root)).toThrow(integrity)
  })
})

test('rewrapping under another root keeps the key, and the old root cannot open it', () => {
  const moved = rewrapSigningKey(row, root, other)
  expect(moved).toMatchObject({ id: row.id, purpose: 'jwt', rootId: other.id })
  expect(isSignatureGenuine(openSigningKey(moved, other), message, signature)).toBe(true)
  expect(() => openSigningKey(moved, root)).toThrow(integrity)
})

test('printing a signer does not reveal its private key', () => {
  const seed = signer.privateKey.export({ format: 'der', type: 'pkcs8' }).subarray(-32)
  const printed = inspect(signer, { depth: 9, showHidden: true }) + JSON.stringify(signer)
  expect(printed).not.toContain(seed.toString('hex'))
  expect(printed).not.toContain(seed.toString('base64url'))
})
