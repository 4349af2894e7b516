import { type Db, sql } from '../engine/sql.ts'
import { insertWorkspaceKey, type Keys } from '../key/key.ts'
import { rowSetStore } from '../row-set.ts'

export type WorkspaceRow = {
  readonly id: string
  readonly name: string
  readonly slug: string
  readonly createdAt: number
}

export function workspaceStore(db: Db, keys: Keys) {
  return {
    async find(id: string): Promise<WorkspaceRow | undefined> {
      return db.one<WorkspaceRow>(sql`select id, name, slug, created_at as "createdAt" from workspace where id = ${id}`)
    },

    /** The next one in the order of ids, for a walk over all. */
    async findAfter(id: string): Promise<WorkspaceRow | undefined> {
      return db.one<WorkspaceRow>(sql`
        select id, name, slug, created_at as "createdAt" from workspace where id > ${id} order by id limit 1`)
    },

    /** By slug or id, among this person's workspaces. */
    async findIdForUser(userId: string, slugOrId: string): Promise<string | undefined> {
      const row = await db.one<{ id: string }>(sql`
        select w.id from workspace w join member m on m.workspace_id = w.id
        where m.user_id = ${userId} and (w.slug = ${slugOrId} or w.id = ${slugOrId})
        order by case when w.slug = ${slugOrId} then 0 else 1 end limit 1`)
      return row?.id
    },

    async listIdsForUser(userId: string): Promise<string[]> {
      const rows = await db.all<{ id: string }>(sql`
        select workspace_id as id from member where user_id = ${userId} order by workspace_id`)
      return rows.map(({ id }) => id)
    },

    /** By slug or id, for operators and for callers that authenticate only afterwards. */
    async findIdForAnybody(slugOrId: string): Promise<string | undefined> {
      const row = await db.one<{ id: string }>(sql`
        select id from workspace where slug = ${slugOrId} or id = ${slugOrId} order by id limit 1`)
      return row?.id
    },

    /** Also creates the first key, and the sets of rows that grant rights. False if the slug is taken. */
    async insert(workspace: WorkspaceRow): Promise<boolean> {
      const changed = await db.count(sql`
        insert into workspace (id, name, slug, created_at, updated_at)
        values (${workspace.id}, ${workspace.name}, ${workspace.slug}, ${workspace.createdAt}, ${workspace.createdAt})
        on conflict (slug) do nothing`)
      if (changed !== 1) return false
      insertWorkspaceKey(db, keys, workspace.id, 1, workspace.createdAt)
      await rowSetStore(db, keys).insert(workspace.id)
      return true
    },

    /** False if the slug is taken. */
    async update(id: string, change: { name: string; slug: string }, nowMs: number): Promise<boolean> {
      const taken = await db.one(sql`select id from workspace where slug = ${change.slug} and id <> ${id}`)
      if (taken) return false
      db.write(sql`
        update workspace set name = ${change.name}, slug = ${change.slug}, updated_at = ${nowMs} where id = ${id}`)
      return true
    },

    /**
     * Deletes the workspace with everything it owns, including its keys. Without them, this database can decrypt
     * neither values that still wait in the purge queue nor values copied back from a backup.
     */
    remove(id: string): void {
      db.write(sql`
        insert into leftover (environment_id)
        select id from environment where workspace_id = ${id}`)
      // Projects reference their teams, so they are deleted first.
      db.write(sql`delete from project where workspace_id = ${id}`)
      db.write(sql`delete from workspace where id = ${id}`)
    },
  }
}
