/**
 * Purge queue (`leftover`) of deleted environments. Values are removed later in small steps, so these tables lose their
 * foreign keys: otherwise, deleting a project would wait for every version that it ever had.
 */
const secretValue = `
  create table secret_value_kept (
    environment_id text not null,
    secret_id text not null,
    owner_id text not null,
    workspace_id text not null,
    version integer not null,
    sealed bytea,
    updated_at bigint not null,
    primary key (environment_id, secret_id, owner_id)
  );
  insert into secret_value_kept (environment_id, secret_id, owner_id, workspace_id, version, sealed, updated_at)
    select environment_id, secret_id, owner_id, workspace_id, version, sealed, updated_at from secret_value;
  drop table secret_value;
  alter table secret_value_kept rename to secret_value;
  create index secret_value_secret on secret_value (secret_id);
  create index secret_value_owner on secret_value (workspace_id, owner_id)`

const secretVersion = `
  create table secret_version_kept (
    environment_id text not null,
    secret_id text not null,
    version integer not null,
    workspace_id text not null,
    revision bigint not null,
    name text not null,
    action text not null,
    sealed bytea,
    created_at bigint not null,
    created_by text not null,
    message text not null,
    primary key (environment_id, secret_id, version)
  );
  insert into secret_version_kept (environment_id, secret_id, version, workspace_id, revision, name, action, sealed,
      created_at, created_by, message)
    select environment_id, secret_id, version, workspace_id, revision, name, action, sealed, created_at, created_by,
      message from secret_version;
  drop table secret_version;
  alter table secret_version_kept rename to secret_version;
  create index secret_version_revision on secret_version (environment_id, revision);
  create index secret_version_secret on secret_version (secret_id)`

const secretRename = `
  create table secret_rename_kept (
    environment_id text not null,
    secret_id text not null,
    revision bigint not null,
    workspace_id text not null,
    old_name text not null,
    new_name text not null,
    created_at bigint not null,
    created_by text not null,
    message text not null,
    primary key (environment_id, revision, secret_id)
  );
  insert into secret_rename_kept (environment_id, secret_id, revision, workspace_id, old_name, new_name, created_at,
      created_by, message)
    select environment_id, secret_id, revision, workspace_id, old_name, new_name, created_at, created_by, message
    from secret_rename;
  drop table secret_rename;
  alter table secret_rename_kept rename to secret_rename;
  create index secret_rename_secret on secret_rename (secret_id)`

export const leftover = {
  name: 'leftover',
  statements: [
    `create table leftover (
       environment_id text primary key
     )`,
    // Each copy in one step: a node of the previous version must not write into a table that was already copied.
    secretValue,
    secretVersion,
    secretRename,
  ],
} as const
