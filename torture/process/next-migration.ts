/** The migration of a made-up later version. `test/migration-rule.test.ts` holds it to the rules of every migration. */
export function nextSteps(number: number): { name: string; statement: string }[] {
  const name = `later_${number}`
  const statements = [
    `create table ${name} (
       id text primary key,
       workspace_id text not null references workspace (id) on delete cascade,
       note text not null
     )`,
    `alter table secret_value add column ${name} text`,
    `alter table secret_version add column ${name} integer not null default 0`,
    `alter table environment add column ${name} text not null default ''`,
    `alter table token add column ${name} text references ${name} (id) on delete set null`,
    `alter table audit_batch add column ${name} text`,
    `alter table audit_head add column ${name} bigint`,
    `alter table change add column ${name} text`,
    `create unique index ${name}_token on token (${name})`,
    `create index ${name}_entry on audit_entry (chain_id, at)`,
  ]
  return statements.map((statement, index) => ({ name: `${name}-${index + 1}`, statement }))
}
