/** Long lists of names in audit entries are stored once per chain, under their SHA-256 digest. */
export const auditList = {
  name: 'audit-list',
  statements: [
    `create table audit_key_list (
       chain_id text not null,
       digest text not null,
       keys text not null,
       last_sequence bigint not null,
       primary key (chain_id, digest)
     )`,
    `alter table audit_head add column cut_sequence bigint not null default 0`,
  ],
} as const
