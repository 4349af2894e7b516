/** Results of sync runs: names and counts, never values. */
import type { SyncCounts, SyncRunItem, SyncRunState, SyncTrigger } from '@coffer/contract/sync'
import { type Db, fragment, sql } from '../engine/sql.ts'

export type SyncRunRecord = {
  readonly id: string
  readonly syncId: string
  readonly cause: SyncTrigger
  readonly state: SyncRunState
  readonly startedAt: number
  readonly endedAt: number | null
  readonly counts: SyncCounts
  readonly error: string | null
  readonly attempts: number
  readonly items: readonly SyncRunItem[]
}
/** Without the items, which can be as many as the secrets. */
export type SyncRunSummary = Omit<SyncRunRecord, 'items'>
type SummaryRow = Omit<SyncRunSummary, 'counts'> & { readonly counts: string }
type RunRow = SummaryRow & { readonly items: string }

const columns = fragment(`
  id, sync_id as "syncId", cause, state, started_at as "startedAt", ended_at as "endedAt", counts, error, attempts`)

export function syncRunStore(db: Db) {
  return {
    /** Replaces the record that another node made when it took this run for dead. */
    insert(run: SyncRunRecord): void {
      db.write(sql`
        insert into sync_run (id, sync_id, cause, state, started_at, ended_at, counts, error, attempts, items)
        values (${run.id}, ${run.syncId}, ${run.cause}, ${run.state}, ${run.startedAt}, ${run.endedAt},
          ${JSON.stringify(run.counts)}, ${run.error}, ${run.attempts}, ${JSON.stringify(run.items)})
        on conflict (id) do update set state = excluded.state, ended_at = excluded.ended_at, counts = excluded.counts,
          error = excluded.error, items = excluded.items`)
    },

    async find(id: string, syncId: string): Promise<SyncRunRecord | undefined> {
      const row = await db.one<RunRow>(sql`
        select ${columns}, items from sync_run where id = ${id} and sync_id = ${syncId}`)
      return row && { ...row, counts: JSON.parse(row.counts), items: JSON.parse(row.items) }
    },

    /** Newest first. */
    async list(syncId: string, before: string, limit: number): Promise<SyncRunSummary[]> {
      const rows = await db.all<SummaryRow>(sql`
        select ${columns} from sync_run where sync_id = ${syncId} and id < ${before} order by id desc limit ${limit}`)
      return rows.map((row) => ({ ...row, counts: JSON.parse(row.counts) }))
    },

    /** Keeps only the newest `keep` runs of a sync. */
    trim(syncId: string, keep: number): void {
      db.write(sql`
        delete from sync_run where sync_id = ${syncId} and id < (
          select min(id) from (select id from sync_run where sync_id = ${syncId} order by id desc limit ${keep}) newest)`)
    },
  }
}
