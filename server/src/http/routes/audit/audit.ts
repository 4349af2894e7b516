import { Readable } from 'node:stream'
import { type AuditEntry, type AuditQuery, auditEndpoints } from '@coffer/contract/audit'
import type { WorkspacePath } from '@coffer/contract/field'
import { listAudit, streamAudit, verifyAudit } from '../../../domain/audit/trail.ts'
import type { Context } from '../../../domain/context.ts'
import type { Reply } from '../../exchange.ts'
import { type Routes, sendPage } from '../../route.ts'

export const auditRoutes: Routes = (serve) => {
  serve(auditEndpoints.listAudit, async ({ ctx, params, query }, reply) =>
    query.format === 'ndjson' ? sendStream(ctx, params, query, reply) : sendSearch(ctx, params, query, reply),
  )
  serve(auditEndpoints.verifyAudit, ({ ctx, params }) => verifyAudit(ctx, params))
}

/** A search may end before its time, and says how far it has looked. */
async function sendSearch(ctx: Context, params: WorkspacePath, query: AuditQuery, reply: Reply) {
  const page = await listAudit(ctx, params, query)
  if (page.searchedTo !== undefined) reply.header('x-searched-to', page.searchedTo)
  return sendPage(reply, page)
}

/** Awaits the first entries before sending anything, so that a refusal can still become an error response. */
async function sendStream(ctx: Context, params: WorkspacePath, query: AuditQuery, reply: Reply) {
  const entries = streamAudit(ctx, params, query)
  const first = await entries.next()
  reply.header('content-type', 'application/x-ndjson')
  return reply.send(Readable.from(toLines(first, entries)))
}

type Group = readonly AuditEntry[]

async function* toLines(first: IteratorResult<Group>, rest: AsyncGenerator<Group>): AsyncGenerator<string> {
  if (first.done) return
  yield linesOf(first.value)
  for await (const group of rest) yield linesOf(group)
}

const linesOf = (group: Group) => group.map((entry) => `${JSON.stringify(entry)}\n`).join('')
