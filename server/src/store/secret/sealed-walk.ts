/** Walks over every sealed value and version of the store, to prove that each of them opens. */
import { type Reader, sql } from '../engine/sql.ts'
import type { ValuePlace } from './value-seal.ts'

export type SealedRecord = ValuePlace & {
  readonly version: number
  readonly sealed: Uint8Array
  readonly authors: string
}

/** Limits memory: values may be large. */
const rowsPerPage = 100

type FoundRecord = Omit<SealedRecord, 'projectId'> & { readonly projectId: string | null }

export function sealedWalkStore(db: Reader) {
  /** Values of deleted environments wait for their removal, and nobody can open them. */
  async function* walk(page: (last: FoundRecord | undefined) => Promise<FoundRecord[]>): AsyncGenerator<SealedRecord> {
    let last: FoundRecord | undefined
    do {
      const rows = await page(last)
      for (const row of rows) if (row.projectId !== null) yield { ...row, projectId: row.projectId }
      last = rows.at(-1)
    } while (last !== undefined)
  }

  return {
    async count(): Promise<number> {
      const row = await db.one<{ count: number }>(sql`
        select (select count(*) from secret_value where sealed is not null)
          + (select count(*) from secret_version where sealed is not null) as count`)
      return row?.count ?? 0
    },

    values: () =>
      walk((last) =>
        db.all(sql`
          select v.workspace_id as "workspaceId", v.environment_id as "environmentId", v.secret_id as "secretId",
            v.owner_id as "ownerId", v.version, v.sealed, v.authors,
            (select e.project_id from environment e where e.id = v.environment_id) as "projectId"
          from secret_value v
          where v.sealed is not null and (v.environment_id, v.secret_id, v.owner_id)
            > (${last?.environmentId ?? ''}, ${last?.secretId ?? ''}, ${last?.ownerId ?? ''})
          order by v.environment_id, v.secret_id, v.owner_id limit ${rowsPerPage}`),
      ),

    versions: () =>
      walk((last) =>
        db.all(sql`
          select v.workspace_id as "workspaceId", v.environment_id as "environmentId", v.secret_id as "secretId",
            '' as "ownerId", v.version, v.sealed, v.authors,
            (select e.project_id from environment e where e.id = v.environment_id) as "projectId"
          from secret_version v
          where v.sealed is not null and (v.environment_id, v.secret_id, v.version)
            > (${last?.environmentId ?? ''}, ${last?.secretId ?? ''}, ${last?.version ?? 0})
          order by v.environment_id, v.secret_id, v.version limit ${rowsPerPage}`),
      ),
  }
}
