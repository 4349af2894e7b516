/** Shared code of tables whose rows carry a MAC: signing, checking, and two walks over all rows. */
import { type MacField, type RowMac, signRow } from '../crypto/row-mac.ts'
import type { Keys } from './key/key.ts'

type VerifiedRows<Fields, Row extends Fields & RowMac & { readonly id: string }> = {
  sign(fields: Fields): RowMac
  isGenuine(row: Row): Promise<boolean>
  /** Counts rows with a bad MAC. `page` returns rows after an id, ordered by id. */
  countTampered(page: (afterId: string) => Promise<Row[]>): Promise<number>
  /**
   * Signs rows with the active root. A tampered row must not get a valid MAC: it keeps its old one, which can never
   * match. `save` returns 1 if the row was as it was read; `replace` gets those rows, for the sets that they belong to.
   */
  resign(
    rows: readonly Row[],
    save: (row: Row, mac: RowMac) => Promise<number>,
    replace?: (moved: readonly Moved<Row>[]) => Promise<void>,
  ): Promise<number>
}

/** A row as it was read, and its new MAC. */
export type Moved<Row> = { readonly row: Row; readonly mac: Uint8Array }

export function verifiedRows<Fields, Row extends Fields & RowMac & { readonly id: string }>(
  keys: Keys,
  table: string,
  macFields: (row: Fields) => MacField[],
): VerifiedRows<Fields, Row> {
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
    async resign(rows, save, replace) {
      const moved: Moved<Row>[] = []
      for (const row of rows) {
        const signed = (await isGenuine(row)) ? sign(row) : { mac: row.mac, macRootId: keys.keyring.active.id }
        if ((await save(row, signed)) === 1) moved.push({ row, mac: signed.mac })
      }
      await replace?.(moved)
      return rows.length
    },
  }
}
