import { anyOf, type Db, fragment, sql } from '../engine/sql.ts'
import { insertEnvironmentKey, type Keys } from '../key/key.ts'

export type EnvironmentRow = {
  readonly id: string
  readonly workspaceId: string
  readonly projectId: string
  readonly name: string
  readonly hasPersonalOverrides: boolean
  readonly createdAt: number
  readonly updatedAt: number
}
type StoredRow = Omit<EnvironmentRow, 'hasPersonalOverrides'> & { readonly hasPersonalOverrides: number }

const columns = fragment(`
  id, workspace_id as "workspaceId", project_id as "projectId", name,
  has_personal_overrides as "hasPersonalOverrides", created_at as "createdAt", updated_at as "updatedAt"`)

const toEnvironment = (row: StoredRow): EnvironmentRow => ({
  ...row,
  hasPersonalOverrides: row.hasPersonalOverrides === 1,
})

/** Names are ASCII and unique regardless of case. */
const fold = (name: string) => name.toLowerCase()

export function environmentStore(db: Db, keys: Keys) {
  return {
    async list(workspaceId: string): Promise<EnvironmentRow[]> {
      const rows = await db.all<StoredRow>(sql`
        select ${columns} from environment where workspace_id = ${workspaceId} order by id`)
      return rows.map(toEnvironment)
    },

    async listOf(projectId: string, workspaceId: string): Promise<EnvironmentRow[]> {
      const rows = await db.all<StoredRow>(sql`
        select ${columns} from environment
        where project_id = ${projectId} and workspace_id = ${workspaceId} order by id`)
      return rows.map(toEnvironment)
    },

    async find(id: string, workspaceId: string): Promise<EnvironmentRow | undefined> {
      const row = await db.one<StoredRow>(sql`
        select ${columns} from environment where id = ${id} and workspace_id = ${workspaceId}`)
      return row && toEnvironment(row)
    },

    /** Counts how many of these ids exist. */
    async count(ids: readonly string[], workspaceId: string): Promise<number> {
      const row = await db.one<{ count: number }>(sql`
        select count(*) as count from environment where id ${anyOf(ids)} and workspace_id = ${workspaceId}`)
      return row?.count ?? 0
    },

    /** Also creates the first key. False if the name is taken. */
    async insert(environment: EnvironmentRow): Promise<boolean> {
      const { id, workspaceId, projectId, name, hasPersonalOverrides, createdAt } = environment
      const changed = await db.count(sql`
        insert into environment (id, workspace_id, project_id, name, folded_name, has_personal_overrides, created_at,
          updated_at)
        values (${id}, ${workspaceId}, ${projectId}, ${name}, ${fold(name)}, ${hasPersonalOverrides ? 1 : 0},
          ${createdAt}, ${createdAt})
        on conflict (project_id, folded_name) do nothing`)
      if (changed === 1) await insertEnvironmentKey(db, keys, { workspaceId, environmentId: id }, 1, createdAt)
      return changed === 1
    },

    /** False if the name is taken. */
    async update(environment: EnvironmentRow): Promise<boolean> {
      const { id, workspaceId, projectId, name, hasPersonalOverrides, updatedAt } = environment
      const taken = await db.one(sql`
        select id from environment
        where project_id = ${projectId} and folded_name = ${fold(name)} and id <> ${id} and workspace_id = ${workspaceId}`)
      if (taken) return false
      db.write(sql`
        update environment set name = ${name}, folded_name = ${fold(name)},
          has_personal_overrides = ${hasPersonalOverrides ? 1 : 0}, updated_at = ${updatedAt}
        where id = ${id} and workspace_id = ${workspaceId}`)
      return true
    },

    /**
     * Deletes the keys with the row. The values can no longer be decrypted; the purge queue removes them later in small
     * steps.
     */
    remove(id: string, workspaceId: string): void {
      db.write(sql`
        insert into leftover (environment_id)
        select id from environment where id = ${id} and workspace_id = ${workspaceId}`)
      db.write(sql`delete from environment where id = ${id} and workspace_id = ${workspaceId}`)
    },
  }
}
