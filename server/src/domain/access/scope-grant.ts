/** Giving and showing grants: nobody can give, or see, ids outside their own reach. */
import type { NewGrant, NewScope, Role, Scope } from '@coffer/contract/field'
import { Failure, invalid } from '../../failure.ts'
import type { Grants } from '../../store/workspace/grant.ts'
import type { WriteContext } from '../context.ts'
import { normaliseScope, reachesAll, reachesEnvironment, reachesProject, reachesTeam, toScopeSet } from '../scope.ts'
import { type Access, inRole, seesTeam } from './access.ts'

const scopeKinds = ['teams', 'projects', 'environments'] as const
type ScopeKind = (typeof scopeKinds)[number]

function isReached({ snapshot, reach }: Access, kind: ScopeKind, id: string): boolean {
  if (kind === 'teams') {
    const team = snapshot.teams.get(id)
    return team !== undefined && reachesTeam(reach, team)
  }
  const environment = kind === 'environments' ? snapshot.environments.get(id) : undefined
  const project = snapshot.projects.get(kind === 'projects' ? id : (environment?.projectId ?? ''))
  if (!project) return false
  return environment ? reachesEnvironment(reach, project, environment) : reachesProject(reach, project)
}

/** The first id in the scope that the caller cannot reach. */
function findUnreached(access: Access, scope: Scope): { kind: ScopeKind; id: string } | undefined {
  for (const kind of scopeKinds) {
    const id = scope[kind].find((named) => !isReached(access, kind, named))
    if (id !== undefined) return { kind, id }
  }
  return undefined
}

export function isScopeWithin(access: Access, scope: Scope): boolean {
  return reachesAll(access.reach) || (!scope.all && findUnreached(access, scope) === undefined)
}

/** True if the caller has the role somewhere in the scope. */
export function hasRoleIn(access: Access, role: Role, scope: Scope): boolean {
  const reach = [...inRole(access, role).reach, toScopeSet(scope)]
  return reachesAll(reach) || [...access.snapshot.teams.values()].some((team) => seesTeam(reach, team))
}

/** The scope without the ids that the caller cannot reach. */
export function reachedScope(access: Access, scope: Scope): Scope {
  if (reachesAll(access.reach)) return scope
  const reached = (kind: ScopeKind) => scope[kind].filter((id) => isReached(access, kind, id))
  return {
    all: scope.all,
    teams: reached('teams'),
    projects: reached('projects'),
    environments: reached('environments'),
  }
}

/** Callers can grant only what they reach themselves. An empty scope is refused as a mistake. */
export function requireScopeWithin(access: Access, wanted: NewScope): Scope {
  const scope = normaliseScope(wanted)
  if (scope.all) {
    if (reachesAll(access.reach)) return scope
    throw invalid('scope', 'you cannot grant "all": your own scope is narrower.')
  }
  if (scope.teams.length + scope.projects.length + scope.environments.length === 0) {
    throw invalid('scope', 'grants nothing: set "all", or list teams, projects or environments.')
  }
  const missing = findUnreached(access, scope)
  if (missing) throw invalid('scope', `${missing.kind} names ${missing.id}, which you cannot access.`)
  return scope
}

type WantedGrants = { readonly role?: Role; readonly scope?: NewScope; readonly grants?: readonly NewGrant[] }

/** The grants of somebody new: `grants`, or else the single one that `role` and `scope` name. */
export function requireGrantsWithin(access: Access, wanted: WantedGrants): Grants {
  const { role, scope, grants } = wanted
  if (grants) {
    refuseBoth(wanted)
    return firstOf(grants.map((grant) => ({ role: grant.role, scope: requireScopeWithin(access, grant.scope) })))
  }
  if (role === undefined) throw invalid('role', 'is required: send role and scope, or grants.')
  if (scope === undefined) throw invalid('scope', 'is required: send role and scope, or grants.')
  return [{ role, scope: requireScopeWithin(access, scope) }]
}

/**
 * `grants` replace all; `role` and `scope` change a single grant. A client that knows only one must not remove others
 * that it does not see.
 */
export async function requireChangedGrantsWithin(
  ctx: WriteContext,
  access: Access,
  before: Grants,
  wanted: WantedGrants,
): Promise<Grants> {
  const { role = before[0].role, scope, grants } = wanted
  if (!grants) {
    if (before.length > 1) {
      throw new Failure('conflict', `There are ${before.length} grants: send the whole list as grants.`)
    }
    if (scope === undefined) return [{ role, scope: before[0].scope }]
    return [{ role, scope: await requireChangedScopeWithin(ctx, access, before[0].scope, scope) }]
  }
  refuseBoth(wanted)
  const known = mergeScopes(before.map((grant) => grant.scope))
  const changed = []
  for (const grant of grants) {
    changed.push({ role: grant.role, scope: await requireChangedScopeWithin(ctx, access, known, grant.scope) })
  }
  return firstOf(changed)
}

function refuseBoth({ role, scope }: WantedGrants): void {
  if (role !== undefined || scope !== undefined) throw invalid('grants', 'cannot be sent together with role or scope.')
}

/** The schema refuses an empty list. */
function firstOf([first, ...others]: Grants[number][]): Grants {
  if (!first) throw invalid('grants', 'must not be empty.')
  return [first, ...others]
}

const mergeScopes = (scopes: readonly Scope[]): Scope => ({
  all: scopes.some(({ all }) => all),
  teams: scopes.flatMap(({ teams }) => teams),
  projects: scopes.flatMap(({ projects }) => projects),
  environments: scopes.flatMap(({ environments }) => environments),
})

/** A client may send a scope back as it read it: ids that were in it before and have been deleted since are dropped. */
export async function requireChangedScopeWithin(
  ctx: WriteContext,
  access: Access,
  before: Scope,
  wanted: NewScope,
): Promise<Scope> {
  const { snapshot } = access
  // Asks the store too: the snapshot may lack an object that another node has just created, which is not deleted.
  const isGone = async (kind: ScopeKind, id: string) =>
    before[kind].includes(id) &&
    !snapshot[kind].has(id) &&
    (await ctx.store[kind].find(id, snapshot.workspace.id)) === undefined
  const scope = normaliseScope(wanted)
  const kept: Record<ScopeKind, string[]> = { teams: [], projects: [], environments: [] }
  for (const kind of scopeKinds) {
    for (const id of scope[kind]) if (!(await isGone(kind, id))) kept[kind].push(id)
  }
  return requireScopeWithin(access, { all: scope.all, ...kept })
}
