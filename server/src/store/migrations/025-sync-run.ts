/** The run that holds the lease of a sync: a process that dies leaves it behind, and the next one reports it. */
export const syncRun = {
  name: 'sync-run',
  statements: [
    `alter table sync add column run text`,
    `alter table sync add column run_fence bigint`,
    `create index sync_lease on sync (lease_until) where lease_until is not null`,
  ],
} as const
