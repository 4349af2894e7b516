/** What a write to one value must know: the secret with its value, and the environment. Jobs of one commit ask together. */
import { type Ask, anyOf, fragment, sql } from '../engine/sql.ts'
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

/** The secret with this name, and its shared value in the environment. */
export const askByName = (projectId: string, environmentId: string, name: string): Ask<StoredValue> => ({
  scope: `value by name ${environmentId}`,
  key: name,
  query: (names) => sql`
    select ${columns} from secret s
    left join secret_value v on v.environment_id = ${environmentId} and v.secret_id = s.id and v.owner_id = ''
    where s.project_id = ${projectId} and s.name ${anyOf(names)} and s.trashed_at is null and ${isNamedSo}`,
  keyOf: (row) => row.name,
})

export const askById = (projectId: string, environmentId: string, id: string): Ask<StoredValue> => ({
  scope: `value by id ${environmentId}`,
  key: id,
  query: (ids) => sql`
    select ${columns} from secret s
    left join secret_value v on v.environment_id = ${environmentId} and v.secret_id = s.id and v.owner_id = ''
    where s.project_id = ${projectId} and s.id ${anyOf(ids)} and s.trashed_at is null`,
  keyOf: (row) => row.id,
})

/** The query for `environmentIds` of a workspace, also for those that write many values. */
export const environmentsQuery = (workspaceId: string, environmentIds: readonly string[]) => sql`
  select e.id as "environmentId", e.revision, e.total_secrets as total, max(k.version) as "keyVersion"
  from environment e left join environment_key k on k.environment_id = e.id and k.workspace_id = e.workspace_id
  where e.id ${anyOf(environmentIds)} and e.workspace_id = ${workspaceId} group by e.id`

export const askEnvironment = (workspaceId: string, environmentId: string): Ask<StoredEnvironment> => ({
  scope: `environment ${workspaceId}`,
  key: environmentId,
  query: (ids) => environmentsQuery(workspaceId, ids),
  keyOf: (row) => row.environmentId,
})
