import { queryClient } from './query-client.ts'
import { workspacesQuery } from './workspace.ts'

/**
 * After a change of secrets: everything that is known about the project is read again. Wait for it before a dialog
 * closes: a person who goes on at once must meet what they have just saved.
 */
export const refreshProject = (ws: string, prj: string) =>
  queryClient.invalidateQueries({ predicate: ({ queryKey: [, one, two] }) => one === ws && two === prj })

/** After a refusal: a role or scope may have changed, and the page must not offer again what is refused. */
export const refreshRights = () => queryClient.invalidateQueries({ queryKey: workspacesQuery.queryKey })
