/** What a write to one value must know: the secret with its value, and the environment. Jobs of one commit ask together. */
import { anyOf, fragment, type Question, sql } from '../engine/sql.ts'
import type { SecretRecord } from './secret.ts'

/** How often an environment has changed, and how many values it has. */
export type EnvironmentCount = { readonly revision: number; readonly total: number }
export type StoredEnvironment = EnvironmentCount & {
  readonly environmentId: string
  /** Version of its newest key. */
  readonly keyVersion: number | null
}

/** The columns of the value are null if there never was one; `sealed` also after it was removed. */
export type StoredValue = SecretRecord & {
  readonly version: number | null
  readonly sealed: Uint8Array | null
  readonly authors: string | null
}

const columns = fragment(`
  s.id, s.workspace_id as "workspaceId", s.project_id as "projectId", s.name, s.type, s.data_type as "dataType", s.note,
  s.created_at as "createdAt", s.updated_at as "updatedAt", s.trashed_at as "trashedAt", v.version, v.sealed, v.authors`)

/** As in secret.ts: the row itself confirms what the index of names says. */
const isNamedSo = fragment('exists (select 1 from secret row where row.id = s.id and row.name = s.name)')

/** By name: a secret of the environment's project, and its shared value there. Asked within an environment. */
export const valueByName: Question<StoredValue> = {
  query: (environmentId, names) => sql`
    select ${columns} from environment e join secret s on s.project_id = e.project_id
    left join secret_value v on v.environment_id = e.id and v.secret_id = s.id and v.owner_id = ''
    where e.id = ${environmentId} and s.name ${anyOf(names)} and s.trashed_at is null and ${isNamedSo}`,
  keyOf: ({ name }) => name,
}

export const valueById: Question<StoredValue> = {
  query: (environmentId, ids) => sql`
    select ${columns} from environment e join secret s on s.project_id = e.project_id
    left join secret_value v on v.environment_id = e.id and v.secret_id = s.id and v.owner_id = ''
    where e.id = ${environmentId} and s.id ${anyOf(ids)} and s.trashed_at is null`,
  keyOf: ({ id }) => id,
}

/** Asked within a workspace. */
export const environmentById: Question<StoredEnvironment> = {
  query: (workspaceId, ids) => sql`
    select e.id as "environmentId", e.revision, e.total_secrets as total, max(k.version) as "keyVersion"
    from environment e left join environment_key k on k.environment_id = e.id and k.workspace_id = e.workspace_id
    where e.id ${anyOf(ids)} and e.workspace_id = ${workspaceId} group by e.id`,
  keyOf: ({ environmentId }) => environmentId,
}
