/** The one place that writes the audit trail, and the check that it is still what was written. */
import type { AuditAction, AuditVerdict } from '@coffer/contract/audit'
import { lengthPrefixed } from '../crypto/envelope.ts'
import { newId } from '../crypto/id.ts'
import { isSignatureGenuine, signBytes } from '../crypto/signing.ts'
import { type AuditHead, type AuditRow, emptyHash, hashEntry } from '../store/audit.ts'
import type { Context, WriteContext } from './context.ts'

export type AuditEvent = {
  readonly chain: string
  readonly action: AuditAction
  readonly entity: { readonly type: string; readonly id: string; readonly name: string }
  readonly projectId?: string
  readonly environmentId?: string
  readonly outcome?: 'success' | 'failure'
  readonly before?: Record<string, unknown>
  readonly after?: Record<string, unknown>
}

const maxUserAgentLength = 256
const stretchLength = 2_000

/** Call inside the transaction of the change it records: both commit, or neither. */
export async function record(ctx: WriteContext, event: AuditEvent): Promise<void> {
  const head = await lockChain(ctx, event.chain)
  const unhashed = {
    chainId: event.chain,
    sequence: head.sequence + 1,
    id: newId(),
    at: ctx.now(),
    actorType: ctx.actor.type,
    actorId: ctx.actor.id,
    actorName: ctx.actor.name,
    action: event.action,
    entityType: event.entity.type,
    entityId: event.entity.id,
    entityName: event.entity.name,
    projectId: event.projectId ?? null,
    environmentId: event.environmentId ?? null,
    ip: ctx.request.ip,
    userAgent: ctx.request.userAgent.slice(0, maxUserAgentLength),
    requestId: ctx.request.id,
    outcome: event.outcome ?? 'success',
    details: JSON.stringify({ before: event.before, after: event.after }),
  }
  const row: AuditRow = { ...unhashed, hash: hashEntry(head.hash, unhashed) }
  await ctx.store.audit.insert(row)
  ctx.transaction.scratch.set(headName(event.chain), { sequence: row.sequence, hash: row.hash })
  ctx.transaction.beforeCommit.set(headName(event.chain), () => signHead(ctx, event.chain))
}

type ChainHead = Pick<AuditHead, 'sequence' | 'hash'>
const headName = (chain: string) => `audit:${chain}`

/** The end of the chain, locked until the commit; transactions that share a commit hand it on to each other. */
export async function lockChain(ctx: WriteContext, chain: string): Promise<ChainHead> {
  const { scratch } = ctx.transaction
  // Only this file writes under this name.
  const known = scratch.get(headName(chain)) as ChainHead | undefined
  if (known) return known
  const head = await ctx.store.audit.lockHead(chain)
  scratch.set(headName(chain), head)
  return head
}

/** Once per commit and chain: a signature costs more than the entry. */
async function signHead(ctx: WriteContext, chain: string): Promise<void> {
  const { sequence, hash } = await lockChain(ctx, chain)
  const signer = ctx.keys.signer('audit')
  const signature = signBytes(signer, headBytes(chain, sequence, hash))
  await ctx.store.audit.saveHead(chain, { sequence, hash, signature, keyId: signer.id })
}

function headBytes(chain: string, sequence: number, hash: string): Buffer {
  return lengthPrefixed(['audit-head', chain, String(sequence), hash])
}

export async function verifyChain(ctx: Pick<Context, 'store' | 'keys'>, chain: string): Promise<AuditVerdict> {
  const head = await ctx.store.audit.findHead(chain)
  const end = head?.sequence ?? 0
  let previous = emptyHash
  let sequence = 0
  while (sequence < end) {
    const rows = await ctx.store.audit.listStretch(chain, sequence, Math.min(sequence + stretchLength, end))
    for (const row of rows) {
      const isNext = row.sequence === sequence + 1
      if (!isNext || hashEntry(previous, row) !== row.hash) {
        const reason = isNext ? 'This entry is not what was written.' : 'Entries are missing.'
        return { ok: false, entries: sequence, head: previous, firstBroken: sequence + 1, reason }
      }
      sequence = row.sequence
      previous = row.hash
    }
    if (rows.length === 0) {
      return { ok: false, entries: sequence, head: previous, firstBroken: sequence + 1, reason: 'Entries are missing.' }
    }
    await new Promise((resolve) => setImmediate(resolve))
  }
  if (!head || end === 0) return { ok: true, entries: 0, head: emptyHash }
  const signer = ctx.keys.findSigner(head.keyId ?? '')
  const isSigned =
    signer && head.signature && isSignatureGenuine(signer, headBytes(chain, end, head.hash), head.signature)
  if (head.hash !== previous || !isSigned) {
    return { ok: false, entries: end, head: previous, firstBroken: end, reason: 'The signature of the head is wrong.' }
  }
  return { ok: true, entries: end, head: previous }
}
