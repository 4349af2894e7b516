/** The head of an audit chain: finding and verifying it, and signing the next one. */
import { lengthPrefixed } from '../../crypto/envelope.ts'
import { isSignatureGenuine, signBytes } from '../../crypto/signing.ts'
import { Failure, isFailure } from '../../failure.ts'
import { type Log, traceOf } from '../../log.ts'
import type { AuditHead, LockedHead, SignedHead } from '../../store/audit/head.ts'
import type { Transaction } from '../../store/engine/sql.ts'
import type { Keys } from '../../store/key/key.ts'
import type { Store } from '../../store/store.ts'
import type { ChainMemory } from './chain-memory.ts'

/** The part of a context that the chain needs. The store must belong to the transaction. */
export type ChainContext = {
  readonly keys: Keys
  readonly store: Store
  readonly transaction: Pick<Transaction, 'locked'>
  readonly log: Log
  readonly chainMemory: ChainMemory
}
export type ChainHead = Pick<AuditHead, 'sequence' | 'hash' | 'cutSequence'> & { readonly isSound: boolean }

/** The head as it was stored before the transaction, locked until its commit. */
export async function lockHead(ctx: ChainContext, chain: string): Promise<ChainHead> {
  const stored = findLocked(ctx, chain) ?? (await orNothing(ctx, () => ctx.store.audit.lockHead(chain)))
  const isOurs = ctx.chainMemory.isOwnHead(chain, stored)
  const isSound = stored.sequence === 0 || isOurs || (await isHeadGenuine(ctx, chain, stored))
  if (!isSound) ctx.log.error('the signature of the head of an audit trail is wrong', { workspaceId: chain })
  const { sequence, hash, cutSequence } = stored
  return { sequence, hash, cutSequence, isSound }
}

/** A chain without entries has no head that a transaction could lock at its start; another node may begin it too. */
export async function lockMissingHeads(ctx: ChainContext, chains: readonly string[]): Promise<void> {
  if (!ctx.transaction.locked) return
  for (const chain of chains) {
    if (!findLocked(ctx, chain)) await orNothing(ctx, () => ctx.store.audit.lockHead(chain))
  }
}

/** The head as the transaction locked it at its start. */
function findLocked({ transaction }: ChainContext, chain: string): LockedHead | undefined {
  // The cast is safe: `headRows` are the only rows that a transaction locks at its start.
  return (transaction.locked as LockedHead[] | undefined)?.find(({ chainId }) => chainId === chain)
}

/** A change that cannot be audited must not happen: any error here fails the transaction, and the client may retry. */
async function orNothing<Result>(ctx: Pick<ChainContext, 'log'>, write: () => Promise<Result>): Promise<Result> {
  try {
    return await write()
  } catch (cause) {
    throw asUnrecorded(ctx, cause)
  }
}

export function asUnrecorded({ log }: Pick<ChainContext, 'log'>, cause: unknown): unknown {
  if (isFailure(cause, 'unavailable')) return cause
  log.error('the audit trail could not be written', traceOf(cause))
  return new Failure('unrecorded', undefined, { cause })
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

/** Once per commit and chain, because a signature costs more than writing an entry. */
export function signHead({ keys }: ChainContext, chain: string, { sequence, hash, isSound }: ChainHead): SignedHead {
  // Signing on top of a broken head would hide the break, so it stays unsigned.
  if (!isSound) return { sequence, hash, signature: null, keyId: null }
  const signer = keys.signer('audit')
  return { sequence, hash, signature: signBytes(signer, headBytes(chain, sequence, hash)), keyId: signer.id }
}

function headBytes(chain: string, sequence: number, hash: string): Buffer {
  return lengthPrefixed(['audit-head', chain, String(sequence), hash])
}
