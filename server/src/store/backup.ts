/** The record of the backups that this installation has made, and of runs that failed. */
import { type Db, sql } from './engine/sql.ts'

export type BackupRecord = {
  readonly id: string
  readonly target: string
  readonly name: string
  readonly startedAt: number
  readonly finishedAt: number | null
  readonly verifiedAt: number | null
  readonly bytes: number | null
  readonly error: string | null
}

export function backupStore(db: Db) {
  return {
    insert(record: Pick<BackupRecord, 'id' | 'target' | 'name' | 'startedAt'>): void {
      const { id, target, name, startedAt } = record
      db.write(sql`
        insert into backup (id, target, name, started_at) values (${id}, ${target}, ${name}, ${startedAt})`)
    },

    /** False if there is no such row. */
    async finish(
      id: string,
      end: Pick<BackupRecord, 'finishedAt' | 'verifiedAt' | 'bytes' | 'error'>,
    ): Promise<boolean> {
      const changed = await db.count(sql`
        update backup set finished_at = ${end.finishedAt}, verified_at = ${end.verifiedAt}, bytes = ${end.bytes},
          error = ${end.error}
        where id = ${id}`)
      return changed === 1
    },

    /** The newest backup of this target that was verified and stored, among those begun until then. */
    async newestVerified(target: string, untilMs: number): Promise<BackupRecord | undefined> {
      return db.one<BackupRecord>(sql`
        select id, target, name, started_at as "startedAt", finished_at as "finishedAt", verified_at as "verifiedAt",
          bytes, error
        from backup
        where target = ${target} and verified_at is not null and started_at <= ${untilMs}
        order by started_at desc limit 1`)
    },

    /** Names of the backups that were begun for this target, and when each was verified last. */
    async listNames(target: string): Promise<Pick<BackupRecord, 'name' | 'verifiedAt'>[]> {
      return db.all(sql`
        select name, max(verified_at) as "verifiedAt" from backup where target = ${target} group by name`)
    },

    /** Runs of this target that were begun in this time and ended without a backup, the newest first. */
    async listFailed(
      target: string,
      begun: { sinceMs: number; untilMs: number },
      limit: number,
    ): Promise<BackupRecord[]> {
      return db.all<BackupRecord>(sql`
        select id, target, name, started_at as "startedAt", finished_at as "finishedAt", verified_at as "verifiedAt",
          bytes, error
        from backup
        where target = ${target} and started_at > ${begun.sinceMs} and started_at <= ${begun.untilMs}
          and verified_at is null and finished_at is not null
        order by started_at desc limit ${limit}`)
    },

    /** Ends the rows of runs that were killed. Call with the lease, so that no run is under way. */
    endUnfinished(target: string, nowMs: number, error: string): void {
      db.write(sql`
        update backup set finished_at = ${nowMs}, error = ${error} where target = ${target} and finished_at is null`)
    },

    /** When the store was created, or filled by a restore. */
    async storeMadeAt(): Promise<number> {
      const row = await db.one<{ at: number }>(sql`select applied_at as at from schema_step where step = 1`)
      return row?.at ?? 0
    },

    removeBefore(target: string, beforeMs: number): void {
      db.write(sql`delete from backup where target = ${target} and started_at < ${beforeMs}`)
    },
  }
}
