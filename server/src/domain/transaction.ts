/** Transactions with their audit entries, and the change log that tells every node which cached data is stale. */
import { headRows } from '../store/audit/head.ts'
import { type ChangeSubject, readEnvironmentSubject } from '../store/change.ts'
import type { JointWork, Transaction } from '../store/engine/sql.ts'
import { type Store, storeOver } from '../store/store.ts'
import { confirmEach, confirmWithin } from './access/confirm.ts'
import { lockChain } from './audit/chain.ts'
import type { AuditEvent } from './audit/event.ts'
import { recordAll } from './audit/record.ts'
import { invalidate } from './cache/invalidation.ts'
import type { Context, Services, WriteContext } from './context.ts'
import { releaseSlot } from './slot.ts'

/**
 * Runs one transaction over the given audit chains: that of the changed workspace, and of others that record the event.
 * The chains are locked first, in sorted order, so that transactions cannot deadlock; then the caller's rights are
 * checked again under the locks. Work that needs a large-write slot rolls back while it waits.
 */
export async function inTransaction<Result>(
  ctx: Context,
  chains: string | readonly string[],
  work: (ctx: WriteContext) => Promise<Result>,
): Promise<Result> {
  const sorted = typeof chains === 'string' ? [chains] : [...new Set(chains)].sort()
  try {
    const enter = async (transaction: Transaction) => {
      const inside = await enterTransaction(ctx, transaction, sorted)
      await confirmWithin(inside)
      return work(inside)
    }
    const result = await ctx.engine.transaction(sorted.join(), enter, headRows(sorted))
    ctx.run.hasCommitted = true
    return result
  } finally {
    releaseSlot(ctx, ctx.slots.largeWrite)
  }
}

/** Locks the chains. The caller must still confirm the rights of each actor. */
export async function enterTransaction(
  ctx: Context,
  transaction: Transaction,
  chains: readonly string[],
): Promise<WriteContext> {
  const inside = { ...ctx, store: storeOver(transaction.db, ctx.keys), transaction }
  for (const chain of chains) await lockChain(inside, chain)
  return inside
}

/** Records an event without a change, such as a token exchange. Concurrent events of one chain share an audit row. */
export function recordAct(ctx: Context, event: AuditEvent): Promise<void> {
  const { chain } = event
  return ctx.engine.joinTransaction(chain, chain, { ctx, event }, recordTogether, headRows([chain]))
}

const recordTogether: JointWork<{ ctx: Context; event: AuditEvent }, void> = async (transaction, asked) => {
  const [first] = asked
  if (!first) return []
  const store = storeOver(transaction.db, first.ctx.keys)
  const callers = asked.map(({ ctx }) => ctx)
  const confirmed = await confirmEach(callers, store)
  const acts = asked.filter((_, index) => confirmed[index]?.status === 'fulfilled')
  if (acts.length > 0) await recordAll(acts.map(({ ctx, event }) => ({ ctx: { ...ctx, store, transaction }, event })))
  return confirmed
}

/** For bookkeeping without an actor or audit entry, such as counters and times of last use. */
export function inQuietTransaction<Result>(
  services: Pick<Services, 'engine' | 'keys'>,
  lock: string,
  work: (store: Store) => Promise<Result>,
): Promise<Result> {
  return services.engine.transaction(lock, ({ db }) => work(storeOver(db, services.keys)))
}

/** Tells every node to drop its cached data about the subject: this node at the commit, others within a second. */
export function announce(ctx: WriteContext, subject: ChangeSubject, subjectId: string): void {
  const { transaction } = ctx
  const name = `change:${subject}:${subjectId}`
  if (transaction.scratch.has(name)) return
  transaction.scratch.set(name, true)
  transaction.afterEnd.push(ctx.pendingChanges.begin(subject, subjectId))
  transaction.afterCommit.push(() => invalidate(ctx, subject, subjectId))
  // Written just before the commit: a dry run or refused write would use up numbers that every node then waits for.
  transaction.beforeCommit.set(name, () => ctx.store.changes.append(subject, subjectId, ctx.now()))
  // Syncs depend on the values and on the rights of the person who set them up, so both kinds of change make them due.
  const { syncs } = ctx.store
  if (subject === 'environment')
    transaction.later(syncs.wake(readEnvironmentSubject(subjectId).environmentId, ctx.now()))
  if (subject === 'workspace') transaction.later(syncs.wakeAll(subjectId, ctx.now()))
}
