/**
 * Audit entries recorded together form one row and one link of the chain, which costs a fraction of single rows. Fields
 * that entries share (actor, address, entity) are stored once.
 */
import { type AuditLink, type AuditRow, canonicalEntry, entryOfText, hashEntry, linkOf } from './entry.ts'
import type { KeyList } from './key-list.ts'

/** The fields in which entries about the same thing by the same caller differ. */
export type BatchEntry = {
  readonly id: string
  readonly at: number
  readonly requestId: string
  readonly shared: SharedFields
  /** JSON text of the details, if they are not among the shared fields. */
  readonly details?: string
  /** The key lists that the details refer to. */
  readonly lists: readonly KeyList[]
}
/** JSON of the canonical entry's fields before and after the request id. */
export type SharedFields = { readonly before: string; readonly after: string }

export type BatchRow = {
  readonly chainId: string
  readonly firstSequence: number
  readonly lastSequence: number
  readonly previousHash: string
  readonly entries: string
  readonly hash: string
}

type Sharing = Omit<AuditRow, 'chainId' | 'sequence' | 'hash' | 'id' | 'at' | 'requestId' | 'details'>

/**
 * `details` is JSON text encoded as a JSON string, made once for all entries that share it. Omitted if each entry has
 * its own.
 */
export function sharedFields(entry: Sharing, details = 'null'): SharedFields {
  const { actorType, actorId, actorName, action, entityType, entityId, entityName } = entry
  const before = [
    actorType,
    actorId,
    actorName,
    action,
    entityType,
    entityId,
    entityName,
    entry.projectId,
    entry.environmentId,
    entry.ip,
    entry.userAgent,
  ]
  return { before: JSON.stringify(before).slice(1, -1), after: `${JSON.stringify(entry.outcome)},${details}` }
}

export function composeBatch(
  chainId: string,
  head: { readonly sequence: number; readonly hash: string },
  entries: readonly BatchEntry[],
): BatchRow {
  const places = new Map<string, number>()
  // Reads of one response by one caller share the same object, so its text is compared only once.
  const known = new Map<SharedFields, number>()
  const texts: string[] = []
  for (const { id, at, requestId, shared, details } of entries) {
    let place = known.get(shared)
    if (place === undefined) {
      const common = `[${shared.before},${shared.after}]`
      place = places.get(common) ?? places.size
      places.set(common, place)
      known.set(shared, place)
    }
    const own = details === undefined ? '' : `,${JSON.stringify(details)}`
    texts.push(`[${place},"${id}",${at},"${requestId}"${own}]`)
  }
  const row = {
    chainId,
    firstSequence: head.sequence + 1,
    lastSequence: head.sequence + entries.length,
    previousHash: head.hash,
    entries: `{"isOneLink":true,"shared":[${[...places.keys()].join(',')}],"entries":[${texts.join(',')}]}`,
  }
  return { ...row, hash: hashEntry(head.hash, linkText(row)) }
}

/** The text that the link's hash covers. `entries` is JSON already. */
function linkText({ chainId, firstSequence, previousHash, entries }: Omit<BatchRow, 'hash'>): string {
  return `[${JSON.stringify(chainId)},${firstSequence},${JSON.stringify(previousHash)},${entries}]`
}

const sharedNames = [
  'actorType',
  'actorId',
  'actorName',
  'action',
  'entityType',
  'entityId',
  'entityName',
  'projectId',
  'environmentId',
  'ip',
  'userAgent',
  'outcome',
  'details',
] as const
const detailsAt = sharedNames.indexOf('details')

type Composed = {
  /** False for rows of the first format, whose entries are links of their own, each hashed separately. */
  isOneLink: boolean
  shared: unknown[][]
  entries: [place: number, id: string, at: number, requestId: string, details?: string][]
}

/** Returns no entries for a malformed row; the chain check then reports them missing. */
export function expandBatch(row: BatchRow): AuditRow[] {
  const composed = parseEntries(row)
  return composed ? expand(row, composed) : []
}

function expand(row: BatchRow, { isOneLink, shared, entries }: Composed): AuditRow[] {
  let previous = row.previousHash
  return entries.map(([place, id, at, requestId, details], index) => {
    const fields = Object.fromEntries(sharedNames.map((name, field) => [name, shared[place]?.[field]]))
    const own = { chainId: row.chainId, sequence: row.firstSequence + index, id, at, requestId }
    // composeBatch writes the fields in exactly this order.
    const entry = { ...fields, ...own, details: fields.details ?? details } as Omit<AuditRow, 'hash'>
    if (isOneLink) return { ...entry, hash: row.hash }
    previous = hashEntry(previous, canonicalEntry(entry))
    // The last entry carries the stored hash, which the chain check compares with the computed one.
    return { ...entry, hash: index === entries.length - 1 ? row.hash : previous }
  })
}

export function linksOfBatch(row: BatchRow): AuditLink[] {
  const composed = parseEntries(row)
  const entries = composed ? expand(row, composed) : []
  if (entries.length === 0 || !composed?.isOneLink) return entries.map(linkOf)
  return [{ entries, text: linkText(row), hash: row.hash }]
}

function parseEntries({ entries: text, firstSequence, lastSequence }: BatchRow): Composed | undefined {
  try {
    // The first format held only reads and called its entries `reads`.
    const { isOneLink = false, shared, reads, entries = reads } = JSON.parse(text)
    if (isOneLink && entries.length !== lastSequence - firstSequence + 1) return undefined
    const isWhole = entries.every(([place, id, at, requestId, details]: unknown[]) => {
      const fields = shared[Number(place)]
      const hasDetails = typeof (fields?.[detailsAt] ?? details) === 'string'
      const isOwn = typeof id === 'string' && typeof requestId === 'string' && Number.isSafeInteger(at)
      return isOwn && hasDetails && fields?.length === sharedNames.length
    })
    return isWhole && shared.every(isShared) ? { isOneLink: isOneLink === true, shared, entries } : undefined
  } catch {
    return undefined
  }
}

const mayBeEmpty: ReadonlySet<string> = new Set(['projectId', 'environmentId', 'details'])

const isShared = (fields: unknown[]) =>
  sharedNames.every((name, at) => typeof fields[at] === 'string' || (fields[at] === null && mayBeEmpty.has(name)))

/** Parses the entries of a link from its hashed text; empty if the text is malformed. */
export function entriesOfText(text: string, hash: string): AuditRow[] {
  const entry = entryOfText(text, hash)
  if (entry) return [entry]
  try {
    const [chainId, firstSequence, previousHash, composed] = JSON.parse(text)
    const lastSequence = firstSequence + composed.entries.length - 1
    const entries = JSON.stringify(composed)
    return expandBatch({ chainId, firstSequence, lastSequence, previousHash, entries, hash })
  } catch {
    return []
  }
}
