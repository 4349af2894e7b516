/** Verifies an archive offline, from the file alone. */
import { hash } from 'node:crypto'
import { isSignedBy } from '../../../crypto/signing.ts'
import { entriesOfText } from '../../../store/audit/batch.ts'
import { type AuditRow, hashEntry } from '../../../store/audit/entry.ts'
import { createDetailsReader, isListGenuine } from '../../../store/audit/key-list.ts'
import { type ChainPlace, markBytes } from '../mark.ts'
import { toEntry } from '../trail.ts'
import { type ArchiveEnd, type ArchiveHeader, type ArchiveLine, archiveFormat } from './archive.ts'

export type CheckedArchive = {
  readonly chain: string
  readonly after: ChainPlace
  readonly through: ChainPlace
  /** SHA-256 of the public key that verifies the signature. */
  readonly keyFingerprint: string
}

/** Throws an Error with a one-sentence message at the first invalid line. */
export async function checkArchive(lines: AsyncIterable<string>): Promise<CheckedArchive> {
  let number = 0
  let header: ArchiveHeader | undefined
  let place: ChainPlace = { sequence: 0, hash: '' }
  let expected: AuditRow[] = []
  let end: CheckedArchive | undefined
  const wrong = (problem: string) => new Error(`line ${number}: ${problem}`)
  let line: ArchiveLine | undefined
  const readDetails = createDetailsReader(async (digest) => findListIn(line, digest))

  for await (const text of lines) {
    number++
    if (end) throw wrong('there is data after the signed last line.')
    const parsed = parseLine(text)
    if (!parsed) throw wrong('this is not a line of an archive.')
    if (!header) {
      if (!('format' in parsed) || parsed.format !== archiveFormat) throw wrong(`this is not a ${archiveFormat}.`)
      header = parsed
      place = header.after
      continue
    }
    if ('through' in parsed) {
      if (expected.length > 0) throw wrong('entries are missing before this line.')
      end = checkEnd(header, place, parsed)
      if (!end) throw wrong('the signature does not match the entries before it.')
      continue
    }
    if (!('sequence' in parsed)) throw wrong('this is not an entry.')
    line = parsed
    const { link, ...entry } = parsed
    if (link !== undefined) {
      if (expected.length > 0 || hashEntry(place.hash, link) !== entry.hash) {
        throw wrong('this entry does not continue the chain.')
      }
      expected = entriesOfText(link, entry.hash)
      const [first] = expected
      if (first?.chainId !== header.chain || first.sequence !== place.sequence + 1) {
        throw wrong('entries are missing before this line.')
      }
      place = { sequence: place.sequence + expected.length, hash: entry.hash }
    }
    const row = expected.shift()
    const written = row && JSON.stringify(toEntry(row, await readDetails(row.details)))
    if (written !== JSON.stringify(entry)) throw wrong('this entry does not match its hash.')
  }
  if (!end) throw wrong('the signed last line is missing: the file is incomplete.')
  return end
}

function checkEnd(
  { chain, after }: ArchiveHeader,
  place: ChainPlace,
  { through }: ArchiveEnd,
): CheckedArchive | undefined {
  const isHere = through.sequence === place.sequence && through.hash === place.hash
  const signature = Buffer.from(String(through.signature), 'base64')
  if (!isHere || !isSignedBy(through.publicKey, markBytes(chain, 'archive', through), signature)) return undefined
  const keyFingerprint = hash('sha256', Buffer.from(through.publicKey, 'base64'), 'hex')
  return { chain, after, through: place, keyFingerprint }
}

/** The list with this digest, found in the entry that contains it. */
function findListIn(line: ArchiveLine | undefined, digest: string): string | undefined {
  return Object.values(line?.after ?? {})
    .map((value) => JSON.stringify(value))
    .find((text) => isListGenuine(digest, text))
}

function parseLine(text: string): ArchiveHeader | ArchiveLine | ArchiveEnd | undefined {
  try {
    const parsed: unknown = JSON.parse(text)
    // The cast is safe: every field is compared with hashed or signed data before it is used.
    return typeof parsed === 'object' && parsed !== null ? (parsed as ArchiveLine) : undefined
  } catch {
    return undefined
  }
}
