import { type Db, fragment, sql } from '../engine/sql.ts'

export type ProjectRow = {
  readonly id: string
  readonly workspaceId: string
  readonly teamId: string
  readonly name: string
  readonly slug: string
  readonly createdAt: number
  readonly updatedAt: number
}

const columns = fragment(`
  id, workspace_id as "workspaceId", team_id as "teamId", name, slug, created_at as "createdAt",
  updated_at as "updatedAt"`)

export function projectStore(db: Db) {
  return {
    async list(workspaceId: string): Promise<ProjectRow[]> {
      return db.all<ProjectRow>(sql`
        select ${columns} from project where workspace_id = ${workspaceId} order by id`)
    },

    async find(id: string, workspaceId: string): Promise<ProjectRow | undefined> {
      return db.one<ProjectRow>(sql`
        select ${columns} from project where id = ${id} and workspace_id = ${workspaceId}`)
    },

    /** False if the slug is taken. */
    async insert(project: ProjectRow): Promise<boolean> {
      const changed = await db.count(sql`
        insert into project (id, workspace_id, team_id, name, slug, created_at, updated_at)
        values (${project.id}, ${project.workspaceId}, ${project.teamId}, ${project.name}, ${project.slug},
          ${project.createdAt}, ${project.updatedAt})
        on conflict (workspace_id, slug) do nothing`)
      return changed === 1
    },

    /** False if the slug is taken. */
    async update(project: ProjectRow): Promise<boolean> {
      const taken = await db.one(sql`
        select id from project
        where workspace_id = ${project.workspaceId} and slug = ${project.slug} and id <> ${project.id}`)
      if (taken) return false
      db.write(sql`
        update project set name = ${project.name}, slug = ${project.slug}, team_id = ${project.teamId},
          updated_at = ${project.updatedAt}
        where id = ${project.id} and workspace_id = ${project.workspaceId}`)
      return true
    },

    /** Deletes the keys of its environments too; the purge queue removes their values later. */
    remove(id: string, workspaceId: string): void {
      db.write(sql`
        insert into leftover (environment_id)
        select id from environment where project_id = ${id} and workspace_id = ${workspaceId}`)
      db.write(sql`delete from project where id = ${id} and workspace_id = ${workspaceId}`)
    },
  }
}
