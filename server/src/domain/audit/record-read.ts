/** Audits reads of values. Concurrent reads share one audit row, committed before any of the responses is sent. */
import { newId } from '../../crypto/id.ts'
import { Failure, isFailure } from '../../failure.ts'
import { traceOf } from '../../log.ts'
import { sharedFields } from '../../store/audit/batch.ts'
import { type CompactDetails, compactDetails, type NameBases } from '../../store/audit/key-list.ts'
import type { Context } from '../context.ts'
import { StartOver } from '../start-over.ts'
import { commitEntry } from '../transaction.ts'
import type { AuditEvent } from './event.ts'
import { describeEvent, withEnvironments } from './record.ts'

const unrecorded = 'The read could not be recorded in the audit trail, so nothing is shown; try again in a moment.'

type ReadEvent = Omit<AuditEvent, 'before' | 'after'>

/** Audit details of a response, as JSON within JSON, with its key lists. Built and hashed once per cached response. */
export type ReadDetails = CompactDetails

/** `environmentIds` includes the environments of referenced values. */
export function readDetails(
  after: Record<string, unknown>,
  environmentIds: readonly string[],
  bases?: NameBases,
): ReadDetails {
  const { text, lists } = compactDetails({ after: withEnvironments(after, environmentIds) }, bases)
  return { text: JSON.stringify(text), lists }
}

/**
 * Reserves memory for a response of about this size, then records the read. Resolves once the audit entry is durable;
 * no value may be sent before. If there is no memory, the read is recorded as failed and rejected.
 */
export function recordRead(ctx: Context, event: ReadEvent, details: ReadDetails, bytes: number): Promise<void> {
  const waiting = ctx.request.reserve(bytes)
  if (!waiting) return append(ctx, event, details)
  return waiting.then(
    () => append(ctx, event, details),
    async (error) => {
      await append(ctx, { ...event, outcome: 'failure' }, details)
      throw error
    },
  )
}

async function append(ctx: Context, event: ReadEvent, { text, lists }: ReadDetails): Promise<void> {
  const { chain } = event
  const shared = sharedFields(describeEvent(ctx, event), textFor(text, ctx.actor.emailVerified))
  const entry = { chain, id: newId(), at: ctx.now(), requestId: ctx.request.id, shared, lists }
  try {
    await commitEntry(ctx, entry)
  } catch (cause) {
    if (cause instanceof StartOver || (isFailure(cause) && cause.status < 500)) throw cause
    ctx.log.error('a read could not be recorded', traceOf(cause))
    throw new Failure('unrecorded', unrecorded, { cause })
  }
}

/** The text is JSON within JSON with at least one field, so `actorVerified` goes in after its first two characters. */
const textFor = (text: string, emailVerified: boolean | undefined) =>
  emailVerified === undefined ? text : `"{\\"actorVerified\\":${emailVerified},${text.slice(2)}`
