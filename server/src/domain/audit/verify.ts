/** Verifies an audit chain: every link, every key list, the record of the last cut, and the signed head. */
import type { AuditVerdict } from '@coffer/contract/audit'
import { Failure } from '../../failure.ts'
import { type AuditLink, type AuditRow, hashEntry } from '../../store/audit/entry.ts'
import { digestsIn, isListGenuine } from '../../store/audit/key-list.ts'
import type { Context } from '../context.ts'
import { isHeadGenuine } from './chain.ts'
import { systemChain } from './event.ts'
import { type ChainPlace, chainStart, findMark } from './mark.ts'

type VerifyContext = Pick<Context, 'store' | 'keys' | 'longWork'>

/** `onProgress` is called repeatedly with the number of entries verified so far. */
export async function verifyChain(
  ctx: VerifyContext,
  chain: string,
  onProgress: (entries: number) => void = () => undefined,
): Promise<AuditVerdict> {
  let cut = await findMark(ctx, chain, 'cut')
  while (cut) {
    const verdict = await verifyAfter(ctx, chain, cut, onProgress)
    const newer = verdict.ok ? cut : await findMark(ctx, chain, 'cut')
    if (newer?.sequence === cut.sequence) return verdict
    // Entries were deleted during the check: start again after the new cut.
    cut = newer
  }
  const reason = 'The signature of the record of the last removal is wrong.'
  return { ok: false, entries: 0, head: chainStart.hash, firstBroken: 1, reason }
}

async function verifyAfter(
  ctx: VerifyContext,
  chain: string,
  cut: ChainPlace,
  onProgress: (entries: number) => void,
): Promise<AuditVerdict> {
  const head = await ctx.store.audit.findHead(chain)
  const end = head?.sequence ?? 0
  let place = cut
  const broken = (firstBroken: number, reason: string) => {
    return { ok: false, entries: place.sequence - cut.sequence, head: place.hash, firstBroken, reason }
  }
  if (cut.sequence > 0 && (await ctx.store.auditRetention.hasEntriesThrough(chain, cut.sequence))) {
    return broken(cut.sequence, 'Entries that were removed are there again.')
  }
  for await (const step of walkLinks(ctx, chain, cut, end)) {
    if (step.problem !== undefined) return broken(place.sequence + 1, step.problem)
    place = step.place
    onProgress(place.sequence - cut.sequence)
  }
  // Every workspace has at least the entry of its creation; only the system chain of a new installation is empty.
  if (end < Math.max(cut.sequence, chain === systemChain ? 0 : 1)) return broken(end + 1, 'Entries are missing.')
  if (head && end > 0 && (head.hash !== place.hash || !(await isHeadGenuine(ctx, chain, head)))) {
    return broken(end, 'The signature of the head is wrong.')
  }
  if (await hasEntriesAfter(ctx, chain, end)) return broken(end + 1, 'There are entries after the signed head.')
  return { ok: true, entries: place.sequence - cut.sequence, head: place.hash }
}

/** A link, and the position where it ends. */
type Link = { readonly link: AuditLink; readonly place: ChainPlace; readonly problem?: undefined }
/** `problem` says why the next link is invalid; it is always the last step. */
type Step = Link | { readonly problem: string }

/** The links after `start`, oldest first, up to the one that reaches `end`. */
async function* walkLinks(
  ctx: Pick<Context, 'store' | 'longWork'>,
  chain: string,
  start: ChainPlace,
  end: number,
): AsyncGenerator<Step, void> {
  const findProblem = createLinkCheck(ctx, chain)
  const { giveWay } = await ctx.longWork.start()
  let place = start
  while (place.sequence < end) {
    const stretch = await ctx.store.audit.stretchAfter(chain, place.sequence, end)
    const links = await ctx.store.audit.listLinks(chain, stretch)
    if (links.length === 0) return yield { problem: 'Entries are missing.' }
    for (const link of links) {
      const problem = await findProblem(link, place)
      if (problem !== undefined) return yield { problem }
      place = { sequence: link.entries.at(-1)?.sequence ?? place.sequence, hash: link.hash }
      yield { link, place }
      await giveWay()
    }
  }
}

/** The same, for work that must not go on with a broken chain. Entries that another process removes meanwhile are no break. */
export async function* requireLinks(
  ctx: VerifyContext,
  chain: string,
  start: ChainPlace,
  end: number,
): AsyncGenerator<Link, void> {
  let last = start.sequence
  for await (const step of walkLinks(ctx, chain, start, end)) {
    if (step.problem !== undefined) {
      const cut = await findMark(ctx, chain, 'cut')
      if (cut && cut.sequence > last) throw new Failure('conflict', interrupted)
      throw new Failure('integrity', `The audit trail is broken at entry ${last + 1}: ${step.problem}`)
    }
    last = step.place.sequence
    yield step
  }
}

export const interrupted = 'Another process has removed entries of the audit trail meanwhile: run the command again.'

const maxRemembered = 10_000

type LinkCheck = (link: AuditLink, after: ChainPlace) => Promise<string | undefined>

/** Checks that a link follows this position: its sequence, its hash, and the key lists that it refers to. */
function createLinkCheck({ store }: Pick<Context, 'store'>, chain: string): LinkCheck {
  const genuine = new Set<string>()
  const isGenuine = async (digest: string) => {
    if (!genuine.has(digest) && !isListGenuine(digest, await store.audit.findList(chain, digest))) return false
    // Neighbouring entries refer to the same lists; a trail of years may refer to more than memory should hold.
    if (genuine.size >= maxRemembered) genuine.clear()
    genuine.add(digest)
    return true
  }
  return async ({ entries, text, hash }, after) => {
    const [first] = entries
    if (first?.sequence !== after.sequence + 1) return 'Entries are missing.'
    const isWritten = hashEntry(after.hash, text) === hash && (after.sequence > 0 || isBeginning(chain, first))
    if (!isWritten) return 'This entry was changed.'
    for (const digest of new Set(entries.flatMap(({ details }) => digestsIn(details)))) {
      if (!(await isGenuine(digest))) return 'A list of keys that this entry refers to is missing or was changed.'
    }
    return undefined
  }
}

/** Every workspace chain starts with the creation of the workspace, so an emptied and restarted chain is detected. */
function isBeginning(chain: string, row: AuditRow): boolean {
  return chain === systemChain || (row.action === 'CREATE' && row.entityType === 'workspace' && row.entityId === chain)
}

async function hasEntriesAfter(ctx: Pick<Context, 'store'>, chain: string, end: number): Promise<boolean> {
  if (!(await ctx.store.audit.hasAfter(chain, end))) return false
  // An entry commits with its head: if the head has moved too, the entry was only written during this check.
  return ((await ctx.store.audit.findHead(chain))?.sequence ?? 0) <= end
}
