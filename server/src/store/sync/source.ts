/** The environments that each sync reads: its own, and those that references lead to. */
import { type Db, sql } from '../engine/sql.ts'

export function syncSourceStore(db: Db) {
  async function list(syncId: string): Promise<string[]> {
    const rows = await db.all<{ id: string }>(
      sql`select environment_id as id from sync_source where sync_id = ${syncId}`,
    )
    return rows.map(({ id }) => id)
  }

  return {
    list,

    async set(syncId: string, environmentIds: readonly string[]): Promise<void> {
      const known = new Set(await list(syncId))
      const wanted = new Set(environmentIds)
      for (const id of known.difference(wanted)) {
        db.write(sql`delete from sync_source where sync_id = ${syncId} and environment_id = ${id}`)
      }
      db.writeMany(
        [...wanted.difference(known)],
        (id) => sql`insert into sync_source (sync_id, environment_id) values (${syncId}, ${id})`,
      )
    },
  }
}
