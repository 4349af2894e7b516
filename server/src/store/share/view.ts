/** Views of a share and failed attempts, and claims that let a reader repeat a view whose response was lost. */
import type { ShareOutcome } from '@coffer/contract/share'
import { type Db, sql } from '../engine/sql.ts'

type ShareViewRow = {
  readonly id: string
  readonly shareId: string
  readonly at: number
  readonly ip: string
  readonly userAgent: string
  readonly outcome: ShareOutcome
  readonly claimHash: Uint8Array | null
}

export function shareViewStore(db: Db) {
  return {
    insertMany(rows: readonly ShareViewRow[]): void {
      db.writeMany(
        rows,
        (row) => sql`
        insert into share_view (id, share_id, at, ip, user_agent, outcome, claim_hash)
        values (${row.id}, ${row.shareId}, ${row.at}, ${row.ip}, ${row.userAgent}, ${row.outcome}, ${row.claimHash})`,
      )
    },

    /** Newest first. */
    async list(shareId: string): Promise<ShareViewRow[]> {
      return db.all<ShareViewRow>(sql`
        select id, share_id as "shareId", at, ip, user_agent as "userAgent", outcome, claim_hash as "claimHash"
        from share_view where share_id = ${shareId} order by id desc`)
    },

    /** Finds a view that was taken with this claim in the time range, and how often it was repeated. */
    async findClaim(
      shareId: string,
      claimHash: Uint8Array,
      sinceMs: number,
      notAfterMs: number,
    ): Promise<{ readonly repeats: number } | undefined> {
      const row = await db.one<{ views: number; repeats: number }>(sql`
        select coalesce(sum(case when outcome = 'success' and at > ${sinceMs} and at <= ${notAfterMs} then 1 else 0 end), 0) as views,
          coalesce(sum(case when outcome = 'repeated' then 1 else 0 end), 0) as repeats
        from share_view where share_id = ${shareId} and claim_hash = ${claimHash}`)
      return row && row.views > 0 ? { repeats: row.repeats } : undefined
    },
  }
}
