/** Writes audit entries, in the transaction of the change that they describe. */
import { newId } from '../../crypto/id.ts'
import { type BatchEntry, composeBatch, sharedFields } from '../../store/audit/batch.ts'
import { canonicalEntry, hashEntry } from '../../store/audit/entry.ts'
import { type CompactDetails, compactDetails, withActorVerified } from '../../store/audit/key-list.ts'
import type { Context, WriteContext } from '../context.ts'
import { type ChainContext, type ChainHead, extendChain, lockChain, orNothing } from './chain.ts'
import type { AuditEvent } from './event.ts'
import { storeLists } from './key-list.ts'

type Act = { readonly ctx: WriteContext; readonly event: AuditEvent }

/** Call inside the transaction of the change it records: both commit, or neither. */
export async function record(ctx: WriteContext, event: AuditEvent): Promise<void> {
  await recordAll([{ ctx, event }])
}

/** Records several events of one transaction in one chain, in this order. */
export async function recordAll(acts: readonly Act[]): Promise<void> {
  const [first] = acts
  if (!first) return
  const { ctx, event } = first
  const head = await lockChain(ctx, event.chain)
  const recorded = await (acts.length === 1 ? insertOne(first, head) : insertActs(first, acts, head))
  extendChain(ctx, event.chain, { ...head, ...recorded })
}

type Recorded = Pick<ChainHead, 'sequence' | 'hash'>

async function insertOne({ ctx, event }: Act, head: ChainHead): Promise<Recorded> {
  const sequence = head.sequence + 1
  const { text: details, lists } = detailsOf(ctx, event)
  await orNothing(ctx, () => storeLists(ctx, event.chain, head, sequence, lists))
  const own = { chainId: event.chain, sequence, id: newId(), at: ctx.now(), requestId: ctx.request.id, details }
  const unhashed = { ...describeEvent(ctx, event), ...own }
  const hash = hashEntry(head.hash, canonicalEntry(unhashed))
  ctx.transaction.later(orNothing(ctx, () => ctx.store.audit.insert({ ...unhashed, hash })))
  return { sequence, hash }
}

async function insertActs(first: Act, acts: readonly Act[], head: ChainHead): Promise<Recorded> {
  const entries = acts.map(({ ctx, event }): BatchEntry => {
    const shared = sharedFields(describeEvent(ctx, event))
    const { text: details, lists } = detailsOf(ctx, event)
    return { id: newId(), at: ctx.now(), requestId: ctx.request.id, shared, details, lists }
  })
  return insertBatch(first.ctx, first.event.chain, head, entries)
}

async function insertBatch(
  ctx: ChainContext,
  chain: string,
  head: ChainHead,
  entries: readonly BatchEntry[],
): Promise<Recorded> {
  const row = composeBatch(chain, head, entries)
  const lists = new Set(entries.flatMap((entry) => entry.lists))
  await orNothing(ctx, () => storeLists(ctx, chain, head, row.lastSequence, lists))
  ctx.transaction.later(orNothing(ctx, () => ctx.store.audit.insertBatch(row)))
  return { sequence: row.lastSequence, hash: row.hash }
}

/** Appends prepared entries as one link of the chain. Call inside a transaction that holds the lock of this chain. */
export async function appendBatch(ctx: ChainContext, chain: string, entries: readonly BatchEntry[]): Promise<void> {
  const head = await lockChain(ctx, chain)
  extendChain(ctx, chain, { ...head, ...(await insertBatch(ctx, chain, head, entries)) })
}

function detailsOf({ actor }: Context, { before, after, bases, environmentIds = [] }: AuditEvent): CompactDetails {
  const { text, lists } = compactDetails({ before, after: withEnvironments(after, environmentIds) }, bases)
  return { text: withActorVerified(text, actor.emailVerified), lists }
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
