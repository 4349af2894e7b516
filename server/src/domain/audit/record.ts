/** Records audit events in the transaction of the change that they describe. They are written at its end (append.ts). */
import { newId } from '../../crypto/id.ts'
import { sharedFields } from '../../store/audit/batch.ts'
import { compactDetails, withActorVerified } from '../../store/audit/key-list.ts'
import type { Context, WriteContext } from '../context.ts'
import type { AuditEvent, Entry } from './event.ts'

/** Call inside the transaction of the change it records: both commit, or neither. */
export function record(ctx: WriteContext, event: AuditEvent): void {
  ctx.transaction.entries.push(toEntry(ctx, event))
}

/** Records the same act on several things, as one row of the trail. */
export function recordTogether(ctx: WriteContext, events: readonly AuditEvent[]): void {
  for (const event of events) {
    const { fields, ...entry } = toEntry(ctx, event)
    ctx.transaction.entries.push(events.length === 1 ? { ...entry, fields } : entry)
  }
}

export function toEntry(ctx: Context, event: AuditEvent): Entry & Required<Pick<Entry, 'fields'>> {
  const { actor, request } = ctx
  const { before, after, bases, environmentIds = [], chain } = event
  const { text, lists } = compactDetails({ before, after: withEnvironments(after, environmentIds) }, bases)
  const fields = describeEvent(ctx, event)
  const details = withActorVerified(text, actor.emailVerified)
  const own = { id: newId(), at: ctx.now(), requestId: request.id, details, lists }
  return { ...own, chain, fields, shared: sharedFields(fields) }
}

export function withEnvironments(after: Record<string, unknown> | undefined, environmentIds: readonly string[]) {
  if (environmentIds.length < 2) return after
  const distinct = new Set(environmentIds)
  return distinct.size > 1 ? { ...after, environmentIds: [...distinct] } : after
}

/** Actor, action, entity and origin of an event. */
export function describeEvent(ctx: Context, event: Omit<AuditEvent, 'before' | 'after'>) {
  const [only = null, ...others] = new Set(event.environmentIds)
  return {
    actorType: ctx.actor.type,
    actorId: ctx.actor.id,
    actorName: ctx.actor.name,
    action: event.action,
    entityType: event.entity.type,
    entityId: event.entity.id,
    entityName: event.entity.name,
    projectId: event.projectId ?? null,
    environmentId: event.environmentId ?? (others.length === 0 ? only : null),
    ip: ctx.request.ip,
    userAgent: ctx.request.userAgent,
    outcome: event.outcome ?? 'success',
  }
}
