/**
 * Links of the operator that set a new password, at most one per person. Nodes of before remove old root keys without
 * looking here: a link then ends with the root that keys it.
 */
export const passwordReset = {
  name: 'password-reset',
  statements: [
    `create table password_reset (
       id text primary key,
       user_id text not null unique references account (id) on delete cascade,
       hash bytea not null unique,
       expires_at bigint not null,
       mac bytea not null,
       mac_root_id text not null references root_key (id) on delete cascade
     )`,
    `create index password_reset_expiry on password_reset (expires_at)`,
    `create index password_reset_root on password_reset (mac_root_id)`,
  ],
} as const
