/**
 * The public side of shares. Strangers always get the same 404 for the same work: a lookup by the keyed hash of the
 * token they sent, and a comparison of proofs. The service hashes a password or records an attempt only for callers
 * with the link's proof, or with a token that needs none: strangers cannot use up, lock or slow down a share.
 */
import type { OpenedShare, ShareKey, ShareMeta, ShareOutcome, ShareTokenPath } from '@coffer/contract/share'
import { newId } from '../../crypto/id.ts'
import { verifyPassword } from '../../crypto/password.ts'
import { hashProof, isProofRight } from '../../crypto/share-proof.ts'
import { Failure } from '../../failure.ts'
import type { LockedShare, ShareRecord } from '../../store/share/share.ts'
import { findShareEnd } from '../access/on-behalf.ts'
import { record } from '../audit/record.ts'
import type { Context, WriteContext } from '../context.ts'
import { inPasswordSlot, inSharePasswordSlot, inTokenLookUpSlot } from '../slot.ts'
import { iso, secondMs } from '../time.ts'
import { inQuietTransaction, inTransaction } from '../transaction.ts'
import { entity } from './share.ts'

/** How long, and how often, a reader may fetch a lost response again. */
export const claimMs = 60 * secondMs
const maxRepeats = 10
/** Maximum clock skew between nodes. A timestamp further in the future was written before a clock was set back. */
export const skewMs = 2 * secondMs

export async function readShareMeta(ctx: Context, { token }: ShareTokenPath): Promise<ShareMeta> {
  const share = await findShare(ctx, token)
  if (share?.state !== 'active') throw new Failure('notFound')
  const { kind, hasPassword, sizeBytes } = share
  return { kind, expiresAt: iso(share.expiresAt), viewsLeft: share.maxViews - share.views, hasPassword, sizeBytes }
}

export async function openShare(ctx: Context, { token }: ShareTokenPath, key: ShareKey): Promise<OpenedShare> {
  const share = await findShare(ctx, token)
  const hasLink = holdsLink(share, key)
  if (!share || !hasLink || !(await isOpenFor(ctx, share, key))) throw new Failure('notFound')
  const isRight = await isPasswordRight(ctx, token, share, key)
  const opened = await inTransaction(ctx, share.workspaceId, async (ctx) => {
    // Loaded again under the lock: the share may have ended, or been re-encrypted, since the lookup.
    const current = await ctx.store.shares.findByToken(token)
    if (!current || isOver(current, ctx.now())) return undefined
    return isRight ? takeView(ctx, current, key) : takeFailure(ctx, current)
  })
  if (!opened) throw new Failure('notFound')
  if (opened === 'refused') throw new Failure('forbidden', 'The password of this share is wrong.')
  return opened
}

/** Finds a share that has not ended, or that is kept for readers who may have lost their response. */
async function findShare(ctx: Context, token: string): Promise<LockedShare | undefined> {
  const share = await ctx.keys.lookTwice('share', () =>
    inTokenLookUpSlot(ctx, () => ctx.store.shares.findByToken(token)),
  )
  if (!share) return undefined
  const at = ctx.now()
  if (isOver(share, at)) {
    await inQuietTransaction(ctx, `share:${share.id}`, (store) => store.shares.expire(share, at))
    return undefined
  }
  const expiresAt = await findShareEnd(ctx, share)
  return expiresAt !== undefined && expiresAt > at ? { ...share, expiresAt } : undefined
}

/** True if nobody may open the share any more: it has expired, or the time for fetching a lost response is over. */
const isOver = ({ expiresAt, endedAt }: ShareRecord, at: number) =>
  expiresAt <= at || (endedAt !== null && endedAt + claimMs <= at)

function holdsLink(share: LockedShare | undefined, key: ShareKey): boolean {
  const isRight = isProofRight(share?.linkProofHash, key.linkProof)
  return share?.kind === 'server' || isRight
}

/** A used-up share opens only for readers who took a view and may have lost the response. */
async function isOpenFor(ctx: Context, share: LockedShare, key: ShareKey): Promise<boolean> {
  return share.state === 'active' || (share.state === 'exhausted' && (await findClaim(ctx, share, key)) !== undefined)
}

function findClaim(ctx: Context, share: ShareRecord, { claim }: ShareKey): Promise<{ repeats: number } | undefined> {
  if (claim === undefined) return Promise.resolve(undefined)
  const at = ctx.now()
  return ctx.store.shareViews.findClaim(share.id, hashProof(claim), at - claimMs, at + skewMs)
}

/** A request without a password is refused, but not counted as a failed attempt. */
async function isPasswordRight(ctx: Context, token: string, share: LockedShare, key: ShareKey): Promise<boolean> {
  if (!share.hasPassword) return true
  const given = share.kind === 'e2e' ? key.passProof : key.password
  if (given === undefined) {
    const field = share.kind === 'e2e' ? 'passProof' : 'password'
    throw new Failure('forbidden', `${field}: is required to open this share.`)
  }
  if (share.kind === 'e2e') return isProofRight(share.passProofHash, given)
  return inSharePasswordSlot(ctx, async () => {
    // Earlier guesses in the queue may have locked the share: then each further guess costs only this lookup.
    const current = await ctx.store.shares.findByToken(token)
    if (!current?.passwordHash) throw new Failure('notFound')
    const { passwordHash } = current
    return inPasswordSlot(ctx, (slot) => verifyPassword(slot, passwordHash, given))
  })
}

async function takeView(ctx: WriteContext, share: LockedShare, key: ShareKey): Promise<OpenedShare | undefined> {
  const at = ctx.now()
  const claimed = await findClaim(ctx, share, key)
  if (claimed && claimed.repeats >= maxRepeats) return undefined
  const views = claimed ? share.views : await ctx.store.shares.takeView(share, at)
  if (views === undefined) return undefined
  const content = await ctx.store.shares.openContent(share)
  if (!content) return undefined
  const viewsLeft = share.maxViews - views
  await note(ctx, share, claimed ? 'repeated' : 'success', { viewsLeft, ...(claimed && { repeated: true }) }, key.claim)
  const mayBeLost = await ctx.store.shareViews.hasClaimSince(share.id, at - claimMs)
  if (viewsLeft === 0 && !mayBeLost) await ctx.store.shares.erase(share)
  return { ...content, viewsLeft }
}

async function takeFailure(ctx: WriteContext, share: LockedShare): Promise<'refused' | undefined> {
  const failures = await ctx.store.shares.takeFailure(share, ctx.now())
  if (failures === undefined) return undefined
  const isLocked = failures >= share.maxFailures
  if (isLocked) await ctx.store.shares.erase(share)
  await note(ctx, share, 'failure', { failures, ...(isLocked && { state: 'locked' }) })
  return 'refused'
}

/** Records an attempt in the share's list of views, with IP address and user agent, and in the audit trail. */
async function note(
  ctx: WriteContext,
  share: ShareRecord,
  outcome: ShareOutcome,
  after: Record<string, unknown>,
  claim?: string,
): Promise<void> {
  const { ip, userAgent } = ctx.request
  await ctx.store.shareViews.insert({
    id: newId(),
    shareId: share.id,
    at: ctx.now(),
    ip,
    userAgent,
    outcome,
    claimHash: claim === undefined ? null : hashProof(claim),
  })
  await record(ctx, {
    chain: share.workspaceId,
    action: 'VIEW',
    entity: entity(share),
    projectId: share.projectId,
    environmentIds: share.environmentIds,
    outcome: outcome === 'failure' ? 'failure' : 'success',
    after,
  })
}
