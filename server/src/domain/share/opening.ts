/**
 * Takes views of shares. Concurrent openings in one workspace share a commit; those of one share are decided one after
 * the other.
 */
import type { KeyObject } from 'node:crypto'
import type { OpenedShare, ShareKey, ShareOutcome } from '@coffer/contract/share'
import { newId } from '../../crypto/id.ts'
import { hashProof } from '../../crypto/share-proof.ts'
import { headRows } from '../../store/audit/head.ts'
import { type Db, type Desk, type Job, newShelf } from '../../store/engine/sql.ts'
import {
  newestWorkspaceKey,
  unwrapWorkspaceKey,
  type WorkspaceKeyRow,
  type WrappedWorkspaceKey,
} from '../../store/key/key.ts'
import { openContent, type ShareContent } from '../../store/share/content.ts'
import {
  type LockedShare,
  lockedShare,
  type SealedRow,
  type SealedShare,
  type ShareRecord,
} from '../../store/share/share.ts'
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
  const { ctx, share, isRight } = opening
  const { workspaceId } = share
  const asked = {
    share: { question: lockedShare, within: workspaceId, key: share.id },
    key: { question: newestWorkspaceKey, within: workspaceId, key: workspaceId },
  }
  const job: Job<Found, Opened, Outcome> = {
    bytes: share.sizeBytes,
    asks: isRight ? [asked.share, asked.key] : [asked.share],
    async read(db, answers) {
      await confirmOver(ctx, db)
      return findOpening(opening, storeOver(db, ctx.keys), answers.of(asked.share)[0], answers.of(asked.key)[0])
    },
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
  /** Undefined if the password is wrong. */
  readonly key: WrappedWorkspaceKey | undefined
}

/** The share as it is under the lock: it may have ended, or been re-encrypted, since the lookup. */
async function findOpening(
  { ctx, share, key, isRight }: Opening,
  store: ReadStore,
  row: SealedRow | undefined,
  newestKey: WorkspaceKeyRow | undefined,
): Promise<Found> {
  const sealed = row && (await store.shares.verify(row))
  if (!sealed || !isRight) return { share: sealed, claim: undefined, key: undefined }
  const claim = await findClaim(store, share, key, ctx.now())
  return { share: sealed, claim, key: await store.shares.findContentKey(sealed, newestKey) }
}

/** What earlier openings of the same commit have left of a share. */
type Left = { readonly share: SealedShare; readonly claims: ReadonlyMap<string, Claim> }
const openedShares = newShelf<Left>()
/** Keys of the workspace by their version. */
const openedKeys = newShelf<KeyObject>()

type Taken = {
  readonly opened: OpenedShare | 'refused'
  readonly outcome: ShareOutcome
  /** With the new counts. */
  readonly share: SealedShare
  readonly after: Record<string, unknown>
}

function planOpening(opening: Opening, found: Found, desk: Desk, db: Db): { result: Opened; note: Outcome } {
  const { ctx, key } = opening
  const left = desk.get(openedShares, opening.share.id)
  const claimHash = key.claim === undefined ? null : hashProof(key.claim)
  const claimName = claimHash?.toString('hex') ?? ''
  const claim = left?.claims.get(claimName) ?? found.claim
  const taken = decide(opening, { ...found, share: left?.share ?? found.share, claim }, desk)
  if (!taken) return { result: undefined, note: newOutcome() }
  const { share, outcome, opened } = taken
  const { shares, shareViews } = storeOver(db, ctx.keys)
  if (outcome !== 'repeated') shares.saveCounts(share)
  const hasClaim = outcome !== 'failure' && claimHash !== null
  const { ip, userAgent } = ctx.request
  const viewed = { id: newId(), shareId: share.id, at: ctx.now(), ip, userAgent, outcome }
  shareViews.insertMany([{ ...viewed, claimHash: hasClaim ? claimHash : null }])
  // After too many failures, nobody may come back for a lost response.
  if (share.state !== 'active') shares.erase(share, opened === 'refused' ? never : ctx.now() - claimMs)
  const repeats = outcome === 'repeated' ? (claim?.repeats ?? 0) + 1 : 0
  const claims = new Map(left?.claims)
  if (hasClaim) claims.set(claimName, { repeats })
  desk.set(openedShares, share.id, { share, claims })
  return { result: opened, note: { ...newOutcome(), entries: [toEntry(ctx, describe(taken))] } }
}

const never = Number.MAX_SAFE_INTEGER

function decide({ ctx, isRight }: Opening, { share, claim, key }: Found, desk: Desk): Taken | undefined {
  const now = ctx.now()
  if (!share || isOver(share, now)) return undefined
  if (isRight && key && claim) {
    // A share that was locked since the claim has no contents any more.
    if (claim.repeats >= maxRepeats || share.state === 'locked') return undefined
    return view(share, contentOf(share, key, desk), 'repeated')
  }
  if (share.state !== 'active' || share.views >= share.maxViews || share.failures >= share.maxFailures) return undefined
  if (!isRight) return fail(share, now)
  if (!key) return undefined
  const views = share.views + 1
  const end = views >= share.maxViews ? ({ state: 'exhausted', endedAt: now } as const) : {}
  const viewed = { ...share, views, lastViewedAt: now, ...end }
  return view(viewed, contentOf(share, key, desk), 'success')
}

/** Openings of one commit unwrap the key once. */
function contentOf(share: SealedShare, wrapped: WrappedWorkspaceKey, desk: Desk): ShareContent {
  const version = String(wrapped.row.version)
  const key = desk.get(openedKeys, version) ?? unwrapWorkspaceKey(share.workspaceId, wrapped)
  desk.set(openedKeys, version, key)
  return openContent(key, share)
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
