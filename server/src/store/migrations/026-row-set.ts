/** Keyed sums over the rows that grant rights in a workspace, and the nodes that serve the store. */
export const rowSet = {
  name: 'row-set',
  statements: [
    `create table row_set (
       workspace_id text not null references workspace (id) on delete cascade,
       kind text not null,
       sealed bytea not null,
       root_id text not null references root_key (id),
       primary key (workspace_id, kind)
     )`,
    `create index row_set_root on row_set (root_id, workspace_id, kind)`,
    `create table node (
       id text primary key,
       name text not null,
       version text not null,
       level integer not null,
       seen_at bigint not null
     )`,
    `create index node_seen on node (seen_at)`,
  ],
} as const
