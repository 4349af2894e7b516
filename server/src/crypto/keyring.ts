/**
 * Root keys: 32 random bytes each, wrapped by the master key. The service uses keys derived from a root, one per
 * purpose. The active root serves all new data; older roots stay until nothing needs them.
 */
import { createHmac, type KeyObject, timingSafeEqual } from 'node:crypto'
import { Failure, isFailure } from '../failure.ts'
import { asKey, associatedData, deriveKey, keyVersionOf, lengthPrefixed, newKey, open, seal } from './envelope.ts'

export type RootKey = {
  readonly id: string
  /** Wraps workspace keys and signing keys. */
  readonly wrap: KeyObject
  /** Keys the stored hashes of tokens, sessions and invites. */
  readonly token: KeyObject
  /** Authenticates rows that grant rights. */
  readonly rowMac: KeyObject
  /** Keys the fingerprints of values in the audit trail. */
  readonly audit: KeyObject
  /** Seals page cursors. */
  readonly cursor: KeyObject
  /** Derives the key of each backup. */
  readonly backup: KeyObject
  /** The code for the first account. */
  readonly setup: KeyObject
}

export type WrappedRootKey = { readonly id: string; readonly wrapped: Uint8Array; readonly checkValue: Uint8Array }

export type Keyring = {
  readonly active: RootKey
  /** Active first. */
  readonly all: readonly RootKey[]
  find(id: string): RootKey | undefined
}

/** Version in the authenticated header of a wrapped root: 1 is older than the register of keys, 2 requires it. */
const registeredVersion = 2

/** The master key is used only to wrap root keys and to seal their register. */
export function masterWrapKey(master: Uint8Array): KeyObject {
  return deriveKey(master, 'master-wrap')
}

export function createRootKey(id: string, master: KeyObject): { root: RootKey; wrapped: WrappedRootKey } {
  const bytes = newKey()
  const wrapped = wrapRootKey(id, bytes, master)
  return { root: deriveRootKey(id, bytes), wrapped: { id, wrapped, checkValue: checkValue(id, bytes) } }
}

/** False for a root that is older than the register of keys. */
export function isRegistered(row: WrappedRootKey): boolean {
  return keyVersionOf(row.wrapped) === registeredVersion
}

/** Wraps an old root again, so that it is accepted only if the register lists it. */
export function rewrapRegistered(row: WrappedRootKey, master: KeyObject): Buffer {
  return wrapRootKey(row.id, open(master, associatedData('root-key', row.id), row.wrapped), master)
}

function wrapRootKey(id: string, bytes: Uint8Array, master: KeyObject): Buffer {
  return seal(master, registeredVersion, associatedData('root-key', id), bytes)
}

/** Throws `integrity` if another master key wrapped the root. */
export function openRootKey(row: WrappedRootKey, master: KeyObject): RootKey {
  return deriveRootKey(row.id, openRootBytes(row, master))
}

function openRootBytes(row: WrappedRootKey, master: KeyObject): Buffer {
  const bytes = open(master, associatedData('root-key', row.id), row.wrapped)
  const expected = checkValue(row.id, bytes)
  if (row.checkValue.length !== expected.length || !timingSafeEqual(expected, row.checkValue)) {
    throw new Failure('integrity')
  }
  return bytes
}

/** False if another master key wrapped the root, or if it was damaged. */
export function isWrappedBy(row: WrappedRootKey, master: KeyObject): boolean {
  try {
    openRootBytes(row, master)
    return true
  } catch (error) {
    if (isFailure(error, 'integrity')) return false
    throw error
  }
}

/** Wraps a root with another master key. */
export function rewrapRootKey(row: WrappedRootKey, from: KeyObject, to: KeyObject): Buffer {
  return wrapRootKey(row.id, openRootBytes(row, from), to)
}

/** The next master key for the holders of this one. */
export function sealHandover(master: KeyObject, id: string, next: KeyObject): Buffer {
  return seal(master, 1, associatedData('master-handover', id), next.export())
}

export function openHandover(master: KeyObject, id: string, sealed: Uint8Array): KeyObject {
  return asKey(open(master, associatedData('master-handover', id), sealed))
}

export function createKeyring(active: RootKey, others: readonly RootKey[]): Keyring {
  const byId = new Map([active, ...others].map((root) => [root.id, root]))
  return { active, all: [...byId.values()], find: (id) => byId.get(id) }
}

function deriveRootKey(id: string, bytes: Uint8Array): RootKey {
  return {
    id,
    wrap: deriveKey(bytes, 'wrap'),
    token: deriveKey(bytes, 'token'),
    rowMac: deriveKey(bytes, 'rowmac'),
    audit: deriveKey(bytes, 'audit'),
    cursor: deriveKey(bytes, 'cursor'),
    backup: deriveKey(bytes, 'backup'),
    setup: deriveKey(bytes, 'setup'),
  }
}

/** Distinguishes a wrong key from a damaged record, and lets the operator identify a key without revealing it. */
function checkValue(id: string, bytes: Uint8Array): Buffer {
  return createHmac('sha256', deriveKey(bytes, 'check'))
    .update(lengthPrefixed(['root-key', id]))
    .digest()
    .subarray(0, 8)
}
