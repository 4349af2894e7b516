/**
 * Reads and writes the ledger of a sync. Each row has a MAC by a key from the sealed settings, which is new for each
 * target. Rows that are forged or belong to another target are ignored, so the entries they name count as foreign.
 */
import { createHmac, createSecretKey, type KeyObject, timingSafeEqual } from 'node:crypto'
import { lengthPrefixed } from '../../crypto/envelope.ts'
import type { Store } from '../../store/store.ts'
import type { LedgerEntry } from '../../store/sync/ledger.ts'

export type Owner = { readonly syncId: string; readonly macKey: KeyObject }

/** Created once per run: importing the key for each MAC would be slow. */
export const macKeyOf = (base64: string): KeyObject => createSecretKey(base64, 'base64')

export async function readLedger(store: Store, owner: Owner): Promise<LedgerEntry[]> {
  const rows = await store.syncLedger.list(owner.syncId)
  return rows.flatMap((row) => {
    const [valueMac = '', mac = ''] = row.valueMac.split('.')
    const entry = { ...row, valueMac }
    const given = Buffer.from(mac)
    const expected = Buffer.from(macOfEntry(owner, entry))
    return given.length === expected.length && timingSafeEqual(given, expected) ? [entry] : []
  })
}

export async function writeLedger(store: Store, owner: Owner, entries: readonly LedgerEntry[]): Promise<void> {
  const signed = entries.map((entry) => ({ ...entry, valueMac: `${entry.valueMac}.${macOfEntry(owner, entry)}` }))
  await store.syncLedger.put(owner.syncId, signed)
}

function macOfEntry({ syncId, macKey }: Owner, entry: LedgerEntry): string {
  const { name, remoteId, valueMac, mark, origin, status, updatedAt } = entry
  // JSON keeps null and the empty string apart.
  const parts = [name, remoteId, valueMac, mark, origin, status, updatedAt].map((part) => JSON.stringify(part))
  return createHmac('sha256', macKey)
    .update(lengthPrefixed(['ledger', syncId, ...parts]))
    .digest('base64url')
}
