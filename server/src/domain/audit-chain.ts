/** The chain of the audit trail: its end, its signature, and the check that it is still what was written. */
import type { AuditVerdict } from '@coffer/contract/audit'
import { lengthPrefixed } from '../crypto/envelope.ts'
import { isSignatureGenuine, signBytes } from '../crypto/signing.ts'
import { Failure, isFailure } from '../failure.ts'
import { traceOf } from '../log.ts'
import type { AuditHead, SignedHead } from '../store/audit.ts'
import { type AuditLink, type AuditRow, emptyHash, hashEntry } from '../store/audit-entry.ts'
import { digestsIn, isListGenuine } from '../store/audit-key-list.ts'
import type { Keys } from '../store/key.ts'
import { nextTurn } from '../turns.ts'
import { type Context, systemChain, type WriteContext } from './context.ts'

/** What the chain needs of a context: the store must be that of the transaction. */
export type ChainContext = Pick<WriteContext, 'keys' | 'store' | 'transaction' | 'log' | 'storedLists'>
export type ChainHead = Pick<AuditHead, 'sequence' | 'hash' | 'cutSequence'> & { readonly isSound: boolean }
const headName = (chain: string) => `audit:${chain}`

/** The end of the chain, locked until the commit; transactions that share a commit hand it on to each other. */
export async function lockChain(ctx: ChainContext, chain: string): Promise<ChainHead> {
  const { scratch } = ctx.transaction
  // Only this file writes under this name.
  const known = scratch.get(headName(chain)) as ChainHead | undefined
  if (known) return known
  const stored = await orNothing(ctx, () => ctx.store.audit.lockHead(chain))
  const isOurs = lastHeads(ctx.keys).get(chain) === headText(stored)
  const isSound = stored.sequence === 0 || isOurs || (await isHeadGenuine(ctx, chain, stored))
  if (!isSound) ctx.log.error('the head of an audit trail is not what was signed', { workspaceId: chain })
  const { sequence, hash, cutSequence } = stored
  const head = { sequence, hash, cutSequence, isSound }
  scratch.set(headName(chain), head)
  return head
}

/** What cannot be recorded does not happen, whatever is wrong with the trail; the caller may try again. */
export async function orNothing<Result>(ctx: Pick<Context, 'log'>, write: () => Promise<Result>): Promise<Result> {
  try {
    return await write()
  } catch (cause) {
    if (isFailure(cause, 'unavailable')) throw cause
    ctx.log.error('the audit trail could not be written', traceOf(cause))
    throw new Failure('unrecorded', undefined, { cause })
  }
}

async function isHeadGenuine(ctx: Pick<Context, 'keys'>, chain: string, head: SignedHead): Promise<boolean> {
  const signer = await ctx.keys.findAuditSigner(head.keyId ?? '')
  if (!signer || !head.signature) return false
  return isSignatureGenuine(signer, headBytes(chain, head.sequence, head.hash), head.signature)
}

/** Moves the end of the chain on; it is signed and written once, before the commit. */
export function extendChain(ctx: ChainContext, chain: string, head: ChainHead): void {
  ctx.transaction.scratch.set(headName(chain), head)
  ctx.transaction.beforeCommit.set(headName(chain), () => signHead(ctx, chain))
}

/** Once per commit and chain: a signature costs more than the entry. */
async function signHead(ctx: ChainContext, chain: string): Promise<void> {
  const { sequence, hash, isSound } = await lockChain(ctx, chain)
  // To sign what follows a broken head would make it whole again: the break stays visible.
  const unsigned = { sequence, hash, signature: null, keyId: null }
  if (!isSound) return orNothing(ctx, () => ctx.store.audit.saveHead(chain, unsigned))
  const signer = ctx.keys.signer('audit')
  const signature = signBytes(signer, headBytes(chain, sequence, hash))
  const head = { sequence, hash, signature, keyId: signer.id }
  await orNothing(ctx, () => ctx.store.audit.saveHead(chain, head))
  ctx.transaction.afterCommit.push(() => remember(ctx.keys, chain, headText(head)))
}

/** The heads that this process signed last: checking a signature costs more than making one, and these need none. */
const heads = new WeakMap<Keys, Map<string, string>>()
const maxHeads = 10_000

function lastHeads(keys: Keys): Map<string, string> {
  const known = heads.get(keys) ?? new Map<string, string>()
  heads.set(keys, known)
  return known
}

function remember(keys: Keys, chain: string, text: string): void {
  const known = lastHeads(keys)
  if (known.size >= maxHeads) known.clear()
  known.set(chain, text)
}

function headText({ sequence, hash, signature, keyId }: SignedHead): string {
  return `${sequence} ${hash} ${keyId} ${signature && Buffer.from(signature).toString('base64')}`
}

function headBytes(chain: string, sequence: number, hash: string): Buffer {
  return lengthPrefixed(['audit-head', chain, String(sequence), hash])
}

/** `onStretch` hears after each stretch how many entries hold so far. */
export async function verifyChain(
  ctx: Pick<Context, 'store' | 'keys'>,
  chain: string,
  onStretch: (entries: number) => void = () => undefined,
): Promise<AuditVerdict> {
  const head = await ctx.store.audit.findHead(chain)
  const end = head?.sequence ?? 0
  const findProblem = createLinkCheck(ctx, chain)
  let previous = emptyHash
  let sequence = 0
  while (sequence < end) {
    const stretch = await ctx.store.audit.stretchAfter(chain, sequence, end)
    const links = await ctx.store.audit.listLinks(chain, stretch)
    for (const link of links) {
      const reason = await findProblem(link, sequence, previous)
      if (reason) return { ok: false, entries: sequence, head: previous, firstBroken: sequence + 1, reason }
      sequence = link.entries.at(-1)?.sequence ?? sequence
      previous = link.hash
    }
    if (links.length === 0) {
      return { ok: false, entries: sequence, head: previous, firstBroken: sequence + 1, reason: 'Entries are missing.' }
    }
    onStretch(sequence)
    await nextTurn()
  }
  const broken = { ok: false, entries: end, head: previous, firstBroken: end + 1 }
  // A workspace has at least the entry of its making; only a new installation has none.
  if (end === 0 && chain !== systemChain) return { ...broken, reason: 'Entries are missing.' }
  if (head && end > 0 && (head.hash !== previous || !(await isHeadGenuine(ctx, chain, head)))) {
    return { ...broken, firstBroken: end, reason: 'The signature of the head is wrong.' }
  }
  if (await hasEntriesAfter(ctx, chain, end))
    return { ...broken, reason: 'Entries follow that the head does not know.' }
  return { ok: true, entries: end, head: previous }
}

type LinkCheck = (link: AuditLink, sequence: number, previousHash: string) => Promise<string | undefined>

/** Says what is wrong with a link that should follow this hash: its place, its text, or a list that it refers to. */
function createLinkCheck({ store }: Pick<Context, 'store'>, chain: string): LinkCheck {
  const genuine = new Set<string>()
  const isGenuine = async (digest: string) => {
    if (!genuine.has(digest) && !isListGenuine(digest, await store.audit.findList(chain, digest))) return false
    genuine.add(digest)
    return true
  }
  return async ({ entries, text, hash }, sequence, previousHash) => {
    const [first] = entries
    if (first?.sequence !== sequence + 1) return 'Entries are missing.'
    const isWritten = hashEntry(previousHash, text) === hash && (sequence > 0 || isBeginning(chain, first))
    if (!isWritten) return 'This entry is not what was written.'
    for (const digest of new Set(entries.flatMap(({ details }) => digestsIn(details)))) {
      if (!(await isGenuine(digest))) return 'A list of keys that this entry refers to is missing or was changed.'
    }
    return undefined
  }
}

/** Every workspace's trail begins with its making: one that was emptied and begun anew does not. */
function isBeginning(chain: string, row: AuditRow): boolean {
  return chain === systemChain || (row.action === 'CREATE' && row.entityType === 'workspace' && row.entityId === chain)
}

async function hasEntriesAfter(ctx: Pick<Context, 'store'>, chain: string, end: number): Promise<boolean> {
  if (!(await ctx.store.audit.hasAfter(chain, end))) return false
  // An entry commits together with its head: if that has moved on, it was written while we read.
  return ((await ctx.store.audit.findHead(chain))?.sequence ?? 0) <= end
}
