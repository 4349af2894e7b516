/**
 * Invites to workspaces, found by the keyed hash of their token; the hash is null once the invite is declined or
 * expired.
 */
export const invite = {
  name: 'invite',
  statements: [
    `create table invite (
       id text primary key,
       workspace_id text not null references workspace (id) on delete cascade,
       email text not null,
       role text not null,
       scope text not null,
       hash bytea unique,
       hash_root_id text references root_key (id),
       created_at bigint not null,
       expires_at bigint not null,
       declined_at bigint,
       mail text not null,
       mail_at bigint not null,
       mac bytea not null,
       mac_root_id text not null references root_key (id),
       unique (workspace_id, email)
     )`,
    `create index invite_hash_root on invite (hash_root_id)`,
    `create index invite_mac_root on invite (mac_root_id)`,
  ],
} as const
