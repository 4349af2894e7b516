/** Whose a sync is while it runs: a lease for a while, and a fence that goes up whenever somebody else decides about it. */
import { type Db, sql } from './engine/sql.ts'

export function syncHoldStore(db: Db) {
  return {
    /** False where somebody else has decided or taken over, or the sync is gone. */
    async isHeld(id: string, fence: number): Promise<boolean> {
      return (await db.one(sql`select id from sync where id = ${id} and fence = ${fence}`)) !== undefined
    },

    /** False as above. */
    async renew(id: string, fence: number, leaseUntil: number): Promise<boolean> {
      return (
        (await db.run(sql`update sync set lease_until = ${leaseUntil} where id = ${id} and fence = ${fence}`)) === 1
      )
    },

    /**
     * The end of a run whose word no longer counts. It ends this very lease: that of whoever has taken over since stays.
     * False where the sync is gone.
     */
    async release(id: string, leaseUntil: number, endedAt: number): Promise<boolean> {
      const released = await db.run(sql`
        update sync set lease_until = case when lease_until = ${leaseUntil} then null else lease_until end,
          last_run_at = ${endedAt}
        where id = ${id}`)
      return released === 1
    },
  }
}
