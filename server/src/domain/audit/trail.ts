/** Reads the audit trail: pages newest first, a stream of all entries, and the verification of its chain. */
import type { AuditEntry, AuditQuery, AuditVerdict } from '@coffer/contract/audit'
import type { WorkspacePath } from '@coffer/contract/field'
import { Failure, invalid } from '../../failure.ts'
import type { Work } from '../../long-work.ts'
import type { Stretch } from '../../store/audit/audit.ts'
import type { AuditRow } from '../../store/audit/entry.ts'
import { createDetailsReader, type Details } from '../../store/audit/key-list.ts'
import type { AuditFilter, SoughtEntity, SoughtEnvironment } from '../../store/audit/search.ts'
import { requireWorkspace } from '../access/access.ts'
import { confirmOngoing } from '../access/confirm.ts'
import type { SnapshotEnvironment, WorkspaceSnapshot } from '../cache/workspace-snapshot.ts'
import type { Context } from '../context.ts'
import { decodeCursor, encodeCursor } from '../cursor.ts'
import { isId } from '../id.ts'
import { defaultPageLength, type Page } from '../page.ts'
import { inAuditSlot, inAuditSlots } from '../slot.ts'
import { iso } from '../time.ts'
import { narrowToPeriod } from './period.ts'
import { verifyChain } from './verify.ts'

/** Characters of details per page. A page with very large entries is shorter, but always holds at least one. */
const maxPageLength = 8 * 1024 * 1024

/** A search that takes longer answers with what it has found, and with the cursor to go on. */
const maxSearchMs = 250

type AuditPage = Page<AuditEntry> & {
  /** The time of the oldest entry that was looked at. */
  readonly searchedTo: string | undefined
}

export async function listAudit(ctx: Context, path: WorkspacePath, query: AuditQuery): Promise<AuditPage> {
  const { snapshot } = await requireWorkspace(ctx, path, 'audit:read')
  const filter = await toFilter(ctx, snapshot, query)
  const before = query.cursor === undefined ? undefined : decodeCursor(query.cursor)
  return inAuditSlot(ctx, (work) => search(ctx, snapshot.workspace.id, { filter, before, limit: query.limit }, work))
}

type Search = { readonly filter: AuditFilter; readonly before: number | undefined; readonly limit: number | undefined }

async function search(
  ctx: Context,
  chain: string,
  { filter, before = Number.POSITIVE_INFINITY, limit = defaultPageLength }: Search,
  work: Work,
): Promise<AuditPage> {
  const { audit } = ctx.store
  const period = await narrowToPeriod(ctx, chain, await wholeTrail(ctx, chain), filter, work)
  let upTo = Math.min(period.upTo, before - 1)
  const readDetails = detailsReader(ctx, chain)
  const items: AuditEntry[] = []
  let length = 0
  let isFull = false
  const isOver = () => isFull || upTo <= period.after
  while (!isOver()) {
    const stretch = await audit.stretchUpTo(chain, upTo)
    const after = Math.max(stretch.after, period.after)
    const most = limit + 1 - items.length
    for (const row of await audit.searchStretch(chain, { after, upTo }, filter, readDetails, most, work.giveWay)) {
      const details = await readDetails(row.details)
      length += details.length
      isFull = items.length === limit || (length > maxPageLength && items.length > 0)
      if (isFull) break
      items.push(toEntry(row, details))
    }
    upTo = after
    if (work.workedMs() >= maxSearchMs || ctx.request.hasHungUp()) break
    await work.giveWay()
  }
  const last = items.at(-1)
  if (isFull && last) return { items, nextCursor: encodeCursor(last.sequence), searchedTo: last.at }
  const searchedTo = await audit.findTime(chain, upTo + 1)
  return {
    items,
    nextCursor: isOver() ? undefined : encodeCursor(upTo + 1),
    searchedTo: searchedTo === undefined ? undefined : iso(searchedTo),
  }
}

async function wholeTrail({ store }: Context, chain: string): Promise<Stretch> {
  const head = await store.audit.findHead(chain)
  return { after: head?.cutSequence ?? 0, upTo: head?.sequence ?? 0 }
}

export const detailsReader = ({ store }: Pick<Context, 'store'>, chain: string) =>
  createDetailsReader((digest) => store.audit.findList(chain, digest))

/** Limits of what is made of a stream at once: entries, and characters of their details. */
const maxGroupLength = 50
const maxGroupText = 256 * 1024

/**
 * All matching entries, oldest first, up to the head at the start of the stream, in groups: each is made in a turn of its
 * own.
 */
export async function* streamAudit(
  ctx: Context,
  path: WorkspacePath,
  query: AuditQuery,
): AsyncGenerator<readonly AuditEntry[]> {
  const { snapshot } = await requireWorkspace(ctx, path, 'audit:read')
  const chain = snapshot.workspace.id
  const filter = await toFilter(ctx, snapshot, query)
  const readDetails = detailsReader(ctx, chain)
  const whole = await wholeTrail(ctx, chain)
  let { after, upTo: end } = await inAuditSlot(ctx, (work) => narrowToPeriod(ctx, chain, whole, filter, work))
  while (after < end) {
    const rows = await inAuditSlot(ctx, async (work) => {
      const stretch = await ctx.store.audit.stretchAfter(chain, after, end)
      after = stretch.upTo
      const length = stretch.upTo - stretch.after
      return ctx.store.audit.searchStretch(chain, stretch, filter, readDetails, length, work.giveWay)
    })
    for (const oldestFirst = rows.reverse(); oldestFirst.length > 0; ) {
      yield await takeGroup(oldestFirst, readDetails)
      // The reader decides how long each takes.
      await confirmOngoing(ctx)
      await ctx.longWork.start()
    }
    if (ctx.request.hasHungUp()) throw new Failure('unavailable')
  }
}

/** Takes the first entries out of the rows: their details may take a hundred times as much memory. */
async function takeGroup(rows: AuditRow[], readDetails: ReturnType<typeof detailsReader>): Promise<AuditEntry[]> {
  const group: AuditEntry[] = []
  for (let length = 0; group.length < maxGroupLength && length < maxGroupText; ) {
    const row = rows.shift()
    if (!row) break
    const details = await readDetails(row.details)
    length += details.length
    group.push(toEntry(row, details))
  }
  return group
}

export async function verifyAudit(ctx: Context, path: WorkspacePath): Promise<AuditVerdict> {
  const { snapshot } = await requireWorkspace(ctx, path, 'audit:read')
  return inAuditSlots(ctx, (longWork) => verifyChain({ ...ctx, longWork }, snapshot.workspace.id))
}

export function toEntry(row: AuditRow, { before, after, actorVerified }: Details): AuditEntry {
  return {
    id: row.id,
    sequence: row.sequence,
    at: iso(row.at),
    actor: { type: row.actorType, id: row.actorId, name: row.actorName },
    action: row.action,
    entity: { type: row.entityType, id: row.entityId, name: row.entityName },
    projectId: row.projectId,
    environmentId: row.environmentId,
    ip: row.ip,
    userAgent: row.userAgent,
    requestId: row.requestId,
    outcome: row.outcome === 'failure' ? 'failure' : 'success',
    ...(before && { before }),
    ...(after && { after }),
    ...(actorVerified !== undefined && { details: { actorVerified } }),
    hash: row.hash,
  }
}

async function toFilter(ctx: Context, snapshot: WorkspaceSnapshot, query: AuditQuery): Promise<AuditFilter> {
  const project = query.project === undefined ? undefined : findProject(snapshot, query.project)
  return {
    actor: query.actor === undefined ? null : foldId(query.actor),
    action: query.action?.toUpperCase() ?? null,
    entity: query.entity === undefined ? null : await toEntity(ctx, snapshot, foldId(query.entity)),
    project: project?.id ?? null,
    environment: query.environment === undefined ? null : toEnvironment(snapshot, query.environment, project),
    from: readMoment('from', query.from),
    to: readMoment('to', query.to),
    text: query.q ?? null,
  }
}

const foldId = (text: string) => (isId(text) ? text.toLowerCase() : text)

type SoughtProject = { readonly id: string; readonly environments?: readonly SnapshotEnvironment[] }

/** Deleted projects are known by id only: an unknown id finds nothing, an unknown name is refused. */
function findProject({ projects, projectsBySlug }: WorkspaceSnapshot, idOrSlug: string): SoughtProject {
  const folded = idOrSlug.toLowerCase()
  const found = projectsBySlug.get(folded) ?? projects.get(folded) ?? (isId(folded) ? { id: folded } : undefined)
  if (!found) throw new Failure('notFound', 'project: no project has this name; use the id for a deleted one.')
  return found
}

function toEnvironment(
  snapshot: WorkspaceSnapshot,
  idOrName: string,
  project: SoughtProject | undefined,
): SoughtEnvironment {
  const folded = idOrName.toLowerCase()
  const named = project?.environments?.find(({ name }) => name.toLowerCase() === folded)
  const found = snapshot.environments.get(folded) ?? named
  const owner = found && snapshot.projects.get(found.projectId)
  if (owner) return { id: found.id, known: { projectId: owner.id, slug: owner.slug, name: found.name } }
  if (isId(folded)) return { id: folded }
  if (!project) throw invalid('environment', 'must be an id, or a name together with its project.')
  throw new Failure(
    'notFound',
    'environment: no environment of the project has this name; use the id for a deleted one.',
  )
}

async function toEntity(ctx: Context, { workspace, projects }: WorkspaceSnapshot, text: string): Promise<SoughtEntity> {
  const secret = isId(text) ? await ctx.store.secrets.findNames(text, workspace.id) : undefined
  return { text, secret: secret && { ...secret, slug: projects.get(secret.projectId)?.slug ?? '' } }
}

/** The schema accepts some values that Date cannot parse, such as a leap second or a space for the T. */
function readMoment(field: string, text: string | undefined): number | null {
  if (text === undefined) return null
  const at = Date.parse(text)
  if (Number.isNaN(at)) throw invalid(field, 'must be an ISO 8601 date and time.')
  return at
}
