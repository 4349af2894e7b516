/** Names of a whole workspace in order, for the search. The index holds every column that the search reads. */
export const secretSearch = {
  name: 'secret-search',
  statements: [`create index secret_search on secret (workspace_id, name, id, project_id) where trashed_at is null`],
} as const
