/**
 * A keyed sum over a set of rows (MSet-Add-Hash, Clarke et al. 2003). It shows that a row was removed, added, or replaced
 * by an older one with a valid MAC of its own. Adding or removing a row costs the same however large the set is.
 *
 * sum = Σ HMAC-SHA-256(key, table, row id, row MAC) mod 2^256, kept in one sealed record together with its key.
 *
 * The sum alone could be forged: whoever knows the terms of a sum can look for another set with the same one. Nobody
 * does, because the key is random and the record is encrypted: an attacker sees neither a term nor a sum, and a set that
 * was never stored matches a record with probability 2^-256. A replaced record is one of before, and matches only the
 * rows of before. The key stays the same when the root key is rotated, so that a rotation only seals the record again.
 */
import { createHmac, type KeyObject } from 'node:crypto'
import { asKey, associatedData, keyBytes, lengthPrefixed, newKey, open, seal } from './envelope.ts'
import type { RootKey } from './keyring.ts'

export type RowSet = { readonly key: KeyObject; readonly sum: bigint }
export type SetRow = { readonly id: string; readonly mac: Uint8Array }
type Place = { readonly workspaceId: string; readonly kind: string }

const sumBits = 256
const sealVersion = 1

export const emptyRowSet = (): RowSet => ({ key: asKey(newKey()), sum: 0n })

export function addRow({ key, sum }: RowSet, table: string, row: SetRow): RowSet {
  return { key, sum: BigInt.asUintN(sumBits, sum + term(key, table, row)) }
}

export function removeRow({ key, sum }: RowSet, table: string, row: SetRow): RowSet {
  return { key, sum: BigInt.asUintN(sumBits, sum - term(key, table, row)) }
}

function term(key: KeyObject, table: string, { id, mac }: SetRow): bigint {
  const digest = createHmac('sha256', key)
    .update(lengthPrefixed([table, id, mac]))
    .digest('hex')
  return BigInt(`0x${digest}`)
}

export function sealRowSet(root: RootKey, place: Place, { key, sum }: RowSet): Buffer {
  const bytes = Buffer.from(sum.toString(16).padStart(sumBits / 4, '0'), 'hex')
  return seal(root.wrap, sealVersion, dataOf(root, place), Buffer.concat([key.export(), bytes]))
}

/** Throws `integrity` unless the record was sealed for this place. */
export function openRowSet(root: RootKey, place: Place, sealed: Uint8Array): RowSet {
  const bytes = open(root.wrap, dataOf(root, place), sealed)
  const sum = BigInt(`0x${bytes.subarray(keyBytes).toString('hex')}`)
  return { key: asKey(bytes.subarray(0, keyBytes)), sum }
}

const dataOf = (root: RootKey, { workspaceId, kind }: Place) => associatedData('row-set', workspaceId, kind, root.id)
