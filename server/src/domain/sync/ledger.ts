/**
 * The ledger as its sync reads it. Each row is authenticated by a key that lies in the sealed settings and is a new one
 * for each target: a row that was written behind our back, or for another target, is none, and what it names is
 * somebody else's.
 */
import { createHmac, createSecretKey, type KeyObject, timingSafeEqual } from 'node:crypto'
import { lengthPrefixed } from '../../crypto/envelope.ts'
import type { Store } from '../../store/store.ts'
import type { LedgerEntry } from '../../store/sync-ledger.ts'

export type Owner = { readonly syncId: string; readonly macKey: KeyObject }

/** Made once for all that a run signs: from bytes it would be made anew for each. */
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
  // An absent part is not an empty one.
  const parts = [name, remoteId, valueMac, mark, origin, status, updatedAt].map((part) => JSON.stringify(part))
  return createHmac('sha256', macKey)
    .update(lengthPrefixed(['ledger', syncId, ...parts]))
    .digest('base64url')
}
