/** Audits reads of values. Concurrent reads share one audit row, committed before any of the responses is sent. */
import { newId } from '../../crypto/id.ts'
import { Failure } from '../../failure.ts'
import { traceOf } from '../../log.ts'
import { type BatchEntry, type SharedFields, sharedFields } from '../../store/audit/batch.ts'
import { headRows } from '../../store/audit/head.ts'
import { compactDetails, type NameBases } from '../../store/audit/key-list.ts'
import { gather } from '../../store/engine/commit-queue.ts'
import type { Transaction } from '../../store/engine/sql.ts'
import { storeOver } from '../../store/store.ts'
import { confirmEach } from '../access/confirm.ts'
import type { Context } from '../context.ts'
import type { AuditEvent } from './event.ts'
import type { ReadDetails, ReadEvent, ReadRecorder } from './read-recorder.ts'
import { appendBatch, describeEvent, withEnvironments } from './record.ts'

const unrecorded = 'The read could not be recorded in the audit trail, so nothing is shown; try again in a moment.'

type PendingRead = { readonly ctx: Context; readonly entry: BatchEntry; resolve(): void; reject(error: unknown): void }

/** `environmentIds` includes the environments of referenced values. */
export function readDetails(
  after: Record<string, unknown>,
  environmentIds: readonly string[],
  bases?: NameBases,
): ReadDetails {
  const { text, lists } = compactDetails({ after: withEnvironments(after, environmentIds) }, bases)
  return { text: JSON.stringify(text), lists }
}

type Shared = {
  readonly outcome: AuditEvent['outcome']
  readonly actorId: string
  readonly actorName: string
  readonly emailVerified: boolean | undefined
  readonly ip: string
  readonly userAgent: string
  readonly fields: SharedFields
}

/** A cached response mostly goes to the same caller again, so the fields that describe this caller are reused. */
const lastShared = new WeakMap<ReadDetails, Shared>()

function shareFields(ctx: Context, event: ReadEvent, details: ReadDetails): SharedFields {
  const { ip, userAgent } = ctx.request
  const { id: actorId, name: actorName, emailVerified } = ctx.actor
  const last = lastShared.get(details)
  // A person's name is their address, which can change while the response stays cached.
  const isSameActor = last?.actorId === actorId && last.actorName === actorName && last.emailVerified === emailVerified
  const isSameCaller = isSameActor && last.ip === ip && last.userAgent === userAgent
  if (isSameCaller && last.outcome === event.outcome) return last.fields
  const fields = sharedFields(describeEvent(ctx, event), textFor(details, emailVerified))
  lastShared.set(details, { outcome: event.outcome, actorId, actorName, emailVerified, ip, userAgent, fields })
  return fields
}

/** The text is JSON within JSON with at least one field, so `actorVerified` goes in after its first two characters. */
const textFor = ({ text }: ReadDetails, emailVerified: boolean | undefined) =>
  emailVerified === undefined ? text : `"{\\"actorVerified\\":${emailVerified},${text.slice(2)}`

export function createReadRecorder(
  services: Pick<Context, 'engine' | 'keys' | 'log' | 'storedLists'>,
): ReadRecorder<Context> {
  const pending = new Map<string, PendingRead[]>()

  /** Takes the queue only inside the transaction, so that reads that arrive during the previous commit are included. */
  async function flush(chain: string): Promise<void> {
    // PostgreSQL's transaction begins with a round trip, and reads that arrive meanwhile are included anyway.
    if (services.engine.kind === 'sqlite') await gather(() => pending.get(chain)?.length ?? 0)
    let reads: PendingRead[] | undefined
    let confirmed: PromiseSettledResult<void>[] = []
    const take = () => {
      const taken = pending.get(chain) ?? []
      pending.delete(chain)
      return taken
    }
    try {
      const append = async (transaction: Transaction) => {
        reads = take()
        const store = storeOver(transaction.db, services.keys)
        const callers = reads.map(({ ctx }) => ctx)
        confirmed = await confirmEach(callers, store)
        const seen = reads.filter((_, index) => confirmed[index]?.status === 'fulfilled')
        if (seen.length === 0) return
        const entries = seen.map(({ entry }) => entry)
        await appendBatch({ ...services, store, transaction }, chain, entries)
      }
      await services.engine.transaction(chain, append, headRows([chain]))
      for (const [index, read] of (reads ?? []).entries()) {
        const confirmation = confirmed[index]
        if (confirmation?.status === 'rejected') read.reject(confirmation.reason)
        else read.resolve()
      }
    } catch (cause) {
      reads ??= take()
      services.log.error('reads could not be recorded', { count: reads.length, ...traceOf(cause) })
      for (const read of reads) read.reject(new Failure('unrecorded', unrecorded, { cause }))
    }
  }

  function append(ctx: Context, event: ReadEvent, details: ReadDetails): Promise<void> {
    return new Promise<void>((resolve, reject) => {
      const shared = shareFields(ctx, event, details)
      const { lists } = details
      const entry = { id: newId(), at: ctx.now(), requestId: ctx.request.id, shared, lists }
      const read = { ctx, entry, resolve, reject }
      const waiting = pending.get(event.chain)
      if (waiting) waiting.push(read)
      else {
        pending.set(event.chain, [read])
        flush(event.chain)
      }
    })
  }

  return {
    record(ctx, event, details, bytes) {
      const waiting = ctx.request.reserve(bytes)
      if (!waiting) return append(ctx, event, details)
      return waiting.then(
        () => append(ctx, event, details),
        async (error) => {
          await append(ctx, { ...event, outcome: 'failure' }, details)
          throw error
        },
      )
    },
  }
}
