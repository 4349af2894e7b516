/**
 * Reads that were recorded together: one row and one link of the chain for all of them, as each costs a fraction of one
 * of its own. What many of them have in common (who, from where, of what) stands in it once.
 */
import { type AuditLink, type AuditRow, canonicalEntry, hashEntry, linkOf } from './audit-entry.ts'

/** What tells reads of the same thing by the same caller apart. */
export type ReadEntry = {
  readonly id: string
  readonly at: number
  readonly requestId: string
  readonly shared: SharedFields
}
/** Two stretches of the canonical entry: those before and after the request's id. */
export type SharedFields = { readonly before: string; readonly after: string }

export type ReadsRow = {
  readonly chainId: string
  readonly firstSequence: number
  readonly lastSequence: number
  readonly previousHash: string
  readonly entries: string
  readonly hash: string
}

type Sharing = Omit<AuditRow, 'chainId' | 'sequence' | 'hash' | 'id' | 'at' | 'requestId' | 'details'>

/** `details` is JSON of JSON: what is the same for many reads is made once for all of them. */
export function sharedFields(entry: Sharing, details: string): SharedFields {
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

export function composeReads(
  chainId: string,
  head: { readonly sequence: number; readonly hash: string },
  reads: readonly ReadEntry[],
): ReadsRow {
  const places = new Map<string, number>()
  // Reads of the same answer by the same caller hold the very same fields: their text is looked at once.
  const known = new Map<SharedFields, number>()
  const texts: string[] = []
  for (const { id, at, requestId, shared } of reads) {
    let place = known.get(shared)
    if (place === undefined) {
      const common = `[${shared.before},${shared.after}]`
      place = places.get(common) ?? places.size
      places.set(common, place)
      known.set(shared, place)
    }
    texts.push(`[${place},"${id}",${at},"${requestId}"]`)
  }
  const row = {
    chainId,
    firstSequence: head.sequence + 1,
    lastSequence: head.sequence + reads.length,
    previousHash: head.hash,
    entries: `{"isOneLink":true,"shared":[${[...places.keys()].join(',')}],"reads":[${texts.join(',')}]}`,
  }
  return { ...row, hash: hashEntry(head.hash, linkText(row)) }
}

/** What the hash of one link covers. The entries are JSON already. */
function linkText({ chainId, firstSequence, previousHash, entries }: Omit<ReadsRow, 'hash'>): string {
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

type Composed = {
  /** Absent from rows of the first form: their entries are links of their own, each hashed as if it stood alone. */
  isOneLink?: boolean
  shared: unknown[][]
  reads: [place: number, id: string, at: number, requestId: string][]
}

/** None where the row is not of the form in which it was written: then its entries are missing from the chain. */
export function expandReads(row: ReadsRow): AuditRow[] {
  const composed = parseEntries(row)
  return composed ? expand(row, composed) : []
}

function expand(row: ReadsRow, { isOneLink, shared, reads }: Composed): AuditRow[] {
  let previous = row.previousHash
  return reads.map(([place, id, at, requestId], index) => {
    const fields = Object.fromEntries(sharedNames.map((name, field) => [name, shared[place]?.[field]]))
    const own = { chainId: row.chainId, sequence: row.firstSequence + index, id, at, requestId }
    // Written by composeReads in this very order.
    const entry = { ...fields, ...own } as Omit<AuditRow, 'hash'>
    if (isOneLink) return { ...entry, hash: row.hash }
    previous = hashEntry(previous, canonicalEntry(entry))
    // The last one carries the hash that was stored: the check of the chain compares it with the computed one.
    return { ...entry, hash: index === reads.length - 1 ? row.hash : previous }
  })
}

export function linksOfReads(row: ReadsRow): AuditLink[] {
  const composed = parseEntries(row)
  const entries = composed ? expand(row, composed) : []
  const [first] = entries
  if (!first || !composed?.isOneLink) return entries.map(linkOf)
  return [{ first, lastSequence: row.lastSequence, text: linkText(row), hash: row.hash }]
}

function parseEntries({ entries, firstSequence, lastSequence }: ReadsRow): Composed | undefined {
  try {
    const { isOneLink, shared, reads }: Composed = JSON.parse(entries)
    if (isOneLink && reads.length !== lastSequence - firstSequence + 1) return undefined
    const isWhole = reads.every(([place, id, at, requestId]) => {
      const isOwn = typeof id === 'string' && typeof requestId === 'string' && Number.isSafeInteger(at)
      return isOwn && shared[place]?.length === sharedNames.length
    })
    return isWhole && shared.every(isShared) ? { isOneLink: isOneLink === true, shared, reads } : undefined
  } catch {
    return undefined
  }
}

const isShared = (fields: unknown[]) =>
  sharedNames.every((name, at) => {
    const isEmpty = fields[at] === null && (name === 'projectId' || name === 'environmentId')
    return isEmpty || typeof fields[at] === 'string'
  })
