/** Decides a question about access with the functions that requests use, so that the answer cannot differ from theirs. */
import type { ExplainedAction } from '@coffer/contract/access'
import { type Failure, isFailure } from '../../failure.ts'
import {
  type Access,
  type ProjectPermission,
  requireEnvironmentOf,
  requireProjectOf,
  requireTeamOf,
  requireTeamWithin,
  requireWorkspace,
} from '../access/access.ts'
import { requireSharing } from '../access/policy.ts'
import type { SnapshotProject, WorkspaceSnapshot } from '../cache/workspace-snapshot.ts'
import type { Context } from '../context.ts'
import { type Place, placeOf } from './place.ts'

/** Without a failure it is allowed, in these of the places that the question is about. */
export type Verdict = { readonly places: readonly Place[]; readonly failure?: Failure }

type ProjectAction = ProjectPermission & ExplainedAction

const isProjectAction = (action: ExplainedAction): action is ProjectAction =>
  /^(project|environment|secret|share|sync):/.test(action)

/** What an action concerns, and therefore which parts of a place count. */
export function levelOf(action: ExplainedAction): 'workspace' | 'team' | 'project' | 'environment' {
  if (action === 'team:read' || action === 'team:write' || action === 'project:create') return 'team'
  if (action.startsWith('project:') || action === 'environment:create') return 'project'
  return isProjectAction(action) ? 'environment' : 'workspace'
}

/** Actions with a request that lists all that the caller sees in the workspace, which is nothing at worst. */
const listing: ReadonlySet<ExplainedAction> = new Set(['team:read', 'project:read', 'secret:read'])

/** A policy that refuses this share refuses all. */
const leastShare = { kind: 'e2e', lifeMs: 0 } as const

/** `ctx` is that of the actor in question. */
export async function decide(
  ctx: Context,
  snapshot: WorkspaceSnapshot,
  action: ExplainedAction,
  place: Place,
): Promise<Verdict> {
  const path = { ws: snapshot.workspace.id }
  try {
    const access = await requireWorkspace(ctx, path, firstAsked(action))
    if (levelOf(action) === 'workspace') return { places: [{}] }
    const verdict = decideWithin(ctx, access, action, place)
    const isUnnamed = place.team === undefined
    if (verdict.failure && isUnnamed && listing.has(action)) return { places: [] }
    // Where there is no project yet, the role decides.
    if (!verdict.failure && verdict.places.length === 0) await requireWorkspace(ctx, path, action)
    if (!verdict.failure && action === 'share:write') requireSharing(snapshot.policy, leastShare)
    return verdict
  } catch (error) {
    return { places: [], failure: toRefusal(error) }
  }
}

/** Requests about a part of the workspace look for that part first; only new projects need their role before. */
const firstAsked = (action: ExplainedAction) =>
  levelOf(action) === 'workspace' || action === 'project:create' ? action : 'workspace:read'

function decideWithin(ctx: Context, access: Access, action: ExplainedAction, place: Place): Verdict {
  const { snapshot } = access
  const teams = place.team ? [place.team] : [...snapshot.teams.values()]
  if (action === 'project:create') return tryEach(teams, (team) => ({ team: requireTeamWithin(access, team.id) }))
  if (action === 'team:read' || action === 'team:write') {
    return tryEach(teams, ({ id }) => ({ team: requireTeamOf(ctx, access, id, action).team }))
  }
  if (!isProjectAction(action)) return { places: [] }
  const { project, environment } = place
  if (!project) {
    const projects = teams.flatMap((team) => team.projects)
    return tryEach(projects, ({ id }) => placeOf(snapshot, requireProjectOf(ctx, access, id, action).project))
  }
  if (levelOf(action) === 'project') {
    return tryEach([project], ({ id }) => placeOf(snapshot, requireProjectOf(ctx, access, id, action).project))
  }
  if (environment) return tryEach([environment], ({ id }) => environmentPlace(ctx, access, project, id, action))
  requireProjectOf(ctx, access, project.id, action)
  const { places } = tryEach(project.environments, ({ id }) => environmentPlace(ctx, access, project, id, action))
  return { places: places.length > 0 ? places : [placeOf(snapshot, project)] }
}

function environmentPlace(
  ctx: Context,
  access: Access,
  project: SnapshotProject,
  environmentId: string,
  action: ProjectAction,
): Place {
  // Requests about contents check their right in the project first, those about the environment look for it first.
  const first = action === 'environment:write' ? 'environment:read' : action
  const held = requireProjectOf(ctx, access, project.id, first)
  const { environment } = requireEnvironmentOf(ctx, held, environmentId, action)
  return { ...placeOf(access.snapshot, project), environment }
}

/** Fails if every candidate is refused; then a place that the actor sees tells more than one out of their reach. */
function tryEach<Candidate>(candidates: readonly Candidate[], ask: (candidate: Candidate) => Place): Verdict {
  const places: Place[] = []
  const failures: Failure[] = []
  for (const candidate of candidates) {
    try {
      places.push(ask(candidate))
    } catch (error) {
      failures.push(toRefusal(error))
    }
  }
  const failure = failures.find(({ status }) => status === 403) ?? failures[0]
  return failure && places.length === 0 ? { places, failure } : { places }
}

/** A storage that cannot be reached refuses nothing. */
function toRefusal(error: unknown): Failure {
  if (isFailure(error) && error.status < 500) return error
  throw error
}
