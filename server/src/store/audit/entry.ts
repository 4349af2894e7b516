/** An audit entry and its canonical text. Each entry's hash covers the hash before it. */
import { hash } from 'node:crypto'

export type AuditRow = {
  readonly chainId: string
  readonly sequence: number
  readonly id: string
  readonly at: number
  readonly actorType: string
  readonly actorId: string
  readonly actorName: string
  readonly action: string
  readonly entityType: string
  readonly entityId: string
  readonly entityName: string
  readonly projectId: string | null
  readonly environmentId: string | null
  readonly ip: string
  readonly userAgent: string
  readonly requestId: string
  readonly outcome: string
  /** JSON of `{ before?, after?, lists? }`, stored and hashed exactly as written; `key-list.ts` expands it. */
  readonly details: string
  readonly hash: string
}

export const emptyHash = '0'.repeat(64)

const hashedFields = [
  'chainId',
  'sequence',
  'id',
  'at',
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
  'requestId',
  'outcome',
  'details',
] as const satisfies readonly (keyof AuditRow)[]

/** The hashed text of an entry: a JSON array in this fixed order. */
export function canonicalEntry(row: Omit<AuditRow, 'hash'>): string {
  return JSON.stringify(hashedFields.map((field) => row[field]))
}

/** Parses canonical text back into an entry; undefined if malformed. */
export function entryOfText(text: string, hash: string): AuditRow | undefined {
  try {
    const values: unknown[] = JSON.parse(text)
    if (values.length !== hashedFields.length) return undefined
    const fields = Object.fromEntries(hashedFields.map((field, index) => [field, values[index]]))
    // canonicalEntry writes the fields in exactly this order; the caller has verified the hash.
    return { ...fields, hash } as AuditRow
  } catch {
    return undefined
  }
}

/** hash = SHA-256(previous hash, canonical entry) */
export function hashEntry(previousHash: string, canonical: string): string {
  return hash('sha256', previousHash + canonical, 'hex')
}

/** A link of the chain: one entry, or several recorded together. */
export type AuditLink = {
  readonly entries: readonly AuditRow[]
  /** The hashed text; the previous hash is put before it. */
  readonly text: string
  readonly hash: string
}

export function linkOf(row: AuditRow): AuditLink {
  return { entries: [row], text: canonicalEntry(row), hash: row.hash }
}
