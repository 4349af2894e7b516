/**
 * Entries that were recorded together: one row and one link of the chain for all of them, as each costs a fraction of one
 * of its own. What many of them have in common (who, from where, of what) stands in it once.
 */
import { type AuditLink, type AuditRow, canonicalEntry, entryOfText, hashEntry, linkOf } from './audit-entry.ts'
import type { KeyList } from './audit-key-list.ts'

/** What tells entries about the same thing by the same caller apart. */
export type BatchEntry = {
  readonly id: string
  readonly at: number
  readonly requestId: string
  readonly shared: SharedFields
  /** The text of its details, where it does not share them. */
  readonly details?: string
  /** The lists that its details refer to. */
  readonly lists: readonly KeyList[]
}
/** Two stretches of the canonical entry: those before and after the request's id. */
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

/** `details` is JSON of JSON: what is the same for many entries is made once for all of them. Without it each has its own. */
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
  // Reads of the same answer by the same caller hold the very same fields: their text is looked at once.
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

/** What the hash of one link covers. The entries are JSON already. */
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
  /** Absent from rows of the first form: their entries are links of their own, each hashed as if it stood alone. */
  isOneLink: boolean
  shared: unknown[][]
  entries: [place: number, id: string, at: number, requestId: string, details?: string][]
}

/** None where the row is not of the form in which it was written: then its entries are missing from the chain. */
export function expandBatch(row: BatchRow): AuditRow[] {
  const composed = parseEntries(row)
  return composed ? expand(row, composed) : []
}

function expand(row: BatchRow, { isOneLink, shared, entries }: Composed): AuditRow[] {
  let previous = row.previousHash
  return entries.map(([place, id, at, requestId, details], index) => {
    const fields = Object.fromEntries(sharedNames.map((name, field) => [name, shared[place]?.[field]]))
    const own = { chainId: row.chainId, sequence: row.firstSequence + index, id, at, requestId }
    // Written by composeBatch in this very order.
    const entry = { ...fields, ...own, details: fields.details ?? details } as Omit<AuditRow, 'hash'>
    if (isOneLink) return { ...entry, hash: row.hash }
    previous = hashEntry(previous, canonicalEntry(entry))
    // The last one carries the hash that was stored: the check of the chain compares it with the computed one.
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
    // Rows that were written before changes were recorded together, too, call their entries reads.
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

/** The entries of a link, from the text that was hashed; none where it is not of that form. */
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
