/** Identities vouched for by external issuers. */
export const identity = {
  name: 'identity',
  statements: [
    `create table oidc_identity (
       id text primary key,
       workspace_id text not null references workspace (id) on delete cascade,
       name text not null,
       issuer text not null,
       audience text not null,
       subject text,
       claims text not null,
       permission text not null,
       scope text not null,
       is_enabled integer not null,
       generation integer not null,
       created_at bigint not null,
       updated_at bigint not null,
       last_used_at bigint,
       mac bytea not null,
       mac_root_id text not null references root_key (id)
     )`,
    `create index oidc_identity_issuer on oidc_identity (workspace_id, issuer)`,
    `create index oidc_identity_mac_root on oidc_identity (mac_root_id)`,
  ],
} as const
