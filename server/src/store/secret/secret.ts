/** Secrets by name. Names and notes are stored in plaintext; values are always sealed (value.ts). */
import type { DataType } from '@coffer/contract/secret'
import { Failure } from '../../failure.ts'
import { anyOf, type Db, forUpdate, fragment, skipLocked, sql } from '../engine/sql.ts'
import { hasPast, keepPast, type PastField } from './past.ts'

export type SecretRecord = {
  readonly id: string
  readonly workspaceId: string
  readonly projectId: string
  readonly name: string
  readonly type: string
  readonly dataType: DataType
  readonly note: string
  readonly createdAt: number
  readonly updatedAt: number
  readonly trashedAt: number | null
}

export type NamedSecret = Pick<SecretRecord, 'id' | 'projectId' | 'name'>
/** A position in the order of names. */
export type NamePosition = Pick<SecretRecord, 'name' | 'id'>

const columns = fragment(`
  id, workspace_id as "workspaceId", project_id as "projectId", name, type, data_type as "dataType", note,
  created_at as "createdAt", updated_at as "updatedAt", trashed_at as "trashedAt"`)

/**
 * SQLite has no checksums: a flipped bit in the index of names can lead to the row of another secret. Looking up the
 * row by id, through another index, confirms its name.
 */
const isNamedSo = fragment('exists (select 1 from secret row where row.id = secret.id and row.name = secret.name)')

/** Engines sort text differently, so names are sorted here by code unit. */
const byName = (a: { name: string }, b: { name: string }) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0)

export function secretStore(db: Db) {
  /** Finds versions through the project's environments. The purge queue handles those of deleted environments. */
  async function removeVersions(projectIds: readonly string[], secretIds: readonly string[], limit: number) {
    return db.count(sql`
      delete from secret_version where (environment_id, secret_id, version) in (
        select v.environment_id, v.secret_id, v.version
        from environment e join secret_version v on v.environment_id = e.id
        where e.project_id ${anyOf(projectIds)} and v.secret_id ${anyOf(secretIds)} limit ${limit})`)
  }

  function removeValues(secretIds: readonly string[]): void {
    db.write(sql`delete from secret_value where secret_id ${anyOf(secretIds)}`)
    db.write(sql`delete from secret_rename where secret_id ${anyOf(secretIds)}`)
  }

  return {
    async list(projectId: string, workspaceId: string): Promise<SecretRecord[]> {
      const rows = await db.all<SecretRecord>(sql`
        select ${columns} from secret
        where workspace_id = ${workspaceId} and project_id = ${projectId} and trashed_at is null`)
      return rows.sort(byName)
    },

    async listTrash(projectId: string, workspaceId: string): Promise<SecretRecord[]> {
      const rows = await db.all<SecretRecord>(sql`
        select ${columns} from secret
        where workspace_id = ${workspaceId} and project_id = ${projectId} and trashed_at is not null`)
      return rows.sort((a, b) => (b.trashedAt ?? 0) - (a.trashedAt ?? 0))
    },

    async findByName(projectId: string, name: string): Promise<SecretRecord | undefined> {
      return db.one<SecretRecord>(sql`
        select ${columns} from secret
        where project_id = ${projectId} and name = ${name} and trashed_at is null and ${isNamedSo}`)
    },

    /** Includes secrets in the trash. */
    async findById(projectId: string, id: string): Promise<SecretRecord | undefined> {
      return db.one<SecretRecord>(sql`select ${columns} from secret where id = ${id} and project_id = ${projectId}`)
    },

    /**
     * Every name the secret ever had, even if it is in the trash. A rename of a secret without values is known only
     * from its versions.
     */
    async findNames(id: string, workspaceId: string): Promise<{ projectId: string; names: string[] } | undefined> {
      const rows = await db.all<{ projectId: string; name: string }>(sql`
        select project_id as "projectId", name from secret where id = ${id} and workspace_id = ${workspaceId}
        union
        select s.project_id, r.old_name from secret s join secret_rename r on r.secret_id = s.id
        where s.id = ${id} and s.workspace_id = ${workspaceId}
        union
        select s.project_id, v.name from secret s join environment e on e.project_id = s.project_id
          join secret_version v on v.environment_id = e.id and v.secret_id = s.id
        where s.id = ${id} and s.workspace_id = ${workspaceId}`)
      const [first] = rows
      return first && { projectId: first.projectId, names: rows.map(({ name }) => name) }
    },

    /** Names of the secrets of these projects, sorted. */
    async listNames(projectIds: readonly string[], workspaceId: string): Promise<ReadonlyMap<string, string[]>> {
      const rows = await db.all<{ projectId: string; name: string }>(sql`
        select project_id as "projectId", name from secret
        where workspace_id = ${workspaceId} and project_id ${anyOf(projectIds)} and trashed_at is null`)
      const names = new Map<string, string[]>(projectIds.map((id) => [id, []]))
      for (const { projectId, name } of rows.sort(byName)) names.get(projectId)?.push(name)
      return names
    },

    /**
     * Up to `limit` names of the workspace, after this one, read from the index alone. Ordered by name as the engine
     * sorts text, then by id.
     */
    async listNamesAfter(workspaceId: string, after: NamePosition, limit: number): Promise<NamedSecret[]> {
      return db.all<NamedSecret>(sql`
        select id, project_id as "projectId", name from secret
        where workspace_id = ${workspaceId} and trashed_at is null and (name, id) > (${after.name}, ${after.id})
        order by name, id limit ${limit}`)
    },

    /** Names that secrets of the project have, or had before a rename; those in the trash included. */
    async listPastNames(projectId: string, workspaceId: string): Promise<string[]> {
      const rows = await db.all<{ name: string }>(sql`
        select name from secret where workspace_id = ${workspaceId} and project_id = ${projectId}
        union
        select r.old_name from environment e join secret_rename r on r.environment_id = e.id
        where e.workspace_id = ${workspaceId} and e.project_id = ${projectId}`)
      return rows.map(({ name }) => name)
    },

    /** Reads the whole history. Only a secret that was renamed without a value has a name that is nowhere else. */
    async listVersionNames(projectId: string, workspaceId: string): Promise<string[]> {
      const rows = await db.all<{ name: string }>(sql`
        select distinct v.name from environment e join secret_version v on v.environment_id = e.id
        where e.workspace_id = ${workspaceId} and e.project_id = ${projectId}`)
      return rows.map(({ name }) => name)
    },

    /**
     * Whether the secret had this name, note or type before. Notes and types from before this was recorded are unknown.
     */
    async hasHad({ id, workspaceId }: SecretRecord, field: PastField, text: string): Promise<boolean> {
      if (await hasPast(db, id, field, text)) return true
      return field === 'name' && ((await this.findNames(id, workspaceId))?.names.includes(text) ?? false)
    },

    async listByNames(projectId: string, names: readonly string[]): Promise<SecretRecord[]> {
      if (names.length === 0) return []
      return db.all<SecretRecord>(sql`
        select ${columns} from secret
        where project_id = ${projectId} and name ${anyOf(names)} and trashed_at is null and ${isNamedSo}`)
    },

    async listByIds(projectId: string, ids: readonly string[]): Promise<SecretRecord[]> {
      return db.all<SecretRecord>(sql`
        select ${columns} from secret
        where project_id = ${projectId} and id ${anyOf(ids)} and trashed_at is null`)
    },

    /** Includes secrets in the trash. */
    async listWithTrash(projectId: string, ids: readonly string[]): Promise<SecretRecord[]> {
      return db.all<SecretRecord>(sql`
        select ${columns} from secret where project_id = ${projectId} and id ${anyOf(ids)}`)
    },

    insertMany(secrets: readonly SecretRecord[]): void {
      db.writeMany(
        secrets,
        (row) => sql`
        insert into secret (id, workspace_id, project_id, name, type, data_type, note, created_at, updated_at)
        values (${row.id}, ${row.workspaceId}, ${row.projectId}, ${row.name}, ${row.type}, ${row.dataType}, ${row.note},
          ${row.createdAt}, ${row.updatedAt})`,
      )
    },

    async update(row: SecretRecord): Promise<void> {
      await keepPast(db, await this.listWithTrash(row.projectId, [row.id]), new Map([[row.id, row]]))
      const updated = await db.count(sql`
        update secret set name = ${row.name}, type = ${row.type}, data_type = ${row.dataType}, note = ${row.note},
          updated_at = ${row.updatedAt}, trashed_at = ${row.trashedAt}
        where id = ${row.id} and project_id = ${row.projectId} and workspace_id = ${row.workspaceId}`)
      // The secret was purged from the trash during the request.
      if (updated === 0) throw new Failure('notFound')
    },

    /** Like `update`, for many secrets in as few statements as the engine allows. */
    async updateMany(secrets: readonly SecretRecord[]): Promise<void> {
      if (secrets.length === 0) return
      const ids = secrets.map(({ id }) => id)
      // Locked, so that the upsert below cannot re-create a secret deleted meanwhile.
      const held = await db.all<SecretRecord>(sql`select ${columns} from secret where id ${anyOf(ids)} ${forUpdate}`)
      if (held.length < new Set(ids).size) throw new Failure('notFound')
      await keepPast(db, held, new Map(secrets.map((secret) => [secret.id, secret])))
      db.writeMany(
        secrets,
        (row) => sql`
        insert into secret (id, workspace_id, project_id, name, type, data_type, note, created_at, updated_at, trashed_at)
        values (${row.id}, ${row.workspaceId}, ${row.projectId}, ${row.name}, ${row.type}, ${row.dataType}, ${row.note},
          ${row.createdAt}, ${row.updatedAt}, ${row.trashedAt})
        on conflict (id) do update set
          name = excluded.name, type = excluded.type, data_type = excluded.data_type, note = excluded.note,
          updated_at = excluded.updated_at, trashed_at = excluded.trashed_at`,
      )
    },

    /** Removes the secret and every version of its values. */
    async remove(id: string, projectId: string): Promise<void> {
      if ((await db.count(sql`delete from secret where id = ${id} and project_id = ${projectId}`)) === 0) return
      await removeVersions([projectId], [id], Number.MAX_SAFE_INTEGER)
      await removeValues([id])
    },

    /**
     * Removes at most `limit` secrets and about as many of their versions; false once none is left. Skips a secret that
     * someone is restoring at the moment.
     */
    async removeTrashedBefore(beforeMs: number, limit: number): Promise<boolean> {
      const rows = await db.all<{ id: string; projectId: string }>(sql`
        select id, project_id as "projectId" from secret
        where trashed_at is not null and trashed_at < ${beforeMs} order by trashed_at limit ${limit}
        ${skipLocked}`)
      const due = rows.map(({ id }) => id)
      if (due.length === 0) return false
      const projectIds = [...new Set(rows.map(({ projectId }) => projectId))]
      if ((await removeVersions(projectIds, due, limit)) === limit) return true
      await removeValues(due)
      db.write(sql`delete from secret where id ${anyOf(due)}`)
      return true
    },

    countAll(projectId: string, workspaceId: string, difference: number): void {
      db.write(sql`
        update project set total_secrets = total_secrets + ${difference}
        where id = ${projectId} and workspace_id = ${workspaceId}`)
    },

    /** Number of secrets per project and of shared values per environment, and when each last changed. */
    async listCounts(workspaceId: string): Promise<{ id: string; count: number; updatedAt: number }[]> {
      return db.all<{ id: string; count: number; updatedAt: number }>(sql`
        select id, total_secrets as count, updated_at as "updatedAt" from project where workspace_id = ${workspaceId}
        union all
        select id, total_secrets as count, updated_at as "updatedAt" from environment
        where workspace_id = ${workspaceId}`)
    },

    /** Per project, the number of secrets with a shared value in at least one of these environments. */
    async countIn(
      environmentIds: readonly string[],
      workspaceId: string,
    ): Promise<{ projectId: string; count: number }[]> {
      return db.all(sql`
        select s.project_id as "projectId", count(distinct v.secret_id) as count
        from secret_value v join secret s on s.id = v.secret_id
        where v.environment_id ${anyOf(environmentIds)} and v.workspace_id = ${workspaceId} and v.owner_id = ''
          and v.sealed is not null and s.trashed_at is null
        group by s.project_id`)
    },
  }
}
