/** Reads the audit trail: pages newest first, a stream of all entries, and the verification of its chain. */
import type { AuditEntry, AuditQuery, AuditVerdict } from '@coffer/contract/audit'
import type { WorkspacePath } from '@coffer/contract/field'
import { yieldToEventLoop } from '../../event-loop.ts'
import { Failure, invalid } from '../../failure.ts'
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
import { iso } from '../time.ts'
import { verifyChain } from './verify.ts'

/** Characters of details per page. A page with very large entries is shorter, but always holds at least one. */
const maxPageLength = 8 * 1024 * 1024

export async function listAudit(ctx: Context, path: WorkspacePath, query: AuditQuery): Promise<Page<AuditEntry>> {
  const { snapshot } = await requireWorkspace(ctx, path, 'audit:read')
  const chain = snapshot.workspace.id
  const filter = await toFilter(ctx, snapshot, query)
  const limit = query.limit ?? defaultPageLength
  const head = await ctx.store.audit.findHead(chain)
  const newest = head?.sequence ?? 0
  const removed = head?.cutSequence ?? 0
  let upTo = query.cursor === undefined ? newest : Math.min(newest, decodeCursor(query.cursor) - 1)
  const readDetails = detailsReader(ctx, chain)
  const items: AuditEntry[] = []
  let length = 0
  let hasMore = false
  while (upTo > removed && !hasMore) {
    const stretch = await ctx.store.audit.stretchUpTo(chain, upTo)
    const rows = await ctx.store.audit.searchStretch(chain, stretch, filter, readDetails, limit + 1 - items.length)
    for (const row of rows) {
      const details = await readDetails(row.details)
      length += details.length
      hasMore = items.length === limit || (length > maxPageLength && items.length > 0)
      if (hasMore) break
      items.push(toEntry(row, details))
    }
    upTo = stretch.after
    await yieldToEventLoop()
  }
  const last = items.at(-1)
  return { items, nextCursor: hasMore && last ? encodeCursor(last.sequence) : undefined }
}

export const detailsReader = ({ store }: Pick<Context, 'store'>, chain: string) =>
  createDetailsReader((digest) => store.audit.findList(chain, digest))

/** All matching entries, oldest first, up to the head at the start of the stream. */
export async function* streamAudit(ctx: Context, path: WorkspacePath, query: AuditQuery): AsyncGenerator<AuditEntry> {
  const { snapshot } = await requireWorkspace(ctx, path, 'audit:read')
  const chain = snapshot.workspace.id
  const filter = await toFilter(ctx, snapshot, query)
  const readDetails = detailsReader(ctx, chain)
  const head = await ctx.store.audit.findHead(chain)
  const end = head?.sequence ?? 0
  for (let after = head?.cutSequence ?? 0; after < end; ) {
    const stretch = await ctx.store.audit.stretchAfter(chain, after, end)
    const rows = await ctx.store.audit.searchStretch(chain, stretch, filter, readDetails, stretch.upTo - after)
    for (const row of rows.reverse()) {
      yield toEntry(row, await readDetails(row.details))
      // The reader decides how long each takes.
      await confirmOngoing(ctx)
    }
    after = stretch.upTo
  }
}

export async function verifyAudit(ctx: Context, path: WorkspacePath): Promise<AuditVerdict> {
  const { snapshot } = await requireWorkspace(ctx, path, 'audit:read')
  return verifyChain(ctx, snapshot.workspace.id)
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
