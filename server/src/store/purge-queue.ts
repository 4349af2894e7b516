/** Purge queue: values and versions of deleted environments. Their keys are gone, so nobody can decrypt them. */
import { type Db, skipLocked, sql } from './engine/sql.ts'

export function purgeQueueStore(db: Db) {
  return {
    /** Removes at most `limit` rows of one deleted environment; false once the queue is empty. */
    async removeSome(limit: number): Promise<boolean> {
      const next = await db.one<{ id: string }>(sql`
        select environment_id as id from leftover where environment_id > '' order by environment_id limit 1 ${skipLocked}`)
      if (!next) return false
      const versions = await db.count(sql`
        delete from secret_version where environment_id = ${next.id} and (secret_id, version) in (
          select secret_id, version from secret_version where environment_id = ${next.id} limit ${limit})`)
      if (versions === limit) return true
      const values = await db.count(sql`
        delete from secret_value where environment_id = ${next.id} and (secret_id, owner_id) in (
          select secret_id, owner_id from secret_value where environment_id = ${next.id} limit ${limit - versions})`)
      if (versions + values === limit) return true
      const rest = limit - versions - values
      const renames = await db.count(sql`
        delete from secret_rename where environment_id = ${next.id} and (revision, secret_id) in (
          select revision, secret_id from secret_rename where environment_id = ${next.id} limit ${rest})`)
      if (renames < rest) db.write(sql`delete from leftover where environment_id = ${next.id}`)
      return true
    },
  }
}
