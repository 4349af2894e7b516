/** Everybody with access to a workspace, and their right at each environment. */
import type { AccessActor, AccessQuery, AccessRow } from '@coffer/contract/access'
import type { WorkspacePath } from '@coffer/contract/field'
import { createPause } from '../../long-work.ts'
import { ownerOf } from '../../store/owner.ts'
import { type Access, accessTo, inRole, requireWorkspace } from '../access/access.ts'
import { credentialPermission, grantOf } from '../actor.ts'
import type { SnapshotProject, WorkspaceSnapshot } from '../cache/workspace-snapshot.ts'
import type { Context } from '../context.ts'
import { decodeTypedCursor, encodeCursor } from '../cursor.ts'
import { toRights } from '../grant.ts'
import { defaultPageLength, type Page } from '../page.ts'
import { reachesEnvironment, toScopeSet } from '../scope.ts'
import { requirePlace } from './place.ts'
import { findPolicyProblem } from './policy.ts'
import { asSentence } from './sentence.ts'
import { asSubject, isPending, ofIdentity, ofInvite, ofPrincipal, ofToken, type Subject } from './subject.ts'

/** Bounds the work and the size of a page: pages of a workspace with many environments have fewer rows. */
const maxCells = 20_000
/** Cells that take about a millisecond. */
const cellsPerLook = 1_000

const types = ['user', 'service', 'token', 'oidc'] as const

/**
 * People and pending invites, then service accounts, tokens and identities, each by id. A page may hold fewer rows than
 * its limit.
 */
export async function listAccess(ctx: Context, path: WorkspacePath, query: AccessQuery): Promise<Page<AccessRow>> {
  const { snapshot } = await requireWorkspace(ctx, path, 'access:read')
  const { project } = requirePlace(snapshot, query.project === undefined ? {} : { project: query.project })
  const projects = project ? [project] : [...snapshot.projects.values()]
  const cells = projects.reduce((sum, { environments }) => sum + environments.length, 0)
  const limit = Math.min(query.limit ?? defaultPageLength, Math.max(1, Math.floor(maxCells / Math.max(1, cells))))
  const subjects = await listSubjects(ctx, snapshot, query, limit + 1)
  const page = subjects.slice(0, limit)
  const last = subjects.length > limit ? page.at(-1)?.shown : undefined
  const rows: Row[] = []
  const isPause = createPause(cellsPerLook, 1)
  for (const subject of page) {
    rows.push(toRow(ctx, snapshot, projects, subject))
    if (isPause(cells)) await ctx.longWork.giveWay()
  }
  return {
    items: rows.flatMap(({ row, isConcerned }) => (project && !isConcerned ? [] : [row])),
    nextCursor: last && encodeCursor(`${last.type}:${last.id}`),
  }
}

async function listSubjects(
  ctx: Context,
  snapshot: WorkspaceSnapshot,
  query: AccessQuery,
  limit: number,
): Promise<Subject[]> {
  const from = query.cursor === undefined ? undefined : decodeTypedCursor(query.cursor, types)
  const accounts = await ctx.store.accounts.listOfWorkspace(snapshot.workspace.id)
  const accountOf = new Map(accounts.map((account) => [account.id, account]))
  const holders = new Map(
    snapshot.principals.entries().map(([id, principal]) => [id, ofPrincipal(ctx, principal, accountOf.get(id))]),
  )
  const found: Subject[] = []
  for (const type of types.slice(from ? types.indexOf(from.type) : 0)) {
    const after = from?.type === type ? from.id : ''
    const isWanted = query.type === undefined || query.type === type
    if (isWanted && found.length < limit) {
      found.push(...(await listOfType(ctx, snapshot, holders, { type, after, limit: limit - found.length })))
    }
  }
  return found
}

type Part = { readonly type: AccessActor['type']; readonly after: string; readonly limit: number }

async function listOfType(
  ctx: Context,
  { workspace }: WorkspaceSnapshot,
  holders: ReadonlyMap<string, Subject>,
  { type, after, limit }: Part,
): Promise<Subject[]> {
  const { tokens, oidc, invites } = ctx.store
  if (type === 'token') {
    const living = await tokens.listLiving(workspace.id, ctx.now(), { after, limit })
    return living.map((token) => ofToken(ctx, token, holders.get(ownerOf(token))))
  }
  const all = holders
    .values()
    .filter(({ shown }) => shown.type === type)
    .toArray()
  if (type === 'oidc') all.push(...(await oidc.list(workspace.id)).filter(({ enabled }) => enabled).map(ofIdentity))
  if (type === 'user') {
    const pending = (await invites.list(workspace.id)).filter((invite) => isPending(ctx, invite))
    all.push(...pending.map(ofInvite))
  }
  const sorted = all.filter(({ shown }) => shown.id > after).sort((a, b) => (a.shown.id < b.shown.id ? -1 : 1))
  return sorted.slice(0, limit)
}

type Row = {
  readonly row: AccessRow
  /** Whether the actor reaches one of the environments, or would without its problem. */
  readonly isConcerned: boolean
}

function toRow(ctx: Context, snapshot: WorkspaceSnapshot, projects: readonly SnapshotProject[], subject: Subject): Row {
  const { shown, owner, isOwner, refusal } = subject
  const because = refusal?.because ?? findPolicyProblem(ctx, snapshot, subject)
  const problem = because === undefined ? null : asSentence(because)
  const access = problem === null ? accessTo(asSubject(ctx, subject), snapshot) : undefined
  const environments = access ? rightsAt(subject, access, projects) : []
  const isConcerned = problem === null ? environments.length > 0 : wouldReach(subject, projects)
  const { credential } = subject.actor
  const marked = 'token' in credential && credential.token.mayAdminister
  const row = { actor: shown, ownerName: owner?.name ?? null, isOwner, mayAdminister: marked, problem, environments }
  return { row, isConcerned }
}

function wouldReach({ grants, actor }: Subject, projects: readonly SnapshotProject[]): boolean {
  const limit = grantOf(actor.credential)
  const reach = [...(grants ? [toRights(grants).member] : []), ...(limit ? [toScopeSet(limit.scope)] : [])]
  return projects.some((project) => project.environments.some((one) => reachesEnvironment(reach, project, one)))
}

function rightsAt(subject: Subject, access: Access, projects: readonly SnapshotProject[]): AccessRow['environments'] {
  const mayWrite = credentialPermission(subject.actor.credential) === 'read-write'
  const [developer, admin] = [inRole(access, 'developer').reach, inRole(access, 'admin').reach]
  return projects.flatMap((project) =>
    project.environments.flatMap((environment) => {
      if (!reachesEnvironment(access.reach, project, environment)) return []
      const isDeveloper = mayWrite && reachesEnvironment(developer, project, environment)
      const isAdmin = isDeveloper && reachesEnvironment(admin, project, environment)
      const right = isAdmin ? 'admin' : isDeveloper ? 'write' : 'read'
      return [{ projectId: project.id, environmentId: environment.id, right } as const]
    }),
  )
}
