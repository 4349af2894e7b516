/** What is written into the audit trail: a change, together with the transaction that makes it. */
import type { AuditAction } from '@coffer/contract/audit'
import { newId } from '../crypto/id.ts'
import { type AuditRow, canonicalEntry, hashEntry } from '../store/audit-entry.ts'
import { extendChain, lockChain, orNothing } from './audit-chain.ts'
import type { Context, WriteContext } from './context.ts'

export type AuditEvent = {
  readonly chain: string
  readonly action: AuditAction
  readonly entity: { readonly type: string; readonly id: string; readonly name: string }
  readonly projectId?: string
  readonly environmentId?: string
  readonly outcome?: 'success' | 'failure'
  readonly before?: Record<string, unknown>
  readonly after?: Record<string, unknown>
}

const maxUserAgentLength = 256

/** Call inside the transaction of the change it records: both commit, or neither. */
export async function record(ctx: WriteContext, event: AuditEvent): Promise<void> {
  await recordAll([{ ctx, event }])
}

/** What several have done within one transaction to one workspace, in this order. */
export async function recordAll(
  acts: readonly { readonly ctx: WriteContext; readonly event: AuditEvent }[],
): Promise<void> {
  const [first] = acts
  if (!first) return
  const { chain } = first.event
  const head = await lockChain(first.ctx, chain)
  let { sequence, hash } = head
  const rows = acts.map(({ ctx, event }): AuditRow => {
    const unhashed = {
      ...describeEvent(ctx, event),
      chainId: chain,
      sequence: ++sequence,
      id: newId(),
      at: ctx.now(),
      requestId: ctx.request.id,
      details: JSON.stringify({ before: event.before, after: event.after }),
    }
    hash = hashEntry(hash, canonicalEntry(unhashed))
    return { ...unhashed, hash }
  })
  await orNothing(first.ctx, () => first.ctx.store.audit.insert(rows))
  extendChain(first.ctx, chain, { ...head, sequence, hash })
}

/** Who did what to which thing, from where. */
export function describeEvent(ctx: Context, event: Omit<AuditEvent, 'before' | 'after'>) {
  return {
    actorType: ctx.actor.type,
    actorId: ctx.actor.id,
    actorName: ctx.actor.name,
    action: event.action,
    entityType: event.entity.type,
    entityId: event.entity.id,
    entityName: event.entity.name,
    projectId: event.projectId ?? null,
    environmentId: event.environmentId ?? null,
    ip: ctx.request.ip,
    userAgent: ctx.request.userAgent.slice(0, maxUserAgentLength),
    outcome: event.outcome ?? 'success',
  }
}
