/** Deletes archived entries from the trail. The signed record of the cut keeps the rest of the chain verifiable. */
import { Failure } from '../../../failure.ts'
import type { AuditLink } from '../../../store/audit/entry.ts'
import type { Context, WriteContext } from '../../context.ts'
import { dayMs } from '../../time.ts'
import { inTransaction } from '../../transaction.ts'
import { lockHead } from '../chain.ts'
import { systemChain } from '../event.ts'
import { type ChainPlace, requireMark, signMark } from '../mark.ts'
import { record } from '../record.ts'
import { interrupted, requireLinks } from '../verify.ts'

/** Entries per transaction: small enough not to delay other writers. */
const stepLength = 500

/** The last entry that may be deleted. Only archived entries are; any further condition belongs here. */
async function findRemovableEnd(ctx: Context, chain: string): Promise<number> {
  return (await requireMark(ctx, chain, 'archive')).sequence
}

/** Rounded to whole days, so that a chain is cut at most once a day. */
export function retentionStart(ctx: Pick<Context, 'config' | 'now'>): number | undefined {
  const { auditDays } = ctx.config
  return auditDays === undefined ? undefined : Math.floor(ctx.now() / dayMs - auditDays) * dayMs
}

/** Returns the number of deleted entries: those older than `beforeMs`, up to `findRemovableEnd`. */
export async function removeArchived(
  ctx: Context,
  chain: string,
  beforeMs: number,
  signal?: AbortSignal,
): Promise<number> {
  const start = await requireMark(ctx, chain, 'cut')
  const end = await findEndBefore(ctx, chain, start, beforeMs)
  if (end <= start.sequence) return 0
  const event = { chain, action: 'DELETE', entity: trailOf(chain), after: { through: end } } as const
  // Recorded together with the first cut: of two processes that try, only one removes.
  let cut = await removeStep(ctx, chain, start, end, (ctx) => record(ctx, event))
  while (cut.sequence < end && !signal?.aborted) cut = await removeStep(ctx, chain, cut, end)
  return cut.sequence - start.sequence
}

const trailOf = (chain: string) => ({ type: 'audit', id: chain, name: chain === systemChain ? 'system' : 'workspace' })

async function findEndBefore(ctx: Context, chain: string, start: ChainPlace, beforeMs: number): Promise<number> {
  const end = await findRemovableEnd(ctx, chain)
  let last = start.sequence
  for await (const { place, link } of requireLinks(ctx, chain, start, end)) {
    if (!isBefore(link, beforeMs)) break
    last = place.sequence
  }
  return last
}

export const isBefore = ({ entries }: AuditLink, beforeMs: number) => entries.every(({ at }) => at < beforeMs)

async function removeStep(
  ctx: Context,
  chain: string,
  start: ChainPlace,
  end: number,
  before?: (ctx: WriteContext) => void,
): Promise<ChainPlace> {
  let cut = start
  for await (const { place } of requireLinks(ctx, chain, start, Math.min(end, start.sequence + stepLength))) cut = place
  await inTransaction(ctx, chain, async (ctx) => {
    const { isSound } = await lockHead(ctx, chain)
    const stored = await requireMark(ctx, chain, 'cut')
    if (!isSound) throw new Failure('integrity', 'The signature of the head of the audit trail is wrong.')
    // Another process may have cut the chain meanwhile; both must not go on from the same place.
    if (stored.sequence !== start.sequence) throw new Failure('conflict', interrupted)
    before?.(ctx)
    ctx.store.auditRetention.saveMark(chain, 'cut', signMark(ctx, chain, 'cut', cut))
    ctx.store.auditRetention.removeThrough(chain, cut.sequence)
  })
  return cut
}
