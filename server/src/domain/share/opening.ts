/**
 * Takes views of shares. Concurrent openings in one workspace share a commit; those of one share are decided one after
 * the other.
 */
import type { OpenedShare, ShareKey, ShareOutcome } from '@coffer/contract/share'
import { newId } from '../../crypto/id.ts'
import { hashProof } from '../../crypto/share-proof.ts'
import { headRows } from '../../store/audit/head.ts'
import type { Db, Desk, Job } from '../../store/engine/sql.ts'
import type { ShareContent } from '../../store/share/content.ts'
import type { LockedShare, SealedShare, ShareRecord } from '../../store/share/share.ts'
import { type ReadStore, storeOver } from '../../store/store.ts'
import type { AuditEvent } from '../audit/event.ts'
import { toEntry } from '../audit/record.ts'
import type { Context, Outcome } from '../context.ts'
import { secondMs } from '../time.ts'
import { confirmOver, newOutcome, outcomeLink } from '../transaction.ts'
import { entity } from './share.ts'

/** How long, and how often, a reader may fetch a lost response again. */
export const claimMs = 60 * secondMs
const maxRepeats = 10
/** Maximum clock skew between nodes. A timestamp further in the future was written before a clock was set back. */
export const skewMs = 2 * secondMs
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
  const job: Job<Found, Opened, Outcome> = {
    bytes: share.sizeBytes,
    read: (db) => findOpening(opening, db),
    plan: (found, desk, db) => planOpening(opening, found, desk, db),
    link: outcomeLink(ctx),
  }
  const opened = await ctx.engine.commit(workspaceId, job, { rows: headRows([workspaceId]) })
  ctx.run.hasCommitted = true
  return opened
}

/** True if nobody may open the share any more: it has expired, or the time for fetching a lost response is over. */
export const isOver = ({ expiresAt, endedAt }: ShareRecord, at: number) =>
  expiresAt <= at || (endedAt !== null && endedAt + claimMs <= at)

/** A view that was taken with a claim, and how often it was repeated. */
type Claim = { readonly repeats: number }

type Found = {
  /** Undefined if the share has ended, or was tampered with. */
  readonly share: SealedShare | undefined
  readonly claim: Claim | undefined
  /** Some reader may still come back for a lost response. */
  readonly isKept: boolean
  /** Undefined if the password is wrong. */
  readonly content: ShareContent | undefined
}

/** Reads the share again under the lock: it may have ended, or been re-encrypted, since the lookup. */
async function findOpening({ ctx, share, key, isRight }: Opening, db: Db): Promise<Found> {
  await confirmOver(ctx, db)
  const store = storeOver(db, ctx.keys)
  const { id, workspaceId } = share
  const [sealed, claim, isKept, openContent] = await Promise.all([
    store.shares.lockSealed(id, workspaceId),
    isRight ? findClaim(store, share, key, ctx.now()) : undefined,
    store.shareViews.hasClaimSince(id, ctx.now() - claimMs),
    isRight ? store.shares.contentOpener(workspaceId) : undefined,
  ])
  return { share: sealed, claim, isKept, content: sealed && (await openContent?.(sealed)) }
}

/** What earlier openings of the same commit have left of a share. */
type Left = Pick<Found, 'share' | 'isKept'> & { readonly claims: ReadonlyMap<string, Claim> }

type Taken = {
  readonly opened: OpenedShare | 'refused'
  readonly outcome: ShareOutcome
  /** With the new counts. */
  readonly share: SealedShare
  readonly after: Record<string, unknown>
}

function planOpening(opening: Opening, found: Found, desk: Desk, db: Db): { result: Opened; note: Outcome } {
  const { ctx, key } = opening
  const name = `share:${opening.share.id}`
  // The cast is safe: only this file uses this name.
  const left = (desk.get(name) as Left | undefined) ?? { ...found, claims: new Map() }
  const claimHash = key.claim === undefined ? null : hashProof(key.claim)
  const claimName = claimHash?.toString('hex') ?? ''
  const claim = left.claims.get(claimName) ?? found.claim
  const taken = decide(opening, { ...found, ...left, claim })
  if (!taken) return { result: undefined, note: newOutcome() }
  const { share, outcome, opened } = taken
  const { shares, shareViews } = storeOver(db, ctx.keys)
  if (outcome !== 'repeated') shares.saveCounts(share)
  const hasClaim = outcome !== 'failure' && claimHash !== null
  const { ip, userAgent } = ctx.request
  const viewed = { id: newId(), shareId: share.id, at: ctx.now(), ip, userAgent, outcome }
  shareViews.insertMany([{ ...viewed, claimHash: hasClaim ? claimHash : null }])
  const isKept = left.isKept || (hasClaim && outcome === 'success')
  // A share that was viewed for the last time is kept for readers who may have lost their response.
  if (share.state !== 'active' && !(isKept && opened !== 'refused')) shares.erase(share)
  const repeats = outcome === 'repeated' ? (claim?.repeats ?? 0) + 1 : 0
  const claims = hasClaim ? new Map(left.claims).set(claimName, { repeats }) : left.claims
  desk.set(name, { share, isKept, claims } satisfies Left)
  return { result: opened, note: { ...newOutcome(), entries: [toEntry(ctx, describe(taken))] } }
}

function decide({ ctx, isRight }: Opening, { share, claim, content }: Found): Taken | undefined {
  const now = ctx.now()
  if (!share || isOver(share, now)) return undefined
  if (isRight && content && claim) return claim.repeats < maxRepeats ? view(share, content, 'repeated') : undefined
  if (share.state !== 'active' || share.views >= share.maxViews || share.failures >= share.maxFailures) return undefined
  if (!isRight) return fail(share, now)
  if (!content) return undefined
  const views = share.views + 1
  const end = views >= share.maxViews ? ({ state: 'exhausted', endedAt: now } as const) : {}
  return view({ ...share, views, lastViewedAt: now, ...end }, content, 'success')
}

function view(share: SealedShare, content: ShareContent, outcome: 'success' | 'repeated'): Taken {
  const viewsLeft = share.maxViews - share.views
  const after = { viewsLeft, ...(outcome === 'repeated' && { repeated: true }) }
  return { opened: { ...content, viewsLeft }, outcome, share, after }
}

function fail(share: SealedShare, now: number): Taken {
  const failures = share.failures + 1
  const isEnd = failures >= share.maxFailures
  return {
    opened: 'refused',
    outcome: 'failure',
    share: { ...share, failures, ...(isEnd && { state: 'locked', endedAt: now }) },
    after: { failures, ...(isEnd && { state: 'locked' }) },
  }
}

export function findClaim(
  { shareViews }: ReadStore,
  share: ShareRecord,
  { claim }: ShareKey,
  at: number,
): Promise<Claim | undefined> {
  if (claim === undefined) return Promise.resolve(undefined)
  return shareViews.findClaim(share.id, hashProof(claim), at - claimMs, at + skewMs)
}

function describe({ share, outcome, after }: Taken): AuditEvent {
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
