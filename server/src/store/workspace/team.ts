import { type Db, fragment, sql } from '../engine/sql.ts'

export type TeamRow = {
  readonly id: string
  readonly workspaceId: string
  readonly name: string
  readonly createdAt: number
}

const columns = fragment('id, workspace_id as "workspaceId", name, created_at as "createdAt"')

export function teamStore(db: Db) {
  return {
    async list(workspaceId: string): Promise<TeamRow[]> {
      return db.all<TeamRow>(sql`
        select ${columns} from team where workspace_id = ${workspaceId} order by id`)
    },

    async find(id: string, workspaceId: string): Promise<TeamRow | undefined> {
      return db.one<TeamRow>(sql`
        select ${columns} from team where id = ${id} and workspace_id = ${workspaceId}`)
    },

    /** False if the name is taken. */
    async insert(team: TeamRow): Promise<boolean> {
      const changed = await db.count(sql`
        insert into team (id, workspace_id, name, created_at, updated_at)
        values (${team.id}, ${team.workspaceId}, ${team.name}, ${team.createdAt}, ${team.createdAt})
        on conflict (workspace_id, name) do nothing`)
      return changed === 1
    },

    /** False if the name is taken. */
    async rename(id: string, workspaceId: string, name: string, nowMs: number): Promise<boolean> {
      const taken = await db.one(sql`
        select id from team where workspace_id = ${workspaceId} and name = ${name} and id <> ${id}`)
      if (taken) return false
      db.write(sql`
        update team set name = ${name}, updated_at = ${nowMs} where id = ${id} and workspace_id = ${workspaceId}`)
      return true
    },

    async hasProjects(id: string, workspaceId: string): Promise<boolean> {
      const row = await db.one(sql`
        select id from project where workspace_id = ${workspaceId} and team_id = ${id} limit 1`)
      return row !== undefined
    },

    remove(id: string, workspaceId: string): void {
      db.write(sql`delete from team where id = ${id} and workspace_id = ${workspaceId}`)
    },
  }
}
