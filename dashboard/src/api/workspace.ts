/** Workspaces, their projects by team, and one project with its environments. */
import type { Workspace } from '@coffer/sdk'
import { queryOptions } from '@tanstack/react-query'
import { api } from './client.ts'

export const workspacesQuery = queryOptions({
  queryKey: ['workspaces'],
  queryFn: () => api.workspace.list(),
  staleTime: 60_000,
})

/** Pages of the service itself. A workspace of such a slug is reached by its id. */
const ownPages = new Set([
  ...['assets', 'device', 'docs', 'healthz', 'invite', 'login', 'logo'],
  ...['me', 'metrics', 'readyz', 'reset', 'setup', 'share', 'v1'],
])

export const workspaceAddress = ({ id, slug }: Workspace) => (ownPages.has(slug) ? id : slug)

export const teamsQuery = (ws: string) =>
  queryOptions({ queryKey: ['teams', ws], queryFn: () => api.team.list({ ws }), staleTime: 60_000 })

export const projectsQuery = (ws: string) =>
  queryOptions({ queryKey: ['projects', ws], queryFn: () => api.project.list({ ws }), staleTime: 60_000 })

export const projectQuery = (ws: string, prj: string) =>
  queryOptions({
    queryKey: ['project', ws, prj],
    queryFn: () => api.project.read({ ws, prj }),
    staleTime: 60_000,
  })

export const environmentsQuery = (ws: string, prj: string) =>
  queryOptions({
    queryKey: ['environments', ws, prj],
    queryFn: () => api.environment.list({ ws, prj }),
    staleTime: 60_000,
  })
