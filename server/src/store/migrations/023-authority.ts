/**
 * The second factor that a session was opened with, tokens that may administer, and who made identities, invites and syncs.
 * The factor has a table and a MAC of its own: nodes of the version before go on reading the session's row.
 */
export const authority = {
  name: 'authority',
  statements: [
    // No reference to the root key: nodes of the version before remove root keys without looking here.
    `create table session_factor (
       id text primary key references session (id) on delete cascade,
       user_id text not null,
       factor_id text not null,
       mac bytea not null,
       mac_root_id text not null
     )`,
    `create index session_factor_mac_root on session_factor (mac_root_id)`,
    `alter table token add column may_administer integer`,
    `alter table oidc_identity add column created_by text`,
    `alter table invite add column invited_by text`,
    `alter table sync add column made_by text`,
  ],
} as const
