/** The nodes that serve the store, with their version and the last sign of life. */
import { type Db, sql } from './engine/sql.ts'

export type NodeRow = {
  readonly id: string
  /** Name of its machine. */
  readonly name: string
  readonly version: string
  /** How many upgrade switches its version knows. */
  readonly level: number
  readonly seenAt: number
}

export function nodeStore(db: Db) {
  return {
    async listSeenAfter(afterMs: number): Promise<NodeRow[]> {
      return db.all<NodeRow>(sql`
        select id, name, version, level, seen_at as "seenAt" from node where seen_at > ${afterMs} order by name, id`)
    },

    save({ id, name, version, level, seenAt }: NodeRow): void {
      db.write(sql`
        insert into node (id, name, version, level, seen_at)
        values (${id}, ${name}, ${version}, ${level}, ${seenAt})
        on conflict (id) do update set seen_at = excluded.seen_at`)
    },

    remove(id: string): void {
      db.write(sql`delete from node where id = ${id}`)
    },

    removeSeenBefore(beforeMs: number): void {
      db.write(sql`delete from node where seen_at < ${beforeMs}`)
    },
  }
}
