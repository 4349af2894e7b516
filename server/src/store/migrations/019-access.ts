/**
 * Several grants of one member or invite, service accounts, and the policy of a workspace. Rows of before keep their
 * single grant in `role` and `scope`, and their MAC.
 */
export const access = {
  name: 'access',
  statements: [
    `alter table member add column grants text`,
    `alter table invite add column grants text`,
    `create table service_account (
       id text primary key,
       workspace_id text not null references workspace (id) on delete cascade,
       name text not null,
       grants text not null,
       created_by text not null,
       created_at bigint not null,
       updated_at bigint not null,
       mac bytea not null,
       mac_root_id text not null references root_key (id),
       unique (workspace_id, name)
     )`,
    `create index service_account_mac_root on service_account (mac_root_id)`,
    `alter table token add column service_account_id text references service_account (id) on delete cascade`,
    `create index token_service_account on token (service_account_id) where service_account_id is not null`,
    `create index token_owner on token (workspace_id, (coalesce(service_account_id, created_by)))`,
    `alter table share add column service_account_id text references service_account (id) on delete cascade`,
    `create index share_service_account on share (service_account_id) where service_account_id is not null`,
    `create index share_owner on share (workspace_id, (coalesce(service_account_id, created_by)))`,
    `create table workspace_policy (
       workspace_id text primary key references workspace (id) on delete cascade,
       document text not null,
       updated_at bigint not null,
       mac bytea not null,
       mac_root_id text not null references root_key (id)
     )`,
    `create index workspace_policy_mac_root on workspace_policy (mac_root_id)`,
  ],
} as const
