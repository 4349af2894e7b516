/** Changes: one transaction with its audit entries, and the word to every node that something is no longer as it was. */
import type { ChangeSubject } from '../store/change.ts'
import type { JointWork, Transaction } from '../store/engine/sql.ts'
import { type Store, storeOver } from '../store/store.ts'
import { confirmEach, confirmWithin } from './access/confirm.ts'
import { lockChain } from './audit/chain.ts'
import { type AuditEvent, recordAll } from './audit/record.ts'
import type { Context, Services, WriteContext } from './context.ts'
import { releaseSlot } from './slot.ts'

/**
 * One transaction over the given audit chains: the workspace that is changed, and others that must know. They are
 * locked first and in one order, so that writers of one workspace take turns and nobody waits in a circle. The rights of
 * the caller are confirmed under the locks. Work that needs a slot for large writes gives the transaction up while it waits.
 */
export async function inTransaction<Result>(
  ctx: Context,
  chains: string | readonly string[],
  work: (ctx: WriteContext) => Promise<Result>,
): Promise<Result> {
  const sorted = typeof chains === 'string' ? [chains] : [...new Set(chains)].sort()
  try {
    const result = await ctx.engine.transaction(sorted.join(), async (transaction) => {
      const inside = await enterTransaction(ctx, transaction, sorted)
      await confirmWithin(inside)
      return work(inside)
    })
    ctx.run.hasCommitted = true
    return result
  } finally {
    releaseSlot(ctx, ctx.slots.largeWrite)
  }
}

/** Locks the chains. Rights are still to be confirmed, for each caller by itself. */
export async function enterTransaction(
  ctx: Context,
  transaction: Transaction,
  chains: readonly string[],
): Promise<WriteContext> {
  const inside = { ...ctx, store: storeOver(transaction.db, ctx.keys), transaction }
  for (const chain of chains) await lockChain(inside, chain)
  return inside
}

/** What changes nothing but must be known, such as an exchange: it shares a row with others of the same moment. */
export function recordAct(ctx: Context, event: AuditEvent): Promise<void> {
  return ctx.engine.joinTransaction(event.chain, event.chain, { ctx, event }, recordTogether)
}

const recordTogether: JointWork<{ ctx: Context; event: AuditEvent }, void> = async (transaction, asked) => {
  const [first] = asked
  if (!first) return []
  const store = storeOver(transaction.db, first.ctx.keys)
  const callers = asked.map(({ ctx }) => ctx)
  const confirmed = await confirmEach(callers, transaction, store)
  const acts = asked.filter((_, index) => confirmed[index]?.status === 'fulfilled')
  if (acts.length > 0) await recordAll(acts.map(({ ctx, event }) => ({ ctx: { ...ctx, store, transaction }, event })))
  return confirmed
}

/** Bookkeeping that is nobody's act and leaves no trail: counters, times of last use. */
export function inQuietTransaction<Result>(
  services: Pick<Services, 'engine' | 'keys'>,
  lock: string,
  work: (store: Store) => Promise<Result>,
): Promise<Result> {
  return services.engine.transaction(lock, ({ db }) => work(storeOver(db, services.keys)))
}

/** Tells every node to forget what it remembers of the subject: this one at the commit, others within a second. */
export async function announce(ctx: WriteContext, subject: ChangeSubject, subjectId: string): Promise<void> {
  const { transaction } = ctx
  const name = `change:${subject}:${subjectId}`
  if (transaction.scratch.has(name)) return
  transaction.scratch.set(name, true)
  transaction.afterCommit.push(() => forget(ctx, subject, subjectId))
  await ctx.store.changes.append(subject, subjectId, ctx.now())
  // What is pushed on from here, by values or by the rights of whoever set it up, is looked at again.
  if (subject === 'environment') await ctx.store.syncs.wake(subjectId.split(':')[1] ?? '', ctx.now())
  if (subject === 'workspace') await ctx.store.syncs.wakeAll(subjectId, ctx.now())
}

export type Memories = Pick<Services, 'pictures' | 'credentials' | 'epochs' | 'counts'>

export function forgetAll({ pictures, credentials, epochs, counts }: Memories): void {
  pictures.clear()
  credentials.clear()
  epochs.advanceAll()
  counts.clear()
}

export function forget(services: Memories, subject: ChangeSubject, id: string): void {
  if (subject === 'workspace') {
    services.pictures.drop(id)
    services.counts.drop(id)
  }
  if (subject === 'environment') {
    const [workspaceId = '', environmentId = ''] = id.split(':')
    services.epochs.advance(environmentId)
    services.counts.drop(workspaceId)
  }
  if (subject === 'user') services.credentials.dropUser(id)
  if (subject === 'keyring') {
    services.credentials.clear()
    // A picture that was loaded before its root was known here may lack what the new root vouches for.
    services.pictures.clear()
  }
}
