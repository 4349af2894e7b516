/** What a store of the past would bring back to life after a restore, and how it is put to rest. */
import { type Db, sql } from './engine/sql.ts'
import { erased } from './share/share.ts'

export function revivedStateStore(db: Db) {
  return {
    /** Sessions, and device logins and links for a new password that could become one. Returns the number of sessions. */
    async endSessions(): Promise<number> {
      db.write(sql`delete from device_login`)
      db.write(sql`delete from password_reset`)
      return db.count(sql`delete from session`)
    },

    /** A sync would overwrite newer values at its target, or remove names that it was given since. */
    async pauseSyncs(nowMs: number): Promise<number> {
      return db.count(sql`
        update sync set state = 'paused', reason = null, due_at = null, allowed_deletes = 0, fence = fence + 1,
          lease_until = null, updated_at = ${nowMs}
        where state not in ('draft', 'paused')`)
    },

    /** How often a share was opened since is not known, so none may be opened again. */
    async revokeShares(nowMs: number): Promise<number> {
      return db.count(sql`
        update share set state = case when state = 'active' then 'revoked' else state end,
          ended_at = coalesce(ended_at, ${nowMs}), ${erased}
        where sealed is not null`)
    },

    startGeneration(generation: string): void {
      db.write(sql`update instance set generation = ${generation} where id = 1`)
    },
  }
}
