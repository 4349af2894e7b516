/**
 * Backups that this installation has made, and the generation of its store: a new one begins with every restore of an
 * earlier state.
 */
export const backup = {
  name: 'backup',
  statements: [
    `alter table instance add column generation text`,
    `create table backup (
       id text primary key,
       target text not null,
       name text not null,
       started_at bigint not null,
       finished_at bigint,
       verified_at bigint,
       bytes bigint,
       error text
     )`,
    `create index backup_target on backup (target, verified_at)`,
  ],
} as const
