/**
 * Archives of the audit trail: NDJSON that can be verified without the service. The first line names the chain and the
 * position that the file continues from; then one line per entry, as the API shows it; the last line is signed. The
 * first entry of each link also carries `link`, the text that was hashed.
 */
import type { AuditEntry } from '@coffer/contract/audit'
import { exportPublicKey } from '../../../crypto/signing.ts'
import { Failure } from '../../../failure.ts'
import type { AuditMark } from '../../../store/audit/retention.ts'
import type { Context } from '../../context.ts'
import { inTransaction } from '../../transaction.ts'
import { type ChainPlace, findMark, requireMark, signMark } from '../mark.ts'
import { detailsReader, toEntry } from '../trail.ts'
import { requireLinks, verifyChain } from '../verify.ts'
import { isBefore } from './retention.ts'

export const archiveFormat = 'coffer-audit-archive-1'

export type ArchiveHeader = { readonly format: string; readonly chain: string; readonly after: ChainPlace }
export type ArchiveLine = AuditEntry & { readonly link?: string }
/** Signature and public key in base64, the key as SPKI. */
export type ArchiveEnd = {
  readonly through: Omit<AuditMark, 'signature'> & { readonly signature: string; readonly publicKey: string }
}

type Archived = { readonly after: ChainPlace; readonly mark: AuditMark }

/**
 * Writes the entries older than `beforeMs` that are in no archive yet; undefined, without writing, if there are none.
 */
export async function writeArchive(
  ctx: Context,
  chain: string,
  beforeMs: number,
  write: (line: ArchiveHeader | ArchiveLine | ArchiveEnd) => Promise<void>,
): Promise<Archived | undefined> {
  const end = (await ctx.store.audit.findHead(chain))?.sequence ?? 0
  const verdict = await verifyChain(ctx, chain)
  // An archive must not hide a break: nobody could tell genuine entries from forged ones after it.
  if (!verdict.ok)
    throw new Failure('integrity', `The audit trail is broken at entry ${verdict.firstBroken}: ${verdict.reason}`)
  const after = await findArchiveStart(ctx, chain)
  const readDetails = detailsReader(ctx, chain)
  let last = after
  for await (const { link, place } of requireLinks(ctx, chain, after, end)) {
    if (!isBefore(link, beforeMs)) break
    if (last === after)
      await write({ format: archiveFormat, chain, after: { sequence: after.sequence, hash: after.hash } })
    for (const [index, row] of link.entries.entries()) {
      const entry = toEntry(row, await readDetails(row.details))
      await write(index === 0 ? { ...entry, link: link.text } : entry)
    }
    last = place
  }
  if (last === after) return undefined
  const mark = signMark(ctx, chain, 'archive', last)
  const { signature, ...signed } = mark
  const publicKey = exportPublicKey(ctx.keys.signer('audit'))
  await write({ through: { ...signed, signature: Buffer.from(signature).toString('base64'), publicKey } })
  return { after, mark }
}

/** A tampered record of the last archive is ignored: archiving entries twice is better than losing them. */
async function findArchiveStart(ctx: Context, chain: string): Promise<ChainPlace> {
  const cut = await requireMark(ctx, chain, 'cut')
  const archived = await findMark(ctx, chain, 'archive')
  return archived && archived.sequence > cut.sequence ? archived : cut
}

/** Call once the file is safely on disk: from then on its entries may be deleted from the store. */
export async function noteArchive(ctx: Context, chain: string, { mark }: Archived): Promise<void> {
  await inTransaction(ctx, chain, async (ctx) => {
    const newest = await findArchiveStart(ctx, chain)
    // Another run may have archived further in the meantime.
    if (newest.sequence < mark.sequence) ctx.store.auditRetention.saveMark(chain, 'archive', mark)
  })
}
