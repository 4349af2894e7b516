/** Ed25519 keys that sign JWTs and audit heads: random, wrapped by a root key, identified by a key id. */
import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject, sign, verify } from 'node:crypto'
import { associatedData, open, seal } from './envelope.ts'
import type { RootKey } from './keyring.ts'

export type SigningPurpose = 'jwt' | 'audit'
export type WrappedSigningKey = {
  readonly id: string
  readonly purpose: SigningPurpose
  readonly rootId: string
  readonly publicKey: Uint8Array
  readonly wrapped: Uint8Array
}
export type Signer = { readonly id: string; readonly privateKey: KeyObject; readonly publicKey: KeyObject }

export function createSigningKey(id: string, purpose: SigningPurpose, root: RootKey): WrappedSigningKey {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  const secret = privateKey.export({ format: 'der', type: 'pkcs8' })
  const publicBytes = publicKey.export({ format: 'der', type: 'spki' })
  return {
    id,
    purpose,
    rootId: root.id,
    publicKey: publicBytes,
    wrapped: seal(root.wrap, 1, place(id, purpose, root), secret),
  }
}

export function openSigningKey(row: WrappedSigningKey, root: RootKey): Signer {
  const secret = open(root.wrap, place(row.id, row.purpose, root), row.wrapped)
  const privateKey = createPrivateKey({ key: secret, format: 'der', type: 'pkcs8' })
  // Derived from the private key instead of the row: a swapped public key would make us accept foreign signatures.
  return { id: row.id, privateKey, publicKey: createPublicKey(privateKey) }
}

export function rewrapSigningKey(row: WrappedSigningKey, from: RootKey, to: RootKey): WrappedSigningKey {
  const secret = open(from.wrap, place(row.id, row.purpose, from), row.wrapped)
  return { ...row, rootId: to.id, wrapped: seal(to.wrap, 1, place(row.id, row.purpose, to), secret) }
}

export function signBytes(signer: Signer, bytes: Uint8Array): Buffer {
  return sign(null, bytes, signer.privateKey)
}

export function isSignatureGenuine(signer: Signer, bytes: Uint8Array, signature: Uint8Array): boolean {
  return signature.length === 64 && verify(null, bytes, signer.publicKey, signature)
}

/** For verifying signatures without the service. */
export const exportPublicKey = ({ publicKey }: Pick<Signer, 'publicKey'>): string =>
  publicKey.export({ format: 'der', type: 'spki' }).toString('base64')

export function isSignedBy(publicKey: string, bytes: Uint8Array, signature: Uint8Array): boolean {
  try {
    const key = createPublicKey({ key: Buffer.from(publicKey, 'base64'), format: 'der', type: 'spki' })
    return verify(null, bytes, key, signature)
  } catch {
    return false
  }
}

function place(id: string, purpose: SigningPurpose, root: RootKey): Buffer {
  return associatedData('signing-key', id, purpose, root.id)
}
