/** All personal values of one person in a workspace. */
import { type Db, sql } from '../engine/sql.ts'

export function personalValueStore(db: Db) {
  return {
    async countOf(ownerId: string, workspaceId: string): Promise<number> {
      const row = await db.one<{ count: number }>(sql`
        select count(*) as count from secret_value where workspace_id = ${workspaceId} and owner_id = ${ownerId}`)
      return row?.count ?? 0
    },

    /** Returns the number of removed values. */
    async removeOf(ownerId: string, workspaceId: string): Promise<number> {
      return db.count(sql`delete from secret_value where workspace_id = ${workspaceId} and owner_id = ${ownerId}`)
    },
  }
}
