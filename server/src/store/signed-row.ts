/** What the tables whose rows carry a MAC have in common: signing, checking, and the two walks over all of their rows. */
import { type MacField, type RowMac, signRow } from '../crypto/row-mac.ts'
import type { Keys } from './key.ts'

type GenuineRows<Fields, Row extends Fields & RowMac & { readonly id: string }> = {
  sign(fields: Fields): RowMac
  isGenuine(row: Row): Promise<boolean>
  /** How many rows fail their MAC; `page` reads some rows after an id, in the order of ids. */
  countTampered(page: (afterId: string) => Promise<Row[]>): Promise<number>
  /** Moves rows to the active root. A tampered one must not become genuine: it gets a MAC that can never hold. */
  resign(rows: readonly Row[], save: (row: Row, mac: RowMac) => Promise<unknown>): Promise<number>
}

export function genuineRows<Fields, Row extends Fields & RowMac & { readonly id: string }>(
  keys: Keys,
  table: string,
  macFields: (row: Fields) => MacField[],
): GenuineRows<Fields, Row> {
  const sign = (fields: Fields) => signRow(keys.keyring.active, table, macFields(fields))
  const isGenuine = (row: Row) => keys.isGenuine(table, macFields(row), row)
  return {
    sign,
    isGenuine,
    async countTampered(page) {
      let count = 0
      let rows = await page('')
      while (rows.length > 0) {
        for (const row of rows) if (!(await isGenuine(row))) count++
        rows = await page(rows.at(-1)?.id ?? '')
      }
      return count
    },
    async resign(rows, save) {
      for (const row of rows) {
        const isStillGenuine = await isGenuine(row)
        await save(row, isStillGenuine ? sign(row) : { mac: row.mac, macRootId: keys.keyring.active.id })
      }
      return rows.length
    },
  }
}
