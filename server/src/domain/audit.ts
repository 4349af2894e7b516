/** The one place that writes the audit trail: changes with their transaction, reads together with other reads. */
import type { AuditAction } from '@coffer/contract/audit'
import { newId } from '../crypto/id.ts'
import { Failure } from '../failure.ts'
import { traceOf } from '../log.ts'
import { type AuditRow, canonicalEntry, hashEntry } from '../store/audit.ts'
import { storeOver } from '../store/store.ts'
import { type ChainContext, extendChain, lockChain, orNothing } from './audit-chain.ts'
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
  const head = await lockChain(ctx, event.chain)
  const details = JSON.stringify({ before: event.before, after: event.after })
  const unhashed = { ...entryOf(ctx, event, details), sequence: head.sequence + 1 }
  const row: AuditRow = { ...unhashed, hash: hashEntry(head.hash, canonicalEntry(unhashed)) }
  await orNothing(ctx, () => ctx.store.audit.insert(row))
  extendChain(ctx, event.chain, { ...head, sequence: row.sequence, hash: row.hash })
}

function entryOf(ctx: Context, event: AuditEvent, details: string): Omit<AuditRow, 'sequence' | 'hash'> {
  return {
    chainId: event.chain,
    id: newId(),
    at: ctx.now(),
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
    requestId: ctx.request.id,
    outcome: event.outcome ?? 'success',
    details,
  }
}

const crowd = 2
const gatherMs = 1
const unrecorded = 'The read could not be recorded in the audit trail, so nothing is shown; try again in a moment.'

type PendingRead = {
  readonly entry: Omit<AuditRow, 'sequence' | 'hash'>
  resolve(): void
  reject(error: unknown): void
}

/** Reads of values, recorded together with the other reads of the same moment. */
export type ReadRecorder = {
  /** Resolves when the read is on disk; until then no value may leave. `details` is JSON of `{ after }`. */
  record(ctx: Context, event: AuditEvent, details: string): Promise<void>
}

export function createReadRecorder(services: Pick<Context, 'engine' | 'keys' | 'log'>): ReadRecorder {
  const pending = new Map<string, PendingRead[]>()
  let lastSize = 0

  async function flush(chain: string): Promise<void> {
    const reads = pending.get(chain) ?? []
    pending.delete(chain)
    lastSize = reads.length
    try {
      await services.engine.transaction(chain, (transaction) =>
        writeReads({ ...services, store: storeOver(transaction.db, services.keys), transaction }, chain, reads),
      )
      for (const read of reads) read.resolve()
    } catch (cause) {
      services.log.error('reads could not be recorded', { count: reads.length, ...traceOf(cause) })
      for (const read of reads) read.reject(new Failure('unrecorded', unrecorded, { cause }))
    }
  }

  return {
    record: (ctx, event, details) =>
      new Promise<void>((resolve, reject) => {
        const read = { entry: entryOf(ctx, event, details), resolve, reject }
        const waiting = pending.get(event.chain)
        if (waiting) waiting.push(read)
        else {
          pending.set(event.chain, [read])
          // A lone reader need not wait; among many, a moment more lets many more share one commit.
          if (lastSize > crowd) setTimeout(flush, gatherMs, event.chain)
          else setImmediate(flush, event.chain)
        }
      }),
  }
}

async function writeReads(ctx: ChainContext, chain: string, reads: readonly PendingRead[]): Promise<void> {
  const head = await lockChain(ctx, chain)
  let { sequence, hash } = head
  const texts: string[] = []
  for (const { entry } of reads) {
    const text = canonicalEntry({ ...entry, sequence: ++sequence })
    hash = hashEntry(hash, text)
    texts.push(text)
  }
  const entries = `[${texts.join(',')}]`
  const row = { chainId: chain, firstSequence: head.sequence + 1, lastSequence: sequence, previousHash: head.hash }
  await ctx.store.audit.insertReads({ ...row, entries, hash })
  extendChain(ctx, chain, { ...head, sequence, hash })
}
