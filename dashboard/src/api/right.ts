/** Rights of the signed-in person in a workspace, as far as pages need them to offer only what is allowed. Pure functions. */
import type { Role, Scope, TeamGroup, Workspace } from '@coffer/sdk'

type Holder = Pick<Workspace, 'grants'>

const ranks: Record<Role, number> = { member: 0, developer: 1, admin: 2 }

/** The workspace, or a team, a project or an environment in it, with the places that hold it. */
export type Place = { readonly teamId?: string; readonly projectId?: string; readonly environmentId?: string }

/** The one decision: whether somebody has at least this role in the whole of a place, by any of their grants. */
export function holdsRole({ grants }: Holder, role: Role, place: Place): boolean {
  return grants.some((grant) => ranks[grant.role] >= ranks[role] && reaches(grant.scope, place))
}

function reaches({ all, teams, projects, environments }: Scope, { teamId, projectId, environmentId }: Place): boolean {
  const names = (ids: readonly string[], id: string | undefined) => id !== undefined && ids.includes(id)
  return all || names(teams, teamId) || names(projects, projectId) || names(environments, environmentId)
}

/** Everything that the grants reach with at least this role. */
export function reachOf({ grants }: Holder, role: Role = 'member'): Scope {
  const scopes = grants.filter((grant) => ranks[grant.role] >= ranks[role]).map(({ scope }) => scope)
  const union = (kind: 'teams' | 'projects' | 'environments') => [...new Set(scopes.flatMap((scope) => scope[kind]))]
  return {
    all: scopes.some(({ all }) => all),
    teams: union('teams'),
    projects: union('projects'),
    environments: union('environments'),
  }
}

/** Whether somebody has at least this role somewhere in a scope. `teams` are those that the reader sees. */
export function holdsRoleWithin(holder: Holder, role: Role, scope: Scope, teams: readonly TeamGroup[]): boolean {
  const places = teams.flatMap(({ id: teamId, projects }) => [
    { teamId },
    ...projects.flatMap(({ id: projectId, environmentList }) => [
      { teamId, projectId },
      ...environmentList.map(({ id: environmentId }) => ({ teamId, projectId, environmentId })),
    ]),
  ])
  return [{}, ...places].some((place) => reaches(scope, place) && holdsRole(holder, role, place))
}

export type Rights = {
  readonly workspace: Workspace
  /** Writes secrets somewhere in the workspace, and so may have tokens that write. */
  readonly canWrite: boolean
  /** Is an admin of some part of the workspace. */
  readonly canAdminister: boolean
  /** Manages members, service accounts, identities, everybody's tokens, the audit log and the workspace's settings. */
  readonly canManageWorkspace: boolean
  readonly isOwner: boolean
}

export function rightsIn(workspace: Workspace): Rights {
  return {
    workspace,
    canWrite: workspace.grants.some(({ role }) => role !== 'member'),
    canAdminister: workspace.grants.some(({ role }) => role === 'admin'),
    canManageWorkspace: holdsRole(workspace, 'admin', {}),
    isOwner: workspace.isOwner,
  }
}

/** Some changes need the whole team rather than a part of it. */
export const administersTeam = ({ workspace }: Rights, teamId: string) => holdsRole(workspace, 'admin', { teamId })

export type ProjectRights = {
  /** Writes shared values in this environment, and shares them. */
  readonly canWriteIn: (environmentId: string) => boolean
  /** Changes this environment and its syncs. */
  readonly administers: (environmentId: string) => boolean
  /** Writes in some environment of the project. */
  readonly canWrite: boolean
  /** Is an admin of some environment of the project. */
  readonly canAdminister: boolean
  readonly readsWhole: boolean
  /** Renames and deletes secrets, which concerns every environment. */
  readonly writesWhole: boolean
  /** Changes the project itself. */
  readonly administersWhole: boolean
}

type RightsProject = {
  readonly id: string
  readonly teamId: string
  /** Those that the person sees. */
  readonly environments: readonly { readonly id: string }[]
}

export function projectRightsIn(holder: Holder, { id: projectId, teamId, environments }: RightsProject): ProjectRights {
  const has = (role: Role, environmentId?: string) =>
    holdsRole(holder, role, { teamId, projectId, ...(environmentId !== undefined && { environmentId }) })
  const hasPart = (role: Role) => has(role) || environments.some(({ id }) => has(role, id))
  return {
    canWriteIn: (environmentId) => has('developer', environmentId),
    administers: (environmentId) => has('admin', environmentId),
    canWrite: hasPart('developer'),
    canAdminister: hasPart('admin'),
    readsWhole: has('member'),
    writesWhole: has('developer'),
    administersWhole: has('admin'),
  }
}

/** By slug or by id: a slug that is also a page of ours, such as `login`, is reached by its id. */
export const findWorkspace = (workspaces: readonly Workspace[], ws: string) =>
  workspaces.find(({ slug, id }) => slug === ws || id === ws)
