/** Where the master key is kept since its last move, and what lets nodes with a former key go on until the move ends. */
export const custody = {
  name: 'custody',
  statements: [
    `alter table instance add column custody text`,
    `create table master_handover (
       id text primary key,
       custody text,
       wrapped text,
       sealed bytea not null,
       created_at bigint not null
     )`,
  ],
} as const
