/** Leases of jobs that one node of several does at a time. The fence rises with every claim. */
import { type Db, sql } from './engine/sql.ts'

/** A lease beyond this limit comes from a clock that was wrong. */
const maxLeaseMs = 24 * 60 * 60 * 1_000

export function leaseStore(db: Db) {
  return {
    /** Returns the fence; undefined while another run holds the lease. */
    async claim(id: string, nowMs: number, leaseUntil: number): Promise<number | undefined> {
      db.write(sql`insert into lease (id, fence) values (${id}, 0) on conflict (id) do nothing`)
      const row = await db.one<{ fence: number }>(sql`
        update lease set fence = fence + 1, lease_until = ${leaseUntil}
        where id = ${id}
          and (coalesce(lease_until, 0) < ${nowMs} or lease_until > ${nowMs + maxLeaseMs})
        returning fence`)
      return row?.fence
    },

    /** False if another run has taken over. */
    async isHeld(id: string, fence: number): Promise<boolean> {
      return (await db.one(sql`select id from lease where id = ${id} and fence = ${fence}`)) !== undefined
    },

    /** False in the same case. */
    async renew(id: string, fence: number, leaseUntil: number): Promise<boolean> {
      return (
        (await db.count(sql`update lease set lease_until = ${leaseUntil} where id = ${id} and fence = ${fence}`)) === 1
      )
    },

    /** Clears only its own lease, not that of a newer run. */
    release(id: string, fence: number): void {
      db.write(sql`update lease set lease_until = null where id = ${id} and fence = ${fence}`)
    },
  }
}
