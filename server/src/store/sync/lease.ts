/**
 * Ownership of a running sync: a lease that expires, and a fence that rises whenever another run or a person takes
 * over.
 */
import type { SyncTrigger } from '@coffer/contract/sync'
import { type Db, sql } from '../engine/sql.ts'
import { maxDelayMs, type RunMark } from './run-mark.ts'

/** A sync with a lease. `run` is null if a node of an earlier version holds it. */
export type HeldSync = {
  readonly id: string
  readonly fence: number
  readonly run: RunMark | null
  readonly runFence: number | null
  readonly leaseUntil: number
  readonly isExpired: number
  readonly triggerNext: SyncTrigger
  readonly failCount: number
}
type HeldRow = Omit<HeldSync, 'run'> & { readonly run: string | null }

export function syncLeaseStore(db: Db) {
  return {
    /** False if another run or a person has taken over, or the sync is gone. */
    async isHeld(id: string, fence: number): Promise<boolean> {
      return (await db.one(sql`select id from sync where id = ${id} and fence = ${fence}`)) !== undefined
    },

    /** False in the same cases. */
    async renew(id: string, fence: number, leaseUntil: number): Promise<boolean> {
      return (
        (await db.count(sql`update sync set lease_until = ${leaseUntil} where id = ${id} and fence = ${fence}`)) === 1
      )
    },

    /** The syncs that a run holds, or held when its process died. */
    async listHeld(nowMs: number): Promise<HeldSync[]> {
      const rows = await db.all<HeldRow>(sql`
        select id, fence, run, run_fence as "runFence", lease_until as "leaseUntil", trigger_next as "triggerNext",
          fail_count as "failCount",
          case when lease_until < ${nowMs} or lease_until > ${nowMs + maxDelayMs} then 1 else 0 end as "isExpired"
        from sync where lease_until > 0 order by lease_until`)
      return rows.map((row) => ({ ...row, run: row.run === null ? null : JSON.parse(row.run) }))
    },

    /** Ends a lease that nobody has renewed since it was listed. */
    end({ id, fence, leaseUntil }: HeldSync): void {
      db.write(sql`
        update sync set lease_until = null, run = null
        where id = ${id} and fence = ${fence} and lease_until = ${leaseUntil}`)
    },

    /**
     * Ends a run that has lost its fence. Clears only its own lease, not that of a newer run. False if the sync is
     * gone.
     */
    async release(id: string, leaseUntil: number, endedAt: number): Promise<boolean> {
      const released = await db.count(sql`
        update sync set lease_until = case when lease_until = ${leaseUntil} then null else lease_until end,
          run = case when lease_until = ${leaseUntil} then null else run end,
          last_run_at = ${endedAt}
        where id = ${id}`)
      return released === 1
    },
  }
}
