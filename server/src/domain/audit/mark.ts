/** Signed records of how far a chain was archived or deleted: database access is not enough to forge one. */
import { lengthPrefixed } from '../../crypto/envelope.ts'
import { isSignatureGenuine, signBytes } from '../../crypto/signing.ts'
import { Failure } from '../../failure.ts'
import { emptyHash } from '../../store/audit/entry.ts'
import type { AuditMark, MarkKind } from '../../store/audit/retention.ts'
import type { Context } from '../context.ts'

/** A position in a chain: sequence and hash of an entry. */
export type ChainPlace = Pick<AuditMark, 'sequence' | 'hash'>

export const chainStart: ChainPlace = { sequence: 0, hash: emptyHash }

/** Undefined if the record fails its signature check; the start of the chain if there is no record. */
export async function findMark(
  { store, keys }: Pick<Context, 'store' | 'keys'>,
  chain: string,
  kind: MarkKind,
): Promise<ChainPlace | undefined> {
  const mark = await store.auditRetention.findMark(chain, kind)
  if (!mark) return chainStart
  const signer = await keys.findAuditSigner(mark.keyId)
  const isGenuine = signer && isSignatureGenuine(signer, markBytes(chain, kind, mark), mark.signature)
  return isGenuine ? mark : undefined
}

export async function requireMark(
  ctx: Pick<Context, 'store' | 'keys'>,
  chain: string,
  kind: MarkKind,
): Promise<ChainPlace> {
  const mark = await findMark(ctx, chain, kind)
  if (mark) return mark
  throw new Failure('integrity', `The signature of the record of the last ${kind} of the audit trail is wrong.`)
}

export function signMark(
  ctx: Pick<Context, 'keys' | 'now'>,
  chain: string,
  kind: MarkKind,
  place: ChainPlace,
): AuditMark {
  const signer = ctx.keys.signer('audit')
  const { sequence, hash } = place
  const mark = { sequence, hash, at: ctx.now() }
  return { ...mark, signature: signBytes(signer, markBytes(chain, kind, mark)), keyId: signer.id }
}

export function markBytes(chain: string, kind: MarkKind, mark: Pick<AuditMark, 'sequence' | 'hash' | 'at'>): Buffer {
  return lengthPrefixed(['audit-mark', kind, chain, String(mark.sequence), mark.hash, String(mark.at)])
}
