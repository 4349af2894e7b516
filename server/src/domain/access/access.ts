/**
 * The only module that decides access. Every `require…` function finds and authorises in one step, so that code never
 * holds an object it may not use. Effective right = credential permission ∩ credential scope ∩ member role ∩ member
 * scope, evaluated on every request. An identity of an outside issuer has no membership: its permission maps to a role.
 *
 * Objects outside the caller's reach answer 404, as if they did not exist; visible objects that the caller may not use
 * answer 403.
 */
import type { EnvironmentPath, IdPath, ProjectPath, Role, Scope, WorkspacePath } from '@coffer/contract/field'
import { Failure } from '../../failure.ts'
import type { IdentityRecord } from '../../store/oidc.ts'
import type { Member } from '../../store/workspace/member.ts'
import { credentialPermission, grantOf } from '../actor.ts'
import {
  type SnapshotEnvironment,
  type SnapshotProject,
  type SnapshotTeam,
  toSnapshotEnvironment,
  type WorkspaceSnapshot,
} from '../cache/workspace-snapshot.ts'
import type { Context, WriteContext } from '../context.ts'
import {
  everything,
  type Reach,
  reachesAll,
  reachesEnvironment,
  reachesProject,
  reachesTeam,
  type ScopeSet,
  toScopeSet,
} from '../scope.ts'
import { requireLiving } from './live-credential.ts'
import { ranks, rules, type WorkspacePermission } from './permission.ts'

/** A workspace that is visible to the caller, and how much of it the caller reaches. */
export type Access = { readonly snapshot: WorkspaceSnapshot; readonly member: Member; readonly reach: Reach }
type TeamAccess = Access & { readonly team: SnapshotTeam }
export type ProjectAccess = Access & { readonly project: SnapshotProject }
export type EnvironmentAccess = ProjectAccess & { readonly environment: SnapshotEnvironment }

export async function requireWorkspace(
  ctx: Context,
  path: WorkspacePath,
  permission: WorkspacePermission,
): Promise<Access> {
  return accessWithin(ctx, peekSnapshot(ctx, path.ws) ?? (await findSnapshot(ctx, path.ws)), permission)
}

/** The id of a workspace, by slug or id; undefined if the caller is not a member. */
export async function findWorkspaceId(ctx: Context, slugOrId: string): Promise<string | undefined> {
  const snapshot = peekSnapshot(ctx, slugOrId) ?? (await findSnapshot(ctx, slugOrId))
  return accessTo(ctx, snapshot)?.snapshot.workspace.id
}

/**
 * Authorises again under the workspace lock, with the stored credential and membership: someone who has just lost a
 * right must not use it to change the rights of others. Returns the current access.
 */
export async function reauthorise(ctx: WriteContext, access: Access, permission: WorkspacePermission): Promise<Access> {
  await requireLiving(ctx)
  const member = await ctx.store.members.findOfUser(ctx.actor.userId, access.snapshot.workspace.id)
  if (!member) throw new Failure('notFound')
  const [, ...ofToken] = access.reach
  const current = { ...access, member, reach: [toScopeSet(member.scope), ...ofToken] }
  authorise(ctx, current, permission)
  return current
}

/**
 * Reloads the project's environments under the workspace lock. The cached snapshot may lack an environment that another
 * node created a moment ago, and a change to the whole project must not skip it.
 */
export async function withStoredEnvironments<Held extends ProjectAccess>(
  ctx: WriteContext,
  access: Held,
): Promise<Held> {
  const { snapshot, project: cached } = access
  const rows = await ctx.store.environments.listOf(cached.id, snapshot.workspace.id)
  const known = new Set(cached.environments.map(({ id }) => id))
  if (rows.length === known.size && rows.every(({ id }) => known.has(id))) return access
  const project = { ...cached, environments: rows.map(toSnapshotEnvironment) }
  const others = [...snapshot.environments].filter(([id]) => !known.has(id))
  const current = {
    ...snapshot,
    environments: new Map([...others, ...project.environments.map((one) => [one.id, one] as const)]),
    projects: new Map(snapshot.projects).set(project.id, project),
    projectsBySlug: new Map(snapshot.projectsBySlug).set(project.slug, project),
  }
  return { ...access, project, snapshot: current }
}

export async function requireTeam(ctx: Context, path: IdPath, permission: 'team:write'): Promise<TeamAccess> {
  const access = await requireWorkspace(ctx, path, 'workspace:read')
  const team = visibleTeam(access, path.id.toLowerCase())
  authorise(ctx, access, permission)
  if (!reachesTeam(access.reach, team)) throw new Failure('forbidden', 'Your scope covers only part of this team.')
  return { ...access, team }
}

/** The team that a project is placed in. The caller must reach the whole team. */
export function requireTeamWithin(access: Access, teamId: string): SnapshotTeam {
  const team = visibleTeam(access, teamId.toLowerCase())
  if (!reachesTeam(access.reach, team)) throw new Failure('forbidden', 'Your scope covers only part of this team.')
  return team
}

type ProjectPermission = Extract<
  WorkspacePermission,
  `${'project' | 'environment' | 'secret' | 'share' | 'sync'}:${string}`
>

export async function requireProject(
  ctx: Context,
  path: ProjectPath,
  permission: ProjectPermission,
): Promise<ProjectAccess> {
  // Every read of a secret passes here: a cached workspace snapshot saves it an await.
  const snapshot = peekSnapshot(ctx, path.ws) ?? (await findSnapshot(ctx, path.ws))
  const access = accessWithin(ctx, snapshot, 'workspace:read')
  const project = access.snapshot.projectsBySlug.get(path.prj) ?? access.snapshot.projects.get(path.prj)
  if (!project || !seesProject(access.reach, project)) throw new Failure('notFound')
  authorise(ctx, access, permission)
  if (rules[permission].wholeProject && !reachesProject(access.reach, project)) {
    throw new Failure('forbidden', 'Your scope covers only part of this project.')
  }
  return { ...access, project }
}

/** For the few endpoints that name a project by id alone. */
export async function requireProjectById(
  ctx: Context,
  id: string,
  permission: ProjectPermission,
): Promise<ProjectAccess> {
  const accesses = await listAccesses(ctx)
  const access = accesses.find(({ snapshot }) => snapshot.projects.has(id.toLowerCase()))
  if (!access) throw new Failure('notFound')
  return requireProject(ctx, { ws: access.snapshot.workspace.id, prj: id.toLowerCase() }, permission)
}

export async function requireEnvironment(
  ctx: Context,
  path: EnvironmentPath,
  permission: 'environment:write' | 'secret:read' | 'secret:write',
): Promise<EnvironmentAccess> {
  const access = await requireProject(ctx, path, 'environment:read')
  const environment = access.snapshot.environments.get(path.environmentId.toLowerCase())
  const isHere = environment?.projectId === access.project.id
  if (!environment || !isHere || !reachesEnvironment(access.reach, access.project, environment)) {
    throw new Failure('notFound')
  }
  authorise(ctx, access, permission)
  return { ...access, environment }
}

/** For actions that tokens may not perform. */
export function requireSession(ctx: Context): { sessionId: string; userId: string } {
  const { credential, userId } = ctx.actor
  if (credential.type !== 'session' && credential.type !== 'cli') throw new Failure('sessionOnly')
  return { sessionId: credential.sessionId, userId }
}

/**
 * The credential of a command-line session lies in a file. A thief of that file must not be able to create more
 * sessions, or lock the person out by enabling a second factor.
 */
export function requireBrowserSession(ctx: Context): { sessionId: string; userId: string } {
  const session = requireSession(ctx)
  if (ctx.actor.credential.type === 'cli') {
    throw new Failure('forbidden', 'This needs a browser session: a command-line session cannot do it.')
  }
  return session
}

/** Every workspace that the caller may see, oldest first. */
export async function listAccesses(ctx: Context): Promise<Access[]> {
  const { credential, userId } = ctx.actor
  const grant = grantOf(credential)
  const ids = grant ? [grant.workspaceId] : await ctx.store.workspaces.listIdsForUser(userId)
  const snapshots = await Promise.all(ids.map((id) => ctx.snapshots.get(id)))
  return snapshots.flatMap((snapshot) => accessTo(ctx, snapshot) ?? [])
}

export const seesProject = (reach: Reach, project: SnapshotProject): boolean =>
  reachesProject(reach, project) ||
  project.environments.some((environment) => reachesEnvironment(reach, project, environment))

export const seesTeam = (reach: Reach, team: SnapshotTeam): boolean =>
  reachesTeam(reach, team) || team.projects.some((project) => seesProject(reach, project))

export const reachedEnvironments = (reach: Reach, project: SnapshotProject): SnapshotEnvironment[] =>
  project.environments.filter((environment) => reachesEnvironment(reach, project, environment))

/** True if every id names an existing environment, in any project, that the caller reaches. */
export function reachesEnvironments({ snapshot, reach }: Access, ids: readonly string[]): boolean {
  return ids.every((id) => {
    const environment = snapshot.environments.get(id)
    const project = snapshot.projects.get(environment?.projectId ?? '')
    return environment !== undefined && project !== undefined && reachesEnvironment(reach, project, environment)
  })
}

type SharePlace = {
  readonly workspaceId: string
  readonly projectId: string
  readonly createdBy: string
  readonly environmentIds: readonly string[]
}

/** A share opens only while its creator could still create it: lost rights apply to readers of the link too. */
export async function isStillShared(ctx: Context, share: SharePlace): Promise<boolean> {
  const snapshot = await ctx.snapshots.get(share.workspaceId)
  const maker = snapshot?.membersByUser.get(share.createdBy)
  const project = snapshot?.projects.get(share.projectId)
  if (!snapshot || !maker || !project) return false
  const access = { snapshot, member: maker.member, reach: [maker.scopeSet], project }
  const mayShare = hasRole(access, rules['share:write'].role) && seesProject(access.reach, project)
  return mayShare && reachesEnvironments(access, share.environmentIds)
}

type GrantPlace = {
  readonly workspaceId: string
  readonly projectId: string
  readonly environmentId: string | null
  readonly createdBy: string
}

/** For work on behalf of a person: limited to what they may read now and could read when they set it up. */
export async function findGranted(
  ctx: Context,
  place: GrantPlace,
  scopes: readonly Scope[],
): Promise<EnvironmentAccess | undefined> {
  const snapshot = await ctx.snapshots.get(place.workspaceId)
  const grantor = snapshot?.membersByUser.get(place.createdBy)
  const project = snapshot?.projects.get(place.projectId)
  const environment = snapshot?.environments.get(place.environmentId ?? '')
  if (!snapshot || !grantor || !project || environment?.projectId !== project.id) return undefined
  const reach = [grantor.scopeSet, ...scopes.map(toScopeSet)]
  if (!reachesEnvironment(reach, project, environment)) return undefined
  return { snapshot, member: grantor.member, reach, project, environment }
}

export function hasRole(access: Access, role: Role): boolean {
  return ranks[access.member.role] >= ranks[role]
}

/** Admin of the whole workspace, as required for managing other people's tokens. */
export function mayManageAll(access: Access): boolean {
  return hasRole(access, 'admin') && reachesAll(access.reach)
}

function accessWithin(ctx: Context, snapshot: WorkspaceSnapshot | undefined, permission: WorkspacePermission): Access {
  const access = accessTo(ctx, snapshot)
  if (!access) throw new Failure('notFound')
  authorise(ctx, access, permission)
  return access
}

function visibleTeam(access: Access, teamId: string): SnapshotTeam {
  const team = access.snapshot.teams.get(teamId)
  if (!team || !seesTeam(access.reach, team)) throw new Failure('notFound')
  return team
}

const isNamed = ({ workspace }: WorkspaceSnapshot, slugOrId: string) =>
  workspace.slug === slugOrId || workspace.id === slugOrId

/** The cached snapshot of the token's or identity's workspace, if the path names that workspace. */
function peekSnapshot(ctx: Context, slugOrId: string): WorkspaceSnapshot | undefined {
  const grant = grantOf(ctx.actor.credential)
  const snapshot = grant && ctx.snapshots.peek(grant.workspaceId)
  return snapshot && isNamed(snapshot, slugOrId) ? snapshot : undefined
}

async function findSnapshot(ctx: Context, slugOrId: string): Promise<WorkspaceSnapshot | undefined> {
  const { credential, userId } = ctx.actor
  const grant = grantOf(credential)
  if (grant) {
    const snapshot = await ctx.snapshots.get(grant.workspaceId)
    return snapshot && isNamed(snapshot, slugOrId) ? snapshot : undefined
  }
  const id = await ctx.store.workspaces.findIdForUser(userId, slugOrId)
  return id === undefined ? undefined : ctx.snapshots.get(id)
}

/** Adds the access to `ctx.run.granted`, which is checked again after a wait. */
function accessTo(ctx: Context, snapshot: WorkspaceSnapshot | undefined): Access | undefined {
  const access = evaluate(ctx, snapshot)
  if (access) ctx.run.granted.push(access)
  return access
}

function evaluate(ctx: Context, snapshot: WorkspaceSnapshot | undefined): Access | undefined {
  const { credential, userId } = ctx.actor
  if (snapshot && 'identity' in credential) return identityAccess(snapshot, credential.identity)
  const cached = snapshot?.membersByUser.get(userId)
  if (!snapshot || !cached) return undefined
  if (!('token' in credential)) return { snapshot, member: cached.member, reach: [cached.scopeSet] }
  return { snapshot, member: cached.member, reach: [cached.scopeSet, scopeSetOf(credential.token)] }
}

/** An identity belongs to no person. It acts as a member if read-only, otherwise as a developer, within its scope. */
function identityAccess(snapshot: WorkspaceSnapshot, identity: IdentityRecord): Access | undefined {
  const { id, workspaceId, permission, createdAt } = identity
  if (workspaceId !== snapshot.workspace.id) return undefined
  const role = permission === 'read' ? 'member' : 'developer'
  const member: Member = { id, workspaceId, userId: '', role, isOwner: false, scope: everything, createdAt }
  return { snapshot, member, reach: [scopeSetOf(identity)] }
}

/** Cached per token or identity record, because every request needs the set. */
const scopeSets = new WeakMap<object, ScopeSet>()

function scopeSetOf(grant: { readonly scope: Scope }): ScopeSet {
  let scopeSet = scopeSets.get(grant)
  if (!scopeSet) {
    scopeSet = toScopeSet(grant.scope)
    scopeSets.set(grant, scopeSet)
  }
  return scopeSet
}

function authorise(ctx: Context, access: Access, permission: WorkspacePermission): void {
  const rule = rules[permission]
  const { credential } = ctx.actor
  if (rule.session) requireSession(ctx)
  if (rule.writes && credentialPermission(credential) === 'read') throw new Failure('readOnly')
  if (!hasRole(access, rule.role)) throw new Failure('forbidden', `This needs the role ${rule.role}.`)
  if (rule.person && ctx.actor.userId === '') {
    throw new Failure('forbidden', 'Only a person can do this, not an OIDC identity.')
  }
  if (rule.owner && !access.member.isOwner)
    throw new Failure('forbidden', 'Only the owner of the workspace can do this.')
  if (rule.whole && !reachesAll(access.reach)) {
    throw new Failure('forbidden', 'This concerns the whole workspace: it needs the scope "all".')
  }
}
