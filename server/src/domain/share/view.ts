/**
 * The public side of shares. Strangers always get the same 404 for the same work: a lookup by the keyed hash of the
 * token they sent, and a comparison of proofs. The service hashes a password or records an attempt only for callers
 * with the link's proof, or with a token that needs none: strangers cannot use up, lock or slow down a share.
 */
import type { OpenedShare, ShareKey, ShareMeta, ShareTokenPath } from '@coffer/contract/share'
import { verifyPassword } from '../../crypto/password.ts'
import { isProofRight } from '../../crypto/share-proof.ts'
import { Failure } from '../../failure.ts'
import type { LockedShare } from '../../store/share/share.ts'
import { findShareEnd } from '../access/on-behalf.ts'
import type { Context } from '../context.ts'
import { inPasswordSlot, inSharePasswordSlot, inTokenLookUpSlot } from '../slot.ts'
import { iso } from '../time.ts'
import { inQuietTransaction } from '../transaction.ts'
import { findClaim, isOver, takeOpening } from './opening.ts'

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
  const opened = await takeOpening({ ctx, share, key, isRight })
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

function holdsLink(share: LockedShare | undefined, key: ShareKey): boolean {
  const isRight = isProofRight(share?.linkProofHash, key.linkProof)
  return share?.kind === 'server' || isRight
}

/** A used-up share opens only for readers who took a view and may have lost the response. */
async function isOpenFor(ctx: Context, share: LockedShare, key: ShareKey): Promise<boolean> {
  if (share.state === 'active') return true
  return share.state === 'exhausted' && (await findClaim(ctx.store, share, key, ctx.now())) !== undefined
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
