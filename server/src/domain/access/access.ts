/**
 * The only module that decides access. Every `require…` function finds and authorises in one step, so that code never
 * holds an object it may not use. Effective right = credential permission ∩ credential scope ∩ the grants of the member
 * or service account, evaluated on every request. An identity of an outside issuer has no membership: its permission maps to a role.
 *
 * Objects outside the caller's reach answer 404, as if they did not exist; visible objects that the caller may not use
 * answer 403.
 */
import type { EnvironmentPath, IdPath, ProjectPath, Role, WorkspacePath } from '@coffer/contract/field'
import { Failure } from '../../failure.ts'
import type { Member } from '../../store/workspace/member.ts'
import { credentialPermission, grantOf, mayAdminister } from '../actor.ts'
import type {
  SnapshotEnvironment,
  SnapshotProject,
  SnapshotTeam,
  WorkspaceSnapshot,
} from '../cache/workspace-snapshot.ts'
import type { Context, WriteContext } from '../context.ts'
import { holdsRole, type Rights, reachInRole, rightsWithin } from '../grant.ts'
import { findStoredPrincipal } from '../principal.ts'
import type { ReadyIdentity } from '../ready-token.ts'
import { type Reach, reachesAll, reachesEnvironment, reachesProject, reachesTeam } from '../scope.ts'
import { requireLiving } from './live-credential.ts'
import { rules, type WorkspacePermission } from './permission.ts'
import { requirePolicy, requireStoredPolicy } from './policy.ts'

/** A workspace that is visible to the caller, and how much of it the caller reaches. */
export type Access = {
  readonly snapshot: WorkspaceSnapshot
  readonly member: Member
  readonly rights: Rights
  /** What the caller sees: the part where they have any role, then the limits of their credential. */
  readonly reach: Reach
}
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

/**
 * Authorises again under the workspace lock, with the stored credential, membership and policy: someone who has just lost a
 * right must not use it to change the rights of others. Returns the current access.
 */
export async function reauthorise(
  ctx: WriteContext,
  access: Access & Place,
  permission: WorkspacePermission,
): Promise<Access> {
  await requireLiving(ctx)
  const workspaceId = access.snapshot.workspace.id
  const principal = await findStoredPrincipal(ctx.store, ctx.actor.userId, workspaceId)
  if (!principal) throw new Failure('notFound')
  const { member, rights } = principal
  const snapshot = { ...access.snapshot, policy: await requireStoredPolicy(ctx, workspaceId) }
  const current = { ...access, snapshot, member, rights, reach: reachInRole(rights, 'member', access.reach) }
  authorise(ctx, current, permission, access)
  return current
}

export async function requireTeam(ctx: Context, path: IdPath, permission: 'team:write'): Promise<TeamAccess> {
  return requireTeamOf(ctx, await requireWorkspace(ctx, path, 'workspace:read'), path.id, permission)
}

/** Like `requireTeam`, in a workspace that the caller sees. */
export function requireTeamOf(
  ctx: Context,
  access: Access,
  id: string,
  permission: 'team:read' | 'team:write',
): TeamAccess {
  const team = visibleTeam(access, id.toLowerCase())
  authorise(ctx, access, permission)
  if (permission === 'team:write') requireWholeTeam(access, team)
  return { ...access, team }
}

/** The team that a project is placed in. The caller must be admin of the whole team. */
export function requireTeamWithin(access: Access, teamId: string): SnapshotTeam {
  const team = visibleTeam(access, teamId.toLowerCase())
  requireWholeTeam(access, team)
  return team
}

function requireWholeTeam(access: Access, team: SnapshotTeam): void {
  if (reachesTeam(inRole(access, 'admin').reach, team)) return
  const message = reachesTeam(access.reach, team)
    ? `This needs the role admin in the team ${team.name}.`
    : 'Your scope covers only part of this team.'
  throw new Failure('forbidden', message)
}

export type ProjectPermission = Extract<
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
  return requireProjectOf(ctx, accessWithin(ctx, snapshot, 'workspace:read'), path.prj, permission)
}

/** Like `requireProject`, in a workspace that the caller sees. */
export function requireProjectOf(
  ctx: Context,
  access: Access,
  slugOrId: string,
  permission: ProjectPermission,
): ProjectAccess {
  const project = access.snapshot.projectsBySlug.get(slugOrId) ?? access.snapshot.projects.get(slugOrId)
  if (!project || !seesProject(access.reach, project)) throw new Failure('notFound')
  authorise(ctx, access, permission, { project })
  if (rules[permission].wholeProject && !reachesProject(inRole(access, rules[permission].role).reach, project)) {
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
  permission: 'environment:write' | 'secret:read' | 'secret:write' | 'sync:write',
): Promise<EnvironmentAccess> {
  return requireEnvironmentOf(ctx, await requireProject(ctx, path, 'environment:read'), path.environmentId, permission)
}

/** Like `requireEnvironment`, in a project that the caller sees. */
export function requireEnvironmentOf(
  ctx: Context,
  access: ProjectAccess,
  id: string,
  permission: ProjectPermission,
): EnvironmentAccess {
  const environment = access.snapshot.environments.get(id.toLowerCase())
  const isHere = environment?.projectId === access.project.id
  if (!environment || !isHere || !reachesEnvironment(access.reach, access.project, environment)) {
    throw new Failure('notFound')
  }
  authorise(ctx, access, permission, { project: access.project, environment })
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

/** Every workspace that the caller belongs to, oldest first, even if they do not meet its policy. */
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
export function reachesEnvironments(
  { snapshot, reach }: Pick<Access, 'snapshot' | 'reach'>,
  ids: readonly string[],
): boolean {
  return ids.every((id) => {
    const environment = snapshot.environments.get(id)
    const project = snapshot.projects.get(environment?.projectId ?? '')
    return environment !== undefined && project !== undefined && reachesEnvironment(reach, project, environment)
  })
}

/** The same access, with a reach limited to where the caller has this role. */
export function inRole<Held extends Access>(access: Held, role: Role): Held {
  return { ...access, reach: reachInRole(access.rights, role, access.reach) }
}

/** Admin of the whole workspace, as required for managing other people's tokens. */
export function mayManageAll(access: Access): boolean {
  return reachesAll(inRole(access, 'admin').reach)
}

function accessWithin(ctx: Context, snapshot: WorkspaceSnapshot | undefined, permission: WorkspacePermission): Access {
  const access = accessTo(ctx, snapshot)
  if (!access) throw new Failure('notFound')
  requirePolicy(ctx, access.snapshot.policy)
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
export function accessTo(ctx: Context, snapshot: WorkspaceSnapshot | undefined): Access | undefined {
  const access = evaluate(ctx, snapshot)
  if (access) ctx.run.granted.push(access)
  return access
}

function evaluate(ctx: Context, snapshot: WorkspaceSnapshot | undefined): Access | undefined {
  const { credential, userId } = ctx.actor
  if (snapshot && 'identity' in credential) return identityAccess(snapshot, credential.identity)
  const cached = snapshot?.principals.get(userId)
  if (!snapshot || !cached) return undefined
  const { member, rights } = cached
  if (!('token' in credential)) return { snapshot, member, rights, reach: [rights.member] }
  return { snapshot, member, rights, reach: [rights.member, credential.token.scopeSet] }
}

/** An identity belongs to no person. It acts as a member if read-only, otherwise as a developer, within its scope. */
function identityAccess(snapshot: WorkspaceSnapshot, identity: ReadyIdentity): Access | undefined {
  const { id, workspaceId, permission, scope, scopeSet, createdAt } = identity
  if (workspaceId !== snapshot.workspace.id) return undefined
  const role = permission === 'read' ? 'member' : 'developer'
  const member: Member = { id, workspaceId, userId: '', isOwner: false, grants: [{ role, scope }], createdAt }
  return { snapshot, member, rights: rightsWithin(scopeSet, role), reach: [scopeSet] }
}

type Place = { readonly project?: SnapshotProject; readonly environment?: SnapshotEnvironment }

function authorise(ctx: Context, access: Access, permission: WorkspacePermission, place: Place = {}): void {
  const rule = rules[permission]
  const { credential } = ctx.actor
  if (rule.session) requireSession(ctx)
  if (rule.writes && credentialPermission(credential) === 'read') throw new Failure('readOnly')
  requireRole(access, rule.role, place)
  if (rule.person && ctx.actor.userId === '') {
    throw new Failure('forbidden', 'Only a person can do this, not an OIDC identity.')
  }
  if (rule.owner && !access.member.isOwner)
    throw new Failure('forbidden', 'Only the owner of the workspace can do this.')
  if (rule.whole && !reachesAll(inRole(access, rule.role).reach)) {
    throw new Failure('forbidden', 'This concerns the whole workspace: it needs the scope "all".')
  }
  if (rule.administers && !mayAdminister(credential)) throw new Failure('sessionOrMarked')
}

/** Requires the role at a place that the caller sees; without a place, anywhere in the workspace. */
export function requireRole(access: Access, role: Role, { project, environment }: Place): void {
  // Whoever sees the place has this role there.
  if (role === 'member') return
  if (!holdsRole(access.rights, role)) throw new Failure('forbidden', `This needs the role ${role}.`)
  const reach = reachInRole(access.rights, role, access.reach)
  if (project && environment && !reachesEnvironment(reach, project, environment)) {
    throw new Failure('forbidden', `This needs the role ${role} in the environment ${environment.name}.`)
  }
  if (project && !seesProject(reach, project)) {
    throw new Failure('forbidden', `This needs the role ${role} in the project ${project.name}.`)
  }
}
