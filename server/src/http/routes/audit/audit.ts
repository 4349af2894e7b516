import { Readable } from 'node:stream'
import { type AuditEntry, type AuditQuery, auditEndpoints } from '@coffer/contract/audit'
import type { WorkspacePath } from '@coffer/contract/field'
import { listAudit, streamAudit, verifyAudit } from '../../../domain/audit/trail.ts'
import type { Context } from '../../../domain/context.ts'
import type { Reply } from '../../exchange.ts'
import { type Routes, sendPage } from '../../route.ts'

export const auditRoutes: Routes = (serve) => {
  serve(auditEndpoints.listAudit, async ({ ctx, params, query }, reply) =>
    query.format === 'ndjson'
      ? sendStream(ctx, params, query, reply)
      : sendPage(reply, await listAudit(ctx, params, query)),
  )
  serve(auditEndpoints.verifyAudit, ({ ctx, params }) => verifyAudit(ctx, params))
}

/** Awaits the first entry before sending anything, so that a refusal can still become an error response. */
async function sendStream(ctx: Context, params: WorkspacePath, query: AuditQuery, reply: Reply) {
  const entries = streamAudit(ctx, params, query)
  const first = await entries.next()
  reply.header('content-type', 'application/x-ndjson')
  return reply.send(Readable.from(toLines(first, entries)))
}

async function* toLines(first: IteratorResult<AuditEntry>, rest: AsyncGenerator<AuditEntry>): AsyncGenerator<string> {
  if (first.done) return
  yield `${JSON.stringify(first.value)}\n`
  for await (const entry of rest) yield `${JSON.stringify(entry)}\n`
}
