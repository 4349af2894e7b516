/**
 * Long lists of names in audit details. Each chain stores a list once, under its SHA-256 digest. The details hold the
 * digest instead, so the entry's hash still covers the list. A caller who chooses which names a request reads could
 * store any number of lists: such a list is recorded as a subset of base lists that depend on the stored data alone.
 */
import { hash } from 'node:crypto'

export type KeyList = { readonly digest: string; readonly text: string }

/** A list to choose from: `names`, each after `prefix`. `list` is the stored form of `names`. */
export type NameBase = { readonly prefix: string; readonly names: readonly string[]; readonly list: KeyList }

/** The base lists of fields that may be recorded as subsets. A subset has the order of its bases. */
export type NameBases = { readonly [field: string]: readonly NameBase[] }

/** Names of one base, as one bit for each of its names. */
type Part = { readonly prefix: string; readonly of: string; readonly bits: string }

/** Stands for a list in the details. `digest` is that of the list itself; a subset also names its parts. */
type ListReference = { readonly digest: string; readonly parts?: readonly Part[] }

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

/** A shorter list is stored by itself: its bases may be a thousand times as long. */
const minSubsetLength = 2_048

/** True if the list is worth recording as a subset. Bases need not be loaded for any other list. */
export const isLongList = (names: readonly string[]): boolean => textLength(names) >= minSubsetLength

const textLength = (names: readonly string[]) => names.reduce((length, name) => length + name.length + 3, 0)

/** The stored form: `lists` names the fields of `after` that hold a reference instead of their list. */
export function compactDetails(
  { before, after }: { [Part in 'before' | 'after']?: Details[Part] | undefined },
  bases: NameBases = {},
): CompactDetails {
  const lists: KeyList[] = []
  const references: Record<string, string | ListReference> = {}
  for (const [field, value] of Object.entries(after ?? {})) {
    if (!isTextList(value)) continue
    const text = JSON.stringify(value)
    if (text.length < minLength) continue
    const digest = digestOf(text)
    const parts = findParts(value, digest, bases[field] ?? [])
    references[field] = parts ? { digest, parts } : digest
    lists.push(...(parts ? (bases[field] ?? []).map(({ list }) => list) : [{ digest, text }]))
  }
  if (lists.length === 0) return { text: JSON.stringify({ before, after }), lists }
  const text = JSON.stringify({ before, after: { ...after, ...references }, lists: Object.keys(references) })
  return { text, lists }
}

export const toKeyList = (text: string): KeyList => ({ digest: digestOf(text), text })

const digestOf = (text: string) => hash('sha256', text, 'hex')

/** Undefined if the list is better stored by itself, or is not a subset of its bases in their order. */
function findParts(names: readonly string[], digest: string, bases: readonly NameBase[]): Part[] | undefined {
  if (bases.length === 0 || !isLongList(names) || bases.some(({ list }) => list.digest === digest)) return undefined
  let found = 0
  const parts = bases.map((base): Part => {
    const bits = new Uint8Array(Math.ceil(base.names.length / 8))
    for (const [index, name] of base.names.entries()) {
      if (names[found] !== base.prefix + name) continue
      bits[index >> 3] = (bits[index >> 3] ?? 0) | (1 << (index & 7))
      found++
    }
    return { prefix: base.prefix, of: base.list.digest, bits: Buffer.from(bits).toString('base64') }
  })
  return found === names.length && JSON.stringify(parts).length < textLength(names) ? parts : undefined
}

function namesOfPart(names: readonly string[], { prefix, bits }: Part): string[] {
  const bytes = Buffer.from(bits, 'base64')
  return names.filter((_, index) => (bytes[index >> 3] ?? 0) & (1 << (index & 7))).map((name) => prefix + name)
}

/** True if the text is the list that the digest stands for. */
export function isListGenuine(digest: string, text: string | undefined): text is string {
  return text !== undefined && digestOf(text) === digest
}

type Parsed = Details & { readonly references: ReadonlyMap<string, ListReference> }

/** Details that were tampered with parse as empty; the chain check reports them. */
function parse(details: string): Parsed {
  try {
    const { before, after, lists, actorVerified } = Object(JSON.parse(details))
    const fields = isRecord(after) && isTextList(lists) ? lists : []
    const references = fields.map((field): [string, ListReference] => [field, parseReference(after[field])])
    return {
      ...(isRecord(before) && { before }),
      ...(isRecord(after) && { after }),
      ...(typeof actorVerified === 'boolean' && { actorVerified }),
      references: new Map(references),
    }
  } catch {
    return { references: new Map() }
  }
}

function parseReference(value: unknown): ListReference {
  if (!isRecord(value)) return { digest: String(value) }
  const parts = Array.isArray(value.parts) ? value.parts.filter(isPart) : []
  return { digest: String(value.digest), parts }
}

const isPart = (part: unknown): part is Part =>
  isRecord(part) && [part.prefix, part.of, part.bits].every((field) => typeof field === 'string')

/** Digests of the stored lists that the details depend on. */
export function digestsIn(details: string): string[] {
  if (!details.includes('"lists":[')) return []
  return [...parse(details).references.values()].flatMap(({ digest, parts }) => parts?.map(({ of }) => of) ?? digest)
}

type ExpandedDetails = Details & {
  /** Approximate length including the lists. */
  readonly length: number
}

export type DetailsReader = (details: string) => Promise<ExpandedDetails>

const maxKnownLength = 4 * 1024 * 1024

type FoundList = { readonly list: readonly string[]; readonly length: number }

/** Puts lists back in place of their references. If a list is missing or altered, its digest stays. */
export function createDetailsReader(loadList: (digest: string) => Promise<string | undefined>): DetailsReader {
  const known = new Map<string, FoundList>()
  let knownLength = 0

  async function findStored(digest: string): Promise<FoundList | undefined> {
    const seen = known.get(digest)
    if (seen) return seen
    const text = await loadList(digest)
    if (!isListGenuine(digest, text)) return undefined
    const found = { list: JSON.parse(text), length: text.length }
    if (knownLength > maxKnownLength) {
      known.clear()
      knownLength = 0
    }
    known.set(digest, found)
    knownLength += found.length
    return found
  }

  async function findSubset(parts: readonly Part[]): Promise<FoundList | undefined> {
    const list: string[] = []
    for (const part of parts) {
      const base = await findStored(part.of)
      if (!base) return undefined
      for (const name of namesOfPart(base.list, part)) list.push(name)
    }
    return { list, length: textLength(list) }
  }

  /** An archive holds no base lists, but the list itself, which its digest verifies. */
  const findList = async ({ digest, parts }: ListReference) =>
    (parts && (await findSubset(parts))) ?? (await findStored(digest))

  return async (text) => {
    const { references, ...details } = parse(text)
    if (references.size === 0) return { ...details, length: text.length }
    const after = { ...details.after }
    let length = text.length
    for (const [field, reference] of references) {
      const found = await findList(reference)
      after[field] = found?.list ?? reference.digest
      length += found?.length ?? 0
    }
    return { ...details, after, length }
  }
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const isTextList = (value: unknown): value is string[] =>
  Array.isArray(value) && value.every((item) => typeof item === 'string')
