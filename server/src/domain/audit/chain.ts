/** The head of an audit chain: locking, extending and signing it. */
import { setBounded } from '../../bounded-map.ts'
import { lengthPrefixed } from '../../crypto/envelope.ts'
import { isSignatureGenuine, signBytes } from '../../crypto/signing.ts'
import { Failure, isFailure } from '../../failure.ts'
import { type Log, traceOf } from '../../log.ts'
import type { AuditHead, LockedHead, SignedHead } from '../../store/audit/head.ts'
import type { Transaction } from '../../store/engine/sql.ts'
import type { Keys } from '../../store/key/key.ts'
import type { Store } from '../../store/store.ts'
import type { StoredLists } from './stored-list.ts'

/** The part of a context that the chain needs. The store must belong to the transaction. */
export type ChainContext = {
  readonly keys: Keys
  readonly store: Store
  readonly transaction: Transaction
  readonly log: Log
  readonly storedLists: StoredLists
}
export type ChainHead = Pick<AuditHead, 'sequence' | 'hash' | 'cutSequence'> & { readonly isSound: boolean }
const headName = (chain: string) => `audit:${chain}`

/** Locks the head until the commit. Transactions that share a commit pass it on in `scratch`. */
export async function lockChain(ctx: ChainContext, chain: string): Promise<ChainHead> {
  const { scratch } = ctx.transaction
  // The cast is safe: only this file uses this key.
  const known = scratch.get(headName(chain)) as ChainHead | undefined
  if (known) return known
  const stored = findLocked(ctx, chain) ?? (await orNothing(ctx, () => ctx.store.audit.lockHead(chain)))
  const isOurs = lastHeads(ctx.keys).get(chain) === headText(stored)
  const isSound = stored.sequence === 0 || isOurs || (await isHeadGenuine(ctx, chain, stored))
  if (!isSound) ctx.log.error('the signature of the head of an audit trail is wrong', { workspaceId: chain })
  const { sequence, hash, cutSequence } = stored
  const head = { sequence, hash, cutSequence, isSound }
  scratch.set(headName(chain), head)
  return head
}

/** The head as the transaction locked it at its start. */
function findLocked({ transaction }: ChainContext, chain: string): LockedHead | undefined {
  // The cast is safe: `headRows` are the only rows that a transaction locks at its start.
  return (transaction.locked as LockedHead[]).find(({ chainId }) => chainId === chain)
}

/** A change that cannot be audited must not happen: any error here fails the transaction, and the client may retry. */
export async function orNothing<Result>(ctx: Pick<ChainContext, 'log'>, write: () => Promise<Result>): Promise<Result> {
  try {
    return await write()
  } catch (cause) {
    if (isFailure(cause, 'unavailable')) throw cause
    ctx.log.error('the audit trail could not be written', traceOf(cause))
    throw new Failure('unrecorded', undefined, { cause })
  }
}

export async function isHeadGenuine(
  ctx: Pick<ChainContext, 'keys'>,
  chain: string,
  head: SignedHead,
): Promise<boolean> {
  const signer = await ctx.keys.findAuditSigner(head.keyId ?? '')
  if (!signer || !head.signature) return false
  return isSignatureGenuine(signer, headBytes(chain, head.sequence, head.hash), head.signature)
}

/** Moves the head. It is signed and written once, just before the commit. */
export function extendChain(ctx: ChainContext, chain: string, head: ChainHead): void {
  ctx.transaction.scratch.set(headName(chain), head)
  ctx.transaction.beforeCommit.set(headName(chain), () => signHead(ctx, chain, head))
}

/** Deletes entries up to this one. The new cut also invalidates what processes remember about stored key lists. */
export async function cutChain(ctx: ChainContext, chain: string, cutSequence: number): Promise<void> {
  const head = await lockChain(ctx, chain)
  await ctx.store.auditRetention.removeThrough(chain, cutSequence)
  ctx.transaction.scratch.set(headName(chain), { ...head, cutSequence })
}

/** Runs once per commit and chain, because a signature costs more than writing an entry. */
function signHead(ctx: ChainContext, chain: string, { sequence, hash, isSound }: ChainHead): Promise<void> {
  // Signing on top of a broken head would hide the break, so it stays unsigned.
  const unsigned = { sequence, hash, signature: null, keyId: null }
  if (!isSound) return orNothing(ctx, () => ctx.store.audit.saveHead(chain, unsigned))
  const signer = ctx.keys.signer('audit')
  const signature = signBytes(signer, headBytes(chain, sequence, hash))
  const head = { sequence, hash, signature, keyId: signer.id }
  ctx.transaction.afterCommit.push(() => setBounded(lastHeads(ctx.keys), maxHeads, chain, headText(head)))
  return orNothing(ctx, () => ctx.store.audit.saveHead(chain, head))
}

/** The heads that this process signed last. They need no verification, which costs more than signing. */
const heads = new WeakMap<Keys, Map<string, string>>()
const maxHeads = 10_000

function lastHeads(keys: Keys): Map<string, string> {
  const known = heads.get(keys) ?? new Map<string, string>()
  heads.set(keys, known)
  return known
}

function headText({ sequence, hash, signature, keyId }: SignedHead): string {
  return `${sequence} ${hash} ${keyId} ${signature && Buffer.from(signature).toString('base64')}`
}

function headBytes(chain: string, sequence: number, hash: string): Buffer {
  return lengthPrefixed(['audit-head', chain, String(sequence), hash])
}
