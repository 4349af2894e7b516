/** Transactions with their audit entries, and the change log that tells every node which cached data is stale. */
import { headRows } from '../store/audit/head.ts'
import { type ChangeSubject, readEnvironmentSubject } from '../store/change.ts'
import type { Db, Job, Link, Linked, Transaction } from '../store/engine/sql.ts'
import { type Store, storeOver } from '../store/store.ts'
import { confirmWithin, mayHaveChanged } from './access/confirm.ts'
import { appendEntries } from './audit/append.ts'
import { asUnrecorded, lockMissingHeads } from './audit/chain.ts'
import type { AuditEvent, Entry } from './audit/event.ts'
import { toEntry } from './audit/record.ts'
import { invalidate } from './cache/invalidation.ts'
import type { Context, LinkServices, Outcome, Services, WriteContext } from './context.ts'
import { releaseSlot } from './slot.ts'

/**
 * Runs one transaction over the given audit chains: that of the changed workspace, and of others that record the event.
 * The chains are locked first, in sorted order, so that transactions cannot deadlock; then the caller's rights are
 * checked again under the locks. Work that needs a large-write slot rolls back while it waits.
 */
export async function inTransaction<Result>(
  ctx: Context,
  chains: string | readonly string[],
  work: (ctx: WriteContext) => Promise<Result> | Result,
  { isDry = false } = {},
): Promise<Result> {
  const sorted = typeof chains === 'string' ? [chains] : [...new Set(chains)].sort()
  const outcome = newOutcome()
  try {
    const enter = async (transaction: Transaction) => {
      const inside = enterTransaction(ctx, transaction, outcome)
      await lockMissingHeads(inside, sorted)
      await confirmWithin(inside)
      return work(inside)
    }
    const options = { rows: headRows(sorted), isDry, link: outcomeLink(ctx), note: outcome }
    const result = await ctx.engine.transaction(sorted.join(), enter, options)
    if (!isDry) ctx.run.hasCommitted = true
    return result
  } finally {
    releaseSlot(ctx, ctx.slots.largeWrite)
  }
}

export const newOutcome = (): Outcome => ({ entries: [], signed: new Set(), stale: new Map() })

export function enterTransaction(ctx: Context, transaction: Transaction, outcome: Outcome): WriteContext {
  const store = storeOver(transaction.db, ctx.keys)
  return { ...ctx, longWork: ctx.longWork.ahead, store, transaction: { ...transaction, ...outcome } }
}

/** Writes what the work of a commit has recorded and announced. */
export const outcomeLink = (services: LinkServices): Link<Outcome> => ({
  write: (transaction, outcomes) => writeOutcomes(services, transaction, outcomes),
  asFailure: (error) => asUnrecorded(services, error),
})

async function writeOutcomes(
  services: LinkServices,
  { db, locked }: Transaction,
  outcomes: readonly Outcome[],
): Promise<Linked> {
  const { keys, log, chainMemory, pendingChanges, now } = services
  const store = storeOver(db, keys)
  const chains = Map.groupBy(
    outcomes.flatMap(({ entries }) => entries),
    ({ chain }) => chain,
  )
  for (const chain of outcomes.flatMap(({ signed }) => [...signed])) if (!chains.has(chain)) chains.set(chain, [])
  const remember: (() => void)[] = []
  for (const [chain, entries] of [...chains].sort(([one], [other]) => (one < other ? -1 : 1))) {
    remember.push(
      await appendEntries(
        { keys, log, chainMemory, store, transaction: { locked } },
        chain,
        entries,
        outcomes.length === 1,
      ),
    )
  }
  const stale = [...new Map(outcomes.flatMap((outcome) => [...outcome.stale])).values()]
  for (const { subject, subjectId } of stale) {
    store.changes.append(subject, subjectId, now())
    // Syncs depend on the values and on the rights of the person who set them up, so both kinds of change make them due.
    if (subject === 'environment') store.syncs.wake(readEnvironmentSubject(subjectId).environmentId, now())
    if (subject === 'workspace') store.syncs.wakeAll(subjectId, now())
  }
  // From before the commit, because other nodes may see it before this one knows of it.
  const ends = stale.map(({ subject, subjectId }) => pendingChanges.begin(subject, subjectId))
  return {
    committed() {
      for (const each of remember) each()
    },
    settled() {
      for (const { subject, subjectId } of stale) invalidate(services, subject, subjectId)
      for (const end of ends) end()
    },
  }
}

/** Records an event without a change, such as a token exchange. Concurrent events of one chain share a commit. */
export const recordAct = (ctx: Context, event: AuditEvent): Promise<void> => commitEntry(ctx, toEntry(ctx, event))

/** Appends an entry that goes with no change. The caller's rights are checked again under the lock of the chain. */
export function commitEntry(ctx: Context, entry: Entry): Promise<void> {
  const { chain } = entry
  const job: Job<unknown, void, Outcome> = {
    read: (db) => confirmOver(ctx, db),
    plan: () => ({ result: undefined, note: { ...newOutcome(), entries: [entry] } }),
    link: outcomeLink(ctx),
  }
  return ctx.engine.commit(chain, job, { rows: headRows([chain]) })
}

/** Confirms the caller's rights by what a transaction reads. Undefined where nothing has changed. */
export function confirmOver(ctx: Context, db: Db): Promise<void> | undefined {
  return mayHaveChanged(ctx) ? confirmWithin({ ...ctx, store: storeOver(db, ctx.keys) }) : undefined
}

/** For bookkeeping without an actor or audit entry, such as counters and times of last use. */
export function inQuietTransaction<Result>(
  services: Pick<Services, 'engine' | 'keys'>,
  lock: string,
  work: (store: Store) => Promise<Result> | Result,
): Promise<Result> {
  return services.engine.transaction(lock, async ({ db }) => work(storeOver(db, services.keys)))
}

/** Tells every node to drop its cached data about the subject: this node at the commit, others within a second. */
export function announce({ transaction }: WriteContext, subject: ChangeSubject, subjectId: string): void {
  transaction.stale.set(`${subject}:${subjectId}`, { subject, subjectId })
}
