/** Finds out whether the clock of this machine is behind: the store would hold entries of the future. */
import { type Engine, sql } from './engine/sql.ts'

/** Time of the newest change and of the newest row of any audit trail; 0 in an empty store. One look-up by index a trail. */
export async function newestTime(engine: Engine): Promise<number> {
  const row = await engine.one<{ at: number | null }>(sql`
    select max(at) as at from (
      select max(at) as at from change
      union all select (
        select entry.at from audit_entry entry where entry.chain_id = head.chain_id order by entry.sequence desc limit 1
      ) from audit_head head
    ) newest`)
  return row?.at ?? 0
}
