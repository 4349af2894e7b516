/** Direct access to the store of a service. */
import { join } from 'node:path'
import type { Project } from '@coffer/contract/project'
import { openPostgres } from '../server/src/store/engine/postgres.ts'
import { anyOf, type Db, type Engine, sql } from '../server/src/store/engine/sql.ts'
import { openSqlite } from '../server/src/store/engine/sqlite.ts'
import type { Settings } from './program.ts'

export function openEngine(settings: Settings): Engine {
  const url = settings.COFFER_DATABASE_URL
  return url === undefined ? openSqlite(join(settings.COFFER_DATA_DIR ?? '', 'coffer.db')) : openPostgres(url)
}

/** Opens the store for one transaction. */
export async function tamper<Result>(settings: Settings, work: (db: Db) => Promise<Result>): Promise<Result> {
  const store = openEngine(settings)
  try {
    return await store.transaction('tamper', ({ db }) => work(db))
  } finally {
    await store.close()
  }
}

/** All parts of the schema, and the migration log. */
export async function describeSchema(engine: Engine): Promise<unknown[]> {
  const migrationLog = await engine.all(sql`select step, name from schema_step order by step`)
  if (engine.kind === 'sqlite') {
    return [
      migrationLog,
      await engine.all(sql`select type, name, tbl_name, sql from sqlite_master order by type, name`),
    ]
  }
  return [
    migrationLog,
    await engine.all(sql`
      select table_name, column_name, data_type, is_nullable, column_default, is_identity
      from information_schema.columns where table_schema = 'public' order by table_name, column_name`),
    await engine.all(sql`select indexname, indexdef from pg_indexes where schemaname = 'public' order by indexname`),
    await engine.all(sql`
      select conrelid::regclass::text as "table", conname, pg_get_constraintdef(oid) as definition
      from pg_constraint where connamespace = 'public'::regnamespace order by 1, 2`),
  ]
}

/** Invariants that no response shows: versions and revisions are gapless, and current values and counts match them. */
export async function findBrokenRows(settings: Settings, project: Project): Promise<string[]> {
  const store = openEngine(settings)
  const ids = anyOf(project.environments.map(({ id }) => id))
  try {
    const gaps = await store.all(sql`
      select environment_id, secret_id from secret_version where environment_id ${ids}
      group by environment_id, secret_id having count(*) <> max(version) or min(version) <> 1`)
    const strays = await store.all(sql`
      select v.secret_id from secret_version v
      left join secret_value c on c.environment_id = v.environment_id and c.secret_id = v.secret_id and c.owner_id = ''
      where v.environment_id ${ids} and (c.version is null or c.version < v.version
        or (c.version = v.version and ((c.sealed is null) <> (v.sealed is null) or c.sealed <> v.sealed)))`)
    const unversioned = await store.all(sql`
      select c.secret_id from secret_value c
      left join secret_version v
        on v.environment_id = c.environment_id and v.secret_id = c.secret_id and v.version = c.version
      where c.environment_id ${ids} and v.version is null`)
    const counted = await store.all<Record<string, number>>(sql`
      select e.revision, e.total_secrets as total,
        (select count(distinct revision) from (
          select environment_id, revision from secret_version
          union all select environment_id, revision from secret_rename) r where r.environment_id = e.id) as revisions,
        (select coalesce(max(revision), 0) from (
          select environment_id, revision from secret_version
          union all select environment_id, revision from secret_rename) r where r.environment_id = e.id) as newest,
        (select count(*) from secret_value c where c.environment_id = e.id and c.sealed is not null) as live
      from environment e where e.id ${ids}`)
    const miscounted = counted.filter(
      ({ revision, total, revisions, newest, live }) => revisions !== revision || newest !== revision || total !== live,
    )
    const missing = project.environments.length - counted.length
    const [secrets] = await store.all<Record<string, number>>(sql`
      select total_secrets as total,
        (select count(*) from secret s where s.project_id = p.id and s.trashed_at is null) as live
      from project p where p.id = ${project.id}`)
    const found = { gaps, strays, unversioned, miscounted }
    return [
      ...Object.entries(found).flatMap(([what, rows]) => rows.map((row) => `${what}: ${JSON.stringify(row)}`)),
      ...(missing === 0 ? [] : [`${missing} environments are gone`]),
      ...(secrets?.total === secrets?.live ? [] : [`the project counts ${JSON.stringify(secrets)}`]),
    ]
  } finally {
    await store.close()
  }
}
