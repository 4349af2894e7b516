/** Rows that grant rights carry a MAC over every relevant field: a row altered in the database grants nothing. */
import { createHmac, timingSafeEqual } from 'node:crypto'
import { lengthPrefixed } from './envelope.ts'
import type { Keyring, RootKey } from './keyring.ts'

export type MacField = string | number | null | Uint8Array
export type RowMac = { readonly mac: Uint8Array; readonly macRootId: string }

export function signRow(root: RootKey, table: string, fields: readonly MacField[]): RowMac {
  return { mac: compute(root, table, fields), macRootId: root.id }
}

export function isRowGenuine(keyring: Keyring, table: string, fields: readonly MacField[], row: RowMac): boolean {
  const root = keyring.find(row.macRootId)
  if (!root) return false
  const expected = compute(root, table, fields)
  // An attacker who can change a row can also set its MAC to null.
  return row.mac?.length === expected.length && timingSafeEqual(expected, row.mac)
}

function compute(root: RootKey, table: string, fields: readonly MacField[]): Buffer {
  // A type tag before each field distinguishes null, the number 1 and the text "1".
  const parts = fields.flatMap((field) => {
    if (field === null) return ['0', '']
    if (typeof field === 'number') return ['n', String(field)]
    return [typeof field === 'string' ? 's' : 'b', field]
  })
  return createHmac('sha256', root.rowMac)
    .update(lengthPrefixed([table, root.id, ...parts]))
    .digest()
}
