/**
 * Reads and writes the ledger of a sync. Each row has a MAC by a key from the sealed settings, which is new for each
 * target. Rows that are forged or belong to another target are ignored, so the entries they name count as foreign.
 */
import { createHmac, createSecretKey, type KeyObject, timingSafeEqual } from 'node:crypto'
import { lengthPrefixed } from '../../crypto/envelope.ts'
import type { ReadStore, Store } from '../../store/store.ts'
import type { LedgerEntry } from '../../store/sync/ledger.ts'

export type Owner = { readonly syncId: string; readonly macKey: KeyObject }

/** Created once per run: importing the key for each MAC would be slow. */
export const macKeyOf = (base64: string): KeyObject => createSecretKey(base64, 'base64')

export async function readLedger(store: ReadStore, owner: Owner): Promise<LedgerEntry[]> {
  const signed = (await store.syncLedger.list(owner.syncId)).map((row) => {
    const [valueMac = '', mac = ''] = row.valueMac.split('.')
    const entry = { ...row, valueMac }
    return { entry, mac, expected: macOfEntry(owner, entry) }
  })
  const isGenuine = (rows: typeof signed) => isEqual(textOf(rows, 'mac'), textOf(rows, 'expected'))
  // One comparison for all rows, since hardly any ledger has a forged one.
  const genuine = isGenuine(signed) ? signed : signed.filter((row) => isGenuine([row]))
  return genuine.map(({ entry }) => entry)
}

/** No MAC contains a dot, so that different lists never give the same text. */
const textOf = <Name extends string>(rows: readonly Readonly<Record<Name, string>>[], name: Name): Buffer =>
  Buffer.from(rows.map((row) => row[name]).join('.'))

const isEqual = (a: Buffer, b: Buffer) => a.length === b.length && timingSafeEqual(a, b)

export async function writeLedger(store: Store, owner: Owner, entries: readonly LedgerEntry[]): Promise<void> {
  const signed = entries.map((entry) => ({ ...entry, valueMac: `${entry.valueMac}.${macOfEntry(owner, entry)}` }))
  store.syncLedger.put(owner.syncId, signed)
}

function macOfEntry({ syncId, macKey }: Owner, entry: LedgerEntry): string {
  const { name, remoteId, valueMac, mark, origin, status, updatedAt } = entry
  // JSON keeps null and the empty string apart.
  const parts = [name, remoteId, valueMac, mark, origin, status, updatedAt].map((part) => JSON.stringify(part))
  return createHmac('sha256', macKey)
    .update(lengthPrefixed(['ledger', syncId, ...parts]))
    .digest('base64url')
}
