/**
 * Confirmed email addresses: the time of confirmation, the mailed link of an invite, and pending confirmation links.
 */
export const email = {
  name: 'email',
  statements: [
    `alter table account add column email_verified_at bigint`,
    `alter table invite add column mailed_hash bytea`,
    `create unique index invite_mailed_hash on invite (mailed_hash)`,
    `create table email_confirmation (
       id text primary key,
       user_id text not null unique references account (id) on delete cascade,
       email text not null,
       hash bytea not null unique,
       hash_root_id text not null references root_key (id),
       created_at bigint not null,
       expires_at bigint not null,
       mac bytea not null,
       mac_root_id text not null references root_key (id)
     )`,
    `create index email_confirmation_expiry on email_confirmation (expires_at)`,
    `create index email_confirmation_hash_root on email_confirmation (hash_root_id)`,
    `create index email_confirmation_mac_root on email_confirmation (mac_root_id)`,
  ],
} as const
