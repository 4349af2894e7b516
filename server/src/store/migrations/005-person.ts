/** Data of a person: the second factor with recovery codes, device logins, known login addresses. */
export const person = {
  name: 'person',
  statements: [
    // No foreign key: the totp row already references the account, so it would be circular.
    `alter table account add column totp_id text`,
    `create table totp (
       id text primary key,
       user_id text not null unique references account (id) on delete cascade,
       sealed bytea not null,
       last_step bigint not null,
       created_at bigint not null,
       confirmed_at bigint,
       mac bytea not null,
       mac_root_id text not null references root_key (id)
     )`,
    `create index totp_mac_root on totp (mac_root_id)`,
    `create table recovery_code (
       totp_id text not null references totp (id) on delete cascade,
       hash bytea not null,
       primary key (totp_id, hash)
     )`,
    `create table device_login (
       id text primary key,
       device_hash bytea not null unique,
       user_hash bytea not null unique,
       hash_root_id text not null references root_key (id),
       client_id text not null,
       ip text not null,
       user_agent text not null,
       state text not null,
       user_id text references account (id) on delete cascade,
       last_polled_at bigint,
       created_at bigint not null,
       expires_at bigint not null,
       mac bytea not null,
       mac_root_id text not null references root_key (id)
     )`,
    `create index device_login_account on device_login (user_id)`,
    `create index device_login_expiry on device_login (expires_at)`,
    `create index device_login_hash_root on device_login (hash_root_id)`,
    `create index device_login_mac_root on device_login (mac_root_id)`,
    `create table login_address (
       hash bytea primary key,
       last_login_at bigint not null
     )`,
    `create index login_address_last on login_address (last_login_at)`,
  ],
} as const
