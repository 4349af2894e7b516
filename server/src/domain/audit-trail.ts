/** The reading of the audit trail: pages newest first, a stream of everything, and the check of its chain. */
import type { AuditEntry, AuditQuery, AuditVerdict } from '@coffer/contract/audit'
import type { WorkspacePath } from '@coffer/contract/field'
import { invalid } from '../failure.ts'
import type { AuditFilter } from '../store/audit.ts'
import type { AuditRow } from '../store/audit-entry.ts'
import { requireWorkspace } from './access.ts'
import { verifyChain } from './audit-chain.ts'
import type { Context } from './context.ts'
import { decodeCursor } from './cursor.ts'
import { defaultPageLength, type Page, pageOf } from './page.ts'
import { iso } from './time.ts'

const stretchLength = 2_000

export async function listAudit(ctx: Context, path: WorkspacePath, query: AuditQuery): Promise<Page<AuditEntry>> {
  const { picture } = await requireWorkspace(ctx, path, 'audit:read')
  const chain = picture.workspace.id
  const filter = toFilter(query, picture.projectsBySlug.get(query.project ?? '')?.id)
  const limit = query.limit ?? defaultPageLength
  const head = await ctx.store.audit.findHead(chain)
  const newest = head?.sequence ?? 0
  let upTo = query.cursor === undefined ? newest : Math.min(newest, decodeCursor(query.cursor) - 1)
  const rows: AuditRow[] = []
  while (upTo > 0 && rows.length <= limit) {
    const after = Math.max(0, upTo - stretchLength)
    rows.push(...(await ctx.store.audit.searchStretch(chain, { after, upTo }, filter, limit + 1 - rows.length)))
    upTo = after
    await new Promise((resolve) => setImmediate(resolve))
  }
  return pageOf(rows, limit, { item: toEntry, position: ({ sequence }) => sequence })
}

/** Every entry that matches, oldest first, as it stood at the start. */
export async function* streamAudit(ctx: Context, path: WorkspacePath, query: AuditQuery): AsyncGenerator<AuditEntry> {
  const { picture } = await requireWorkspace(ctx, path, 'audit:read')
  const chain = picture.workspace.id
  const filter = toFilter(query, picture.projectsBySlug.get(query.project ?? '')?.id)
  const end = (await ctx.store.audit.findHead(chain))?.sequence ?? 0
  for (let after = 0; after < end; after += stretchLength) {
    const stretch = { after, upTo: Math.min(after + stretchLength, end) }
    const rows = await ctx.store.audit.searchStretch(chain, stretch, filter, stretchLength)
    for (const row of rows.reverse()) yield toEntry(row)
  }
}

export async function verifyAudit(ctx: Context, path: WorkspacePath): Promise<AuditVerdict> {
  const { picture } = await requireWorkspace(ctx, path, 'audit:read')
  return verifyChain(ctx, picture.workspace.id)
}

function toEntry(row: AuditRow): AuditEntry {
  const details: { before?: Record<string, unknown>; after?: Record<string, unknown> } = JSON.parse(row.details)
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
    ...details,
    hash: row.hash,
  }
}

function toFilter(query: AuditQuery, projectId: string | undefined): AuditFilter {
  return {
    actor: query.actor ?? null,
    action: query.action?.toUpperCase() ?? null,
    entity: query.entity ?? null,
    project: projectId ?? query.project ?? null,
    environment: query.environment ?? null,
    from: readMoment('from', query.from),
    to: readMoment('to', query.to),
    text: query.q?.toLowerCase() ?? null,
  }
}

/** The form is checked by the schema, which lets pass what Date does not read: a leap second, a space for the T. */
function readMoment(field: string, text: string | undefined): number | null {
  if (text === undefined) return null
  const at = Date.parse(text)
  if (Number.isNaN(at)) throw invalid(field, 'must be an ISO 8601 date and time.')
  return at
}
