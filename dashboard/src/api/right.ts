/** Rights of the signed-in person in a workspace, as far as pages need them to offer only what is allowed. */
import type { Workspace } from '@coffer/sdk'
import { useSuspenseQuery } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { workspacesQuery } from './workspace.ts'

export type Rights = {
  readonly workspace: Workspace
  /** Writes secrets and creates shares. */
  readonly canWrite: boolean
  /** Changes teams, projects, environments and syncs in scope. */
  readonly canAdminister: boolean
  /** Manages members, identities, everybody's tokens, the audit log and the workspace's settings. */
  readonly canManageWorkspace: boolean
  readonly isOwner: boolean
}

export function rightsIn(workspace: Workspace): Rights {
  const isAdmin = workspace.role === 'admin'
  return {
    workspace,
    canWrite: workspace.role !== 'member',
    canAdminister: isAdmin,
    canManageWorkspace: isAdmin && workspace.scope.all,
    isOwner: workspace.isOwner,
  }
}

/** Some changes need a scope that holds the whole team, or the whole project, rather than a part of it. */
export const administersTeam = ({ canAdminister, workspace: { scope } }: Rights, teamId: string) =>
  canAdminister && (scope.all || scope.teams.includes(teamId))

export const administersProject = (rights: Rights, { id, teamId }: { readonly id: string; readonly teamId: string }) =>
  administersTeam(rights, teamId) || (rights.canAdminister && rights.workspace.scope.projects.includes(id))

/** For pages below `/:ws`. */
export function useRights(): Rights {
  const { ws } = useParams({ from: '/signed-in/$ws' })
  const { data } = useSuspenseQuery(workspacesQuery)
  const workspace = findWorkspace(data, ws)
  if (!workspace) throw new Error('The layout of a workspace renders its pages only if the workspace exists.')
  return rightsIn(workspace)
}

/** By slug or by id: a slug that is also a page of ours, such as `login`, is reached by its id. */
export const findWorkspace = (workspaces: readonly Workspace[], ws: string) =>
  workspaces.find(({ slug, id }) => slug === ws || id === ws)
