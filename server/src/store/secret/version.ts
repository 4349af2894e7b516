/** History of values: their versions, and the revisions of environments that contain them. */

import { fragment, type Reader, sql } from '../engine/sql.ts'
import { sealedSize, sizeOf } from './row-size.ts'
import { type ChangeRow, type RenameRow, type VersionRow, versionColumns } from './value.ts'
import type { ValuePlace } from './value-seal.ts'

const changeColumns = fragment(`
  environment_id as "environmentId", secret_id as "secretId", version, revision, name, action,
  created_at as "createdAt", created_by as "createdBy", message`)
const renameColumns = fragment(`
  environment_id as "environmentId", secret_id as "secretId", revision, old_name as "oldName", new_name as "newName",
  created_at as "createdAt", created_by as "createdBy", message`)

/**
 * A lookup by key for each row. A join with the list of all newest versions becomes quadratic if PostgreSQL misjudges
 * its size. The `+` before `revision` stops SQLite from choosing an index with the same problem.
 */
const newest = fragment(`
  select max(n.version) from secret_version n where n.environment_id = v.environment_id and n.secret_id = v.secret_id`)

/** The column has 32 bits, and PostgreSQL rejects larger numbers. */
const maxVersion = 2 ** 31 - 1

export function secretVersionStore(db: Reader) {
  return {
    /** Without values, which a list of versions does not show. */
    async list(place: ValuePlace, before: number, limit: number): Promise<ChangeRow[]> {
      return db.all<ChangeRow>(sql`
        select ${changeColumns} from secret_version
        where environment_id = ${place.environmentId} and secret_id = ${place.secretId} and version < ${Math.min(before, maxVersion)}
        order by version desc limit ${limit}`)
    },

    /** Revisions from one to before another, newest first, with the number of changes in each. */
    async countRevisions(
      environmentId: string,
      from: number,
      before: number,
    ): Promise<{ revision: number; changes: number }[]> {
      return db.all(sql`
        select revision, count(*) as changes from (
          select revision from secret_version
          where environment_id = ${environmentId} and revision >= ${from} and revision < ${before}
          union all
          select revision from secret_rename
          where environment_id = ${environmentId} and revision >= ${from} and revision < ${before}) r
        group by revision order by revision desc`)
    },

    async listBetween(environmentId: string, from: number, to: number): Promise<ChangeRow[]> {
      return db.all<ChangeRow>(sql`
        select ${changeColumns} from secret_version
        where environment_id = ${environmentId} and revision >= ${from} and revision <= ${to} order by revision`)
    },

    async listRenamesBetween(environmentId: string, from: number, to: number): Promise<RenameRow[]> {
      return db.all<RenameRow>(sql`
        select ${renameColumns} from secret_rename
        where environment_id = ${environmentId} and revision >= ${from} and revision <= ${to} order by revision`)
    },

    /** The newest version of each secret at a revision, without removed ones. */
    async listAt(environmentId: string, revision: number): Promise<VersionRow[]> {
      return db.all<VersionRow>(sql`
        select ${versionColumns} from secret_version v
        where environment_id = ${environmentId} and revision <= ${revision} and sealed is not null
          and version = (${newest} and +n.revision <= ${revision})`)
    },

    async measureAt(environmentId: string, revision: number): Promise<number> {
      const query = sql`
        select ${sealedSize} from secret_version v
        where environment_id = ${environmentId} and revision <= ${revision} and sealed is not null
          and version = (${newest} and +n.revision <= ${revision})`
      return sizeOf(db, query)
    },

    /** The newest revision at a point in time. */
    async revisionAt(environmentId: string, atMs: number): Promise<number> {
      const row = await db.one<{ revision: number }>(sql`
        select coalesce(max(revision), 0) as revision from (
          select max(revision) as revision from secret_version
          where environment_id = ${environmentId} and created_at <= ${atMs}
          union all
          select max(revision) from secret_rename where environment_id = ${environmentId} and created_at <= ${atMs}) r`)
      return row?.revision ?? 0
    },
  }
}
