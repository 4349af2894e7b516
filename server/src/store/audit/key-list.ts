/**
 * Long lists of names in audit details. Each chain stores a list once, under its SHA-256 digest. The details hold the
 * digest instead, so the entry's hash still covers the list.
 */
import { hash } from 'node:crypto'

export type KeyList = { readonly digest: string; readonly text: string }

export type CompactDetails = { readonly text: string; readonly lists: readonly KeyList[] }

export type Details = {
  readonly before?: Record<string, unknown>
  readonly after?: Record<string, unknown>
  /** Whether the address of the person, or of a token's creator, was confirmed then; absent for other actors. */
  readonly actorVerified?: boolean
}

/** Adds `actorVerified` to the JSON text of the details. */
export function withActorVerified(text: string, isVerified: boolean | undefined): string {
  if (isVerified === undefined) return text
  return `{"actorVerified":${isVerified}${text === '{}' ? '' : ','}${text.slice(1)}`
}

/**
 * A list's `last_sequence` is updated at most once per this many entries, so entries that refer to the list may lie up
 * to this far beyond it.
 */
export const listSpan = 2_000

/** A shorter list is hardly larger than its digest. */
const minLength = 256

/** The stored form: `lists` names the fields of `after` that hold a digest instead of their list. */
export function compactDetails({
  before,
  after,
}: { [Part in 'before' | 'after']?: Details[Part] | undefined }): CompactDetails {
  const lists = new Map<string, KeyList>()
  for (const [field, value] of Object.entries(after ?? {})) {
    const text = isTextList(value) ? JSON.stringify(value) : ''
    if (text.length >= minLength) lists.set(field, { digest: digestOf(text), text })
  }
  if (lists.size === 0) return { text: JSON.stringify({ before, after }), lists: [] }
  const digests = Object.fromEntries([...lists].map(([field, { digest }]) => [field, digest]))
  const text = JSON.stringify({ before, after: { ...after, ...digests }, lists: [...lists.keys()] })
  return { text, lists: [...lists.values()] }
}

const digestOf = (text: string) => hash('sha256', text, 'hex')

/** True if the text is the list that the digest stands for. */
export function isListGenuine(digest: string, text: string | undefined): text is string {
  return text !== undefined && digestOf(text) === digest
}

type Parsed = Details & { readonly digests: ReadonlyMap<string, string> }

/** Details that were tampered with parse as empty; the chain check reports them. */
function parse(details: string): Parsed {
  try {
    const { before, after, lists, actorVerified } = Object(JSON.parse(details))
    const fields = isRecord(after) && isTextList(lists) ? lists : []
    const digests = fields.map((field): [string, string] => [field, String(after[field])])
    return {
      ...(isRecord(before) && { before }),
      ...(isRecord(after) && { after }),
      ...(typeof actorVerified === 'boolean' && { actorVerified }),
      digests: new Map(digests),
    }
  } catch {
    return { digests: new Map() }
  }
}

export function digestsIn(details: string): string[] {
  return details.includes('"lists":[') ? [...parse(details).digests.values()] : []
}

type ExpandedDetails = Details & {
  /** Approximate length including the lists. */
  readonly length: number
}

export type DetailsReader = (details: string) => Promise<ExpandedDetails>

const maxKnownLength = 4 * 1024 * 1024

/** Puts lists back in place of their digests. If a list is missing or altered, its digest stays. */
export function createDetailsReader(loadList: (digest: string) => Promise<string | undefined>): DetailsReader {
  const known = new Map<string, { readonly list: unknown; readonly length: number }>()
  let knownLength = 0

  async function findList(digest: string) {
    const seen = known.get(digest)
    if (seen) return seen
    const text = await loadList(digest)
    if (!isListGenuine(digest, text)) return { list: digest, length: 0 }
    const found = { list: JSON.parse(text), length: text.length }
    if (knownLength > maxKnownLength) {
      known.clear()
      knownLength = 0
    }
    known.set(digest, found)
    knownLength += found.length
    return found
  }

  return async (text) => {
    const { digests, ...details } = parse(text)
    if (digests.size === 0) return { ...details, length: text.length }
    const after = { ...details.after }
    let length = text.length
    for (const [field, digest] of digests) {
      const found = await findList(digest)
      after[field] = found.list
      length += found.length
    }
    return { ...details, after, length }
  }
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const isTextList = (value: unknown): value is string[] =>
  Array.isArray(value) && value.every((item) => typeof item === 'string')
