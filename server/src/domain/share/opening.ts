/**
 * Takes views of shares. Concurrent openings in one workspace share a transaction, its queries and its audit row.
 * Openings of the same share still run one after the other.
 */
import type { OpenedShare, ShareKey, ShareOutcome } from '@coffer/contract/share'
import { newId } from '../../crypto/id.ts'
import { hashProof } from '../../crypto/share-proof.ts'
import { headRows } from '../../store/audit/head.ts'
import type { JointWork } from '../../store/engine/sql.ts'
import type { LockedShare, SealedShare, ShareRecord } from '../../store/share/share.ts'
import type { Store } from '../../store/store.ts'
import { confirmWithin } from '../access/confirm.ts'
import type { AuditEvent } from '../audit/event.ts'
import { recordAll } from '../audit/record.ts'
import type { Context, WriteContext } from '../context.ts'
import { secondMs } from '../time.ts'
import { enterTransaction } from '../transaction.ts'
import { entity } from './share.ts'

/** How long, and how often, a reader may fetch a lost response again. */
export const claimMs = 60 * secondMs
const maxRepeats = 10
/** Maximum clock skew between nodes. A timestamp further in the future was written before a clock was set back. */
export const skewMs = 2 * secondMs
/** Contents that are in memory several times while they are decrypted. */
const maxTurnBytes = 1024 * 1024
/** The workspace waits while openings of one share follow each other: after this many, others may write. */
const maxTurns = 8

type Opening = {
  readonly ctx: Context
  /** As it was before the transaction. */
  readonly share: LockedShare
  readonly key: ShareKey
  /** Whether the password is right. */
  readonly isRight: boolean
}
/** Undefined if the share has ended. */
type Opened = OpenedShare | 'refused' | undefined

/** Takes a view, or counts a failed attempt. */
export async function takeOpening(opening: Opening): Promise<Opened> {
  const { ctx, share } = opening
  const { workspaceId } = share
  const rows = headRows([workspaceId])
  let opened: Opened | 'later'
  do opened = await ctx.engine.joinTransaction(workspaceId, workspaceId, opening, openTogether, rows)
  while (opened === 'later')
  ctx.run.hasCommitted = true
  return opened
}

/** True if nobody may open the share any more: it has expired, or the time for fetching a lost response is over. */
export const isOver = ({ expiresAt, endedAt }: ShareRecord, at: number) =>
  expiresAt <= at || (endedAt !== null && endedAt + claimMs <= at)

export function findClaim(
  { shareViews }: Store,
  share: ShareRecord,
  { claim }: ShareKey,
  at: number,
): Promise<{ repeats: number } | undefined> {
  if (claim === undefined) return Promise.resolve(undefined)
  return shareViews.findClaim(share.id, hashProof(claim), at - claimMs, at + skewMs)
}

type Attempt = Omit<Opening, 'ctx'> & { readonly ctx: WriteContext }

const openTogether: JointWork<Opening, Opened | 'later'> = async (transaction, openings) => {
  const [first] = openings
  if (!first) return []
  const inside = await enterTransaction(first.ctx, transaction, [first.share.workspaceId])
  const { store } = inside
  const attempts = openings.map((opening): Attempt => ({ ...opening, ctx: { ...opening.ctx, store, transaction } }))
  for (const { ctx } of attempts) await confirmWithin(ctx)
  const outcomes = new Map<Attempt, Outcome | undefined>()
  for (let turns = 0; turns < maxTurns && outcomes.size < attempts.length; turns++) {
    const turn = nextTurn(attempts.filter((attempt) => !outcomes.has(attempt)))
    const taken = await takeTurn(inside, turn)
    for (const [index, attempt] of turn.entries()) outcomes.set(attempt, taken[index])
  }
  await recordAll(
    attempts.flatMap((attempt) => {
      const outcome = outcomes.get(attempt)
      return outcome ? [{ ctx: attempt.ctx, event: describe(outcome) }] : []
    }),
  )
  return attempts.map((attempt) => ({
    status: 'fulfilled',
    value: outcomes.has(attempt) ? outcomes.get(attempt)?.opened : 'later',
  }))
}

/** The first attempt at each share, as far as the contents are small. */
function nextTurn(left: readonly Attempt[]): Attempt[] {
  const ids = new Set<string>()
  let bytes = 0
  return left.filter(({ share }) => {
    if (ids.has(share.id) || (ids.size > 0 && bytes + share.sizeBytes > maxTurnBytes)) return false
    ids.add(share.id)
    bytes += share.sizeBytes
    return true
  })
}

type Outcome = {
  readonly opened: Opened
  readonly share: ShareRecord
  readonly outcome: ShareOutcome
  readonly after: Record<string, unknown>
  /** The last view, or the last attempt, is taken. */
  readonly isEnd: boolean
}

/** Attempts at distinct shares. Undefined for each share that has ended. */
async function takeTurn(ctx: WriteContext, turn: readonly Attempt[]): Promise<(Outcome | undefined)[]> {
  const { store, transaction } = ctx
  const workspaceId = turn[0]?.share.workspaceId ?? ''
  const claims = await Promise.all(
    turn.map(({ ctx, share, key, isRight }) => (isRight ? findClaim(store, share, key, ctx.now()) : undefined)),
  )
  const isNew = ({ isRight }: Attempt, index: number) => isRight && !claims[index]
  const idsOf = (attempts: readonly Attempt[]) => attempts.map(({ share }) => share.id)
  // Loaded again under the lock: a share may have ended, or been re-encrypted, since the lookup.
  const [viewed, others, openContent] = await Promise.all([
    store.shares.takeViews(idsOf(turn.filter(isNew)), workspaceId, ctx.now()),
    store.shares.listSealed(idsOf(turn.filter((attempt, index) => !isNew(attempt, index))), workspaceId),
    turn.some(({ isRight }) => isRight) ? store.shares.contentOpener(workspaceId) : undefined,
  ])
  const outcomes = await Promise.all(
    turn.map(async (attempt, index): Promise<Outcome | undefined> => {
      const { id } = attempt.share
      const taken = viewed.get(id)
      if (openContent && taken) return view(taken, false, await openContent(taken))
      const [share, claimed] = [others.get(id), claims[index]]
      if (!share || isOver(share, ctx.now())) return undefined
      if (!attempt.isRight) return failure(share, await store.shares.takeFailure(share, ctx.now()))
      if (!openContent || !claimed || claimed.repeats >= maxRepeats) return undefined
      return view(share, true, await openContent(share))
    }),
  )
  transaction.later(store.shareViews.insertMany(turn.flatMap((attempt, index) => viewRow(attempt, outcomes[index]))))
  for (const share of await listErasable(store, turn, outcomes)) transaction.later(store.shares.erase(share))
  return outcomes
}

function view(share: SealedShare, isRepeated: boolean, content: Omit<OpenedShare, 'viewsLeft'>): Outcome {
  const viewsLeft = share.maxViews - share.views
  return {
    opened: { ...content, viewsLeft },
    share,
    outcome: isRepeated ? 'repeated' : 'success',
    after: { viewsLeft, ...(isRepeated && { repeated: true }) },
    isEnd: viewsLeft === 0,
  }
}

/** Undefined if the share had ended before this attempt was counted. */
function failure(share: SealedShare, failures: number | undefined): Outcome | undefined {
  if (failures === undefined) return undefined
  const isEnd = failures >= share.maxFailures
  return {
    opened: 'refused',
    share,
    outcome: 'failure',
    after: { failures, ...(isEnd && { state: 'locked' }) },
    isEnd,
  }
}

/** The share's list of views, with IP address and user agent. */
function viewRow({ ctx, key }: Attempt, outcome: Outcome | undefined) {
  if (!outcome) return []
  const { ip, userAgent } = ctx.request
  const hasClaim = outcome.outcome !== 'failure' && key.claim !== undefined
  return [
    {
      id: newId(),
      shareId: outcome.share.id,
      at: ctx.now(),
      ip,
      userAgent,
      outcome: outcome.outcome,
      claimHash: hasClaim && key.claim !== undefined ? hashProof(key.claim) : null,
    },
  ]
}

/** A share that was viewed for the last time is kept for readers who may have lost their response. */
async function listErasable(
  store: Store,
  turn: readonly Attempt[],
  outcomes: readonly (Outcome | undefined)[],
): Promise<ShareRecord[]> {
  const ended = outcomes.map(async (outcome, index) => {
    if (!outcome?.isEnd) return []
    const since = (turn[index]?.ctx.now() ?? 0) - claimMs
    const isKept = outcome.opened !== 'refused' && (await store.shareViews.hasClaimSince(outcome.share.id, since))
    return isKept ? [] : [outcome.share]
  })
  return (await Promise.all(ended)).flat()
}

function describe({ share, outcome, after }: Outcome): AuditEvent {
  return {
    chain: share.workspaceId,
    action: 'VIEW',
    entity: entity(share),
    projectId: share.projectId,
    environmentIds: share.environmentIds,
    outcome: outcome === 'failure' ? 'failure' : 'success',
    after,
  }
}
