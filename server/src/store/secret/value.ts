/** The stored rows of values and their versions; value-seal.ts seals and opens the values in them. */
import { keyVersionOf } from '../../crypto/envelope.ts'
import { Failure } from '../../failure.ts'
import { anyOf, type Db, fragment, type Sql, sql } from '../engine/sql.ts'
import type { Keys } from '../key/key.ts'
import { sealedSize, sizeOf } from './row-size.ts'
import { type EnvironmentCount, environmentById, type StoredEnvironment } from './stored-value.ts'
import { forgetOldKey, type KeyMemory, type ValuePlace, valueSeals } from './value-seal.ts'

export type SealedValue = {
  readonly environmentId: string
  readonly secretId: string
  readonly ownerId: string
  readonly version: number
  /** Null after the value was removed; a later value continues the version number. */
  readonly sealed: Uint8Array | null
  /** Authors of a value that refers to other environments (domain/secret/reference/author.ts); bound into the seal. */
  readonly authors: string
  readonly updatedAt: number
}
type ValueLocation = Pick<SealedValue, 'secretId' | 'environmentId' | 'ownerId'>
export type NamedValue = SealedValue & { readonly name: string }
/** A version without its sealed value. */
export type ChangeRow = {
  readonly environmentId: string
  readonly secretId: string
  readonly version: number
  readonly revision: number
  readonly name: string
  readonly action: 'created' | 'updated' | 'deleted'
  readonly createdAt: number
  readonly createdBy: string
  readonly message: string
}
export type VersionRow = ChangeRow & { readonly sealed: Uint8Array | null; readonly authors: string }
export type RenameRow = {
  readonly environmentId: string
  readonly secretId: string
  readonly revision: number
  readonly oldName: string
  readonly newName: string
  readonly createdAt: number
  readonly createdBy: string
  readonly message: string
}
/** Position in a walk over all sealed records of an environment. */
export type ResealCursor = {
  readonly secretId: string
  readonly source: string
  readonly ownerId: string
  readonly version: number
}
type SealedRow = ResealCursor & { readonly projectId: string; readonly sealed: Uint8Array; readonly authors: string }

const locationColumns = fragment(
  `v.secret_id as "secretId", v.environment_id as "environmentId", v.owner_id as "ownerId"`,
)
const valueColumns = fragment(`
  v.environment_id as "environmentId", v.secret_id as "secretId", v.owner_id as "ownerId", v.version, v.sealed,
  v.authors, v.updated_at as "updatedAt"`)
export const versionColumns = fragment(`
  environment_id as "environmentId", secret_id as "secretId", version, revision, name, action, sealed, authors,
  created_at as "createdAt", created_by as "createdBy", message`)

export function secretValueStore(db: Db, keys: Keys) {
  const measured = (query: Sql) => sizeOf(db, query)

  return {
    ...valueSeals(db, keys),

    /**
     * Call before sealing anything in a transaction, because cached keys may be stale. A value sealed with a key that
     * was rotated away could never be opened, and a deleted environment must take no values. Returns the counts of the
     * environments.
     */
    async requireNewestKeys(
      environmentIds: readonly string[],
      workspaceId: string,
      memory: KeyMemory,
    ): Promise<ReadonlyMap<string, EnvironmentCount>> {
      const rows = await db.all<StoredEnvironment>(environmentById.query(workspaceId, environmentIds))
      if (rows.length < environmentIds.length) throw new Failure('notFound')
      for (const row of rows) forgetOldKey(row, memory)
      await this.loadNewestKeys(environmentIds, workspaceId, memory)
      return new Map(rows.map((row) => [row.environmentId, row]))
    },

    /** Size of the shared values and of this person's own. */
    async measure(environmentIds: readonly string[], ownerId: string): Promise<number> {
      return measured(sql`
        select ${sealedSize} from secret_value
        where environment_id ${anyOf(environmentIds)} and owner_id ${anyOf(ownersSeen(ownerId))} and sealed is not null`)
    },

    /** Lists where the secrets have values of these owners, without the values. */
    async listPlacesOf(
      environmentIds: readonly string[],
      secretIds: readonly string[],
      ownerIds: readonly string[],
    ): Promise<ValueLocation[]> {
      if (environmentIds.length === 0 || secretIds.length === 0) return []
      return db.all(sql`
        select ${locationColumns} from secret_value v
        where v.environment_id ${anyOf(environmentIds)} and v.secret_id ${anyOf(secretIds)}
          and v.owner_id ${anyOf(ownerIds)} and v.sealed is not null`)
    },

    /**
     * Like `listPlacesOf`, in any environment. For secrets of many projects: SQLite would look for each of them in the
     * environments of all.
     */
    async listAllPlacesOf(secretIds: readonly string[], ownerIds: readonly string[]): Promise<ValueLocation[]> {
      if (secretIds.length === 0) return []
      return db.all(sql`
        select ${locationColumns} from secret_value v
        where v.secret_id ${anyOf(secretIds)} and v.owner_id ${anyOf(ownerIds)} and v.sealed is not null`)
    },

    /** Includes removed values, because their version numbers continue. */
    async listOf(
      environmentIds: readonly string[],
      secretIds: readonly string[],
      ownerId: string,
    ): Promise<SealedValue[]> {
      if (environmentIds.length === 0 || secretIds.length === 0) return []
      return db.all<SealedValue>(sql`
        select ${valueColumns} from secret_value v
        where v.environment_id ${anyOf(environmentIds)} and v.secret_id ${anyOf(secretIds)}
          and v.owner_id ${anyOf(ownersSeen(ownerId))}`)
    },

    async measureOf(environmentIds: readonly string[], secretIds: readonly string[], ownerId: string): Promise<number> {
      return measured(sql`
        select ${sealedSize} from secret_value
        where environment_id ${anyOf(environmentIds)} and secret_id ${anyOf(secretIds)}
          and owner_id ${anyOf(ownersSeen(ownerId))} and sealed is not null`)
    },

    /** For references: any of the names in any of the environments. */
    async listByNames(
      environmentIds: readonly string[],
      names: readonly string[],
      ownerId: string,
    ): Promise<NamedValue[]> {
      return db.all<NamedValue>(sql`
        select ${valueColumns}, s.name
        from secret_value v join secret s on s.id = v.secret_id
        where v.environment_id ${anyOf(environmentIds)} and v.owner_id ${anyOf(ownersSeen(ownerId))} and v.sealed is not null
          and s.name ${anyOf(names)} and s.trashed_at is null`)
    },

    async measureByNames(
      environmentIds: readonly string[],
      names: readonly string[],
      ownerId: string,
    ): Promise<number> {
      return measured(sql`
        select ${sealedSize} from secret_value v join secret s on s.id = v.secret_id
        where v.environment_id ${anyOf(environmentIds)} and v.owner_id ${anyOf(ownersSeen(ownerId))} and v.sealed is not null
          and s.name ${anyOf(names)} and s.trashed_at is null`)
    },

    async listNamed(environmentIds: readonly string[], ownerId: string): Promise<NamedValue[]> {
      return db.all<NamedValue>(sql`
        select ${valueColumns}, s.name
        from secret_value v join secret s on s.id = v.secret_id
        where v.environment_id ${anyOf(environmentIds)} and v.owner_id ${anyOf(ownersSeen(ownerId))} and v.sealed is not null
          and s.trashed_at is null`)
    },

    putMany(rows: readonly (SealedValue & { readonly workspaceId: string })[]): void {
      db.writeMany(
        rows,
        (row) => sql`
        insert into secret_value (environment_id, secret_id, owner_id, workspace_id, version, sealed, authors, updated_at)
        values (${row.environmentId}, ${row.secretId}, ${row.ownerId}, ${row.workspaceId}, ${row.version}, ${row.sealed},
          ${row.authors}, ${row.updatedAt})
        on conflict (environment_id, secret_id, owner_id) do update set
          version = excluded.version, sealed = excluded.sealed, authors = excluded.authors,
          updated_at = excluded.updated_at`,
        (row) => `${row.environmentId} ${row.secretId} ${row.ownerId}`,
      )
    },

    insertVersions(rows: readonly (VersionRow & { readonly workspaceId: string })[]): void {
      db.writeMany(
        rows,
        (row) => sql`
        insert into secret_version (environment_id, secret_id, version, workspace_id, revision, name, action, sealed,
          authors, created_at, created_by, message)
        values (${row.environmentId}, ${row.secretId}, ${row.version}, ${row.workspaceId}, ${row.revision}, ${row.name},
          ${row.action}, ${row.sealed}, ${row.authors}, ${row.createdAt}, ${row.createdBy}, ${row.message})`,
      )
    },

    /** Several renames of a secret in one revision become one, from the first name to the last. */
    insertRenames(rows: readonly (RenameRow & { readonly workspaceId: string })[]): void {
      db.writeMany(
        rows,
        (row) => sql`
        insert into secret_rename (environment_id, secret_id, revision, workspace_id, old_name, new_name, created_at,
          created_by, message)
        values (${row.environmentId}, ${row.secretId}, ${row.revision}, ${row.workspaceId}, ${row.oldName},
          ${row.newName}, ${row.createdAt}, ${row.createdBy}, ${row.message})
        on conflict (environment_id, revision, secret_id) do update set new_name = excluded.new_name`,
      )
    },

    /** Seals a batch of values and versions under the newest key; `next` is the cursor, undefined at the end. */
    async reseal(
      environment: { workspaceId: string; environmentId: string },
      after: ResealCursor,
      newest: number,
      memory: KeyMemory,
      limit: number,
    ): Promise<{ next: ResealCursor | undefined; resealed: number }> {
      const { environmentId, workspaceId } = environment
      const rows = await db.all<SealedRow>(sql`
        select s.project_id as "projectId", r.secret_id as "secretId", r.owner_id as "ownerId", r.version, r.sealed,
          r.authors, r.source
        from (
          select secret_id, owner_id, version, sealed, authors, 'value' as source from secret_value
          where environment_id = ${environmentId} and sealed is not null
          union all
          select secret_id, '' as owner_id, version, sealed, authors, 'version' as source from secret_version
          where environment_id = ${environmentId} and sealed is not null) r
        join secret s on s.id = r.secret_id
        where (r.secret_id, r.source, r.owner_id, r.version) > (${after.secretId}, ${after.source}, ${after.ownerId},
          ${after.version})
        order by r.secret_id, r.source, r.owner_id, r.version limit ${limit}`)
      await this.loadNewestKeys([environmentId], workspaceId, memory)
      let resealed = 0
      for (const row of rows) {
        if (keyVersionOf(row.sealed) >= newest) continue
        const { projectId, secretId, ownerId, version, authors } = row
        const place = { workspaceId, projectId, environmentId, secretId, ownerId }
        const sealed = this.seal(place, version, await this.open(place, row, memory), authors, memory)
        if (row.source === 'value') {
          db.write(sql`
            update secret_value set sealed = ${sealed}
            where environment_id = ${environmentId} and secret_id = ${secretId} and owner_id = ${ownerId}
              and version = ${version}`)
        } else {
          db.write(sql`
            update secret_version set sealed = ${sealed}
            where environment_id = ${environmentId} and secret_id = ${secretId} and version = ${version}`)
        }
        resealed++
      }
      return { next: rows.length < limit ? undefined : rows.at(-1), resealed }
    },

    async findVersion(place: ValuePlace, version: number): Promise<VersionRow | undefined> {
      return db.one<VersionRow>(sql`
        select ${versionColumns} from secret_version
        where environment_id = ${place.environmentId} and secret_id = ${place.secretId} and version = ${version}`)
    },

    /** Stores what a write has counted. The lock of the workspace keeps the numbers from the read on. */
    saveCount(environmentId: string, workspaceId: string, { revision, total }: EnvironmentCount, nowMs: number): void {
      db.write(
        sql`
        update environment set revision = ${revision}, total_secrets = ${total}, updated_at = ${nowMs}
        where id = ${environmentId} and workspace_id = ${workspaceId}`,
        `count ${environmentId}`,
      )
    },

    /** Adds revisions to an environment. `counted` is the change in its number of values. */
    advanceRevision(environmentId: string, workspaceId: string, steps: number, counted: number, nowMs: number): void {
      db.write(sql`
        update environment set revision = revision + ${steps}, total_secrets = total_secrets + ${counted}, updated_at = ${nowMs}
        where id = ${environmentId} and workspace_id = ${workspaceId}`)
    },

    async currentRevision(environmentId: string, workspaceId: string): Promise<number> {
      const row = await db.one<{ revision: number }>(sql`
        select revision from environment where id = ${environmentId} and workspace_id = ${workspaceId}`)
      return row?.revision ?? 0
    },
  }
}

/** The owners whose values a person sees: the shared ones and their own. */
export const ownersSeen = (ownerId: string) => (ownerId === '' ? [''] : ['', ownerId])
