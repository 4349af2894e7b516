/** Signed marks of how far each audit chain was archived and removed. */
export const auditMark = {
  name: 'audit-mark',
  statements: [
    `create table audit_mark (
       chain_id text not null,
       kind text not null,
       sequence bigint not null,
       hash text not null,
       at bigint not null,
       signature bytea not null,
       key_id text not null,
       primary key (chain_id, kind)
     )`,
  ],
} as const
