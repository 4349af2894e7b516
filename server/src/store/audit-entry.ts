/** An entry of the audit trail, and the text of it that is hashed: each entry's hash covers the one before it. */
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
  /** JSON of `{ before?, after?, lists? }`, stored and hashed as it was written; `audit-key-list.ts` expands it. */
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

/** The entry as it is hashed: a JSON list in this fixed order. */
export function canonicalEntry(row: Omit<AuditRow, 'hash'>): string {
  return JSON.stringify(hashedFields.map((field) => row[field]))
}

/** The entry whose canonical text this is; undefined where it is none. */
export function entryOfText(text: string, hash: string): AuditRow | undefined {
  try {
    const values: unknown[] = JSON.parse(text)
    if (values.length !== hashedFields.length) return undefined
    const fields = Object.fromEntries(hashedFields.map((field, index) => [field, values[index]]))
    // Written by canonicalEntry in this very order; the caller has compared the hash.
    return { ...fields, hash } as AuditRow
  } catch {
    return undefined
  }
}

/** hash = SHA-256(previous hash, canonical entry) */
export function hashEntry(previousHash: string, canonical: string): string {
  return hash('sha256', previousHash + canonical, 'hex')
}

/** A piece of the chain: one entry, or several that were recorded together. */
export type AuditLink = {
  readonly entries: readonly AuditRow[]
  /** What is hashed, after the hash before it. */
  readonly text: string
  readonly hash: string
}

export function linkOf(row: AuditRow): AuditLink {
  return { entries: [row], text: canonicalEntry(row), hash: row.hash }
}
