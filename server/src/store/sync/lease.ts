/**
 * Ownership of a running sync: a lease that expires, and a fence that rises whenever another run or a person takes
 * over.
 */
import { type Db, sql } from '../engine/sql.ts'

export function syncLeaseStore(db: Db) {
  return {
    /** False if another run or a person has taken over, or the sync is gone. */
    async isHeld(id: string, fence: number): Promise<boolean> {
      return (await db.one(sql`select id from sync where id = ${id} and fence = ${fence}`)) !== undefined
    },

    /** False in the same cases. */
    async renew(id: string, fence: number, leaseUntil: number): Promise<boolean> {
      return (
        (await db.run(sql`update sync set lease_until = ${leaseUntil} where id = ${id} and fence = ${fence}`)) === 1
      )
    },

    /**
     * Ends a run that has lost its fence. Clears only its own lease, not that of a newer run. False if the sync is
     * gone.
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
