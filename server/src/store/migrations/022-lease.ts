/** Leases of jobs that one node of several does at a time. */
export const lease = {
  name: 'lease',
  statements: [
    `create table lease (
       id text primary key,
       fence bigint not null,
       lease_until bigint
     )`,
  ],
} as const
