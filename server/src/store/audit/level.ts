/** The ends of upgrades that the audit trail records. Reads the whole chain: only for a store whose upgrade is not finished. */
import { type Reader, sql } from '../engine/sql.ts'

/** The entity of the entry that records the end of an upgrade. */
export const levelEntity = (level: number) => ({ type: 'upgrade', id: `level-${level}` }) as const

/** The highest level that an upgrade was finished to; 0 if there is no such entry. */
export async function findRecordedLevel(db: Reader, chain: string): Promise<number> {
  const { type } = levelEntity(0)
  const entries = await db.all<{ id: string }>(sql`
    select entity_id as id from audit_entry where chain_id = ${chain} and entity_type = ${type}`)
  return Math.max(0, ...entries.map(({ id }) => Number(id.replace('level-', ''))))
}
