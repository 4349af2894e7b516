/** What a backup says about itself: the header before its first frame and the manifest in its last one. */
import { hash } from 'node:crypto'
import { lengthPrefixed } from '../../crypto/envelope.ts'

/** Readable without a key; holds what unlocks the rest. The master key is not in it. */
export type BackupHeader = {
  /** Random, so that no two backups share a key. */
  readonly id: string
  readonly createdAt: number
  /** Version of Coffer that wrote the file. */
  readonly version: string
  /** Migration steps of the store. */
  readonly schemaStep: number
  /** The root key that the frames are sealed under. */
  readonly rootId: string
  /** Wrapped by the master key, as in the store; base64. */
  readonly roots: readonly { readonly id: string; readonly wrapped: string; readonly checkValue: string }[]
  /** The master key as a key service has wrapped it, as in the store. */
  readonly wrappedMaster: string | null
}

export type TableEntry = {
  readonly name: string
  readonly columns: readonly string[]
  readonly rows: number
  /** SHA-256 of the rows in the order of their primary key. */
  readonly digest: string
}

export type ChainHead = { readonly chain: string; readonly sequence: number; readonly hash: string }

export type Manifest = Pick<BackupHeader, 'id' | 'createdAt' | 'version' | 'schemaStep'> & {
  /** Changes with every restore of an earlier state. */
  readonly generation: string | null
  /** Identifies the root key without revealing it. */
  readonly keyFingerprint: string
  readonly tables: readonly TableEntry[]
  /** The same for equal contents, whichever engine holds them. */
  readonly digest: string
  readonly auditChains: number
  /** The first `maxHeads` heads; the digest of their table covers all. */
  readonly auditHeads: readonly ChainHead[]
}

export const maxHeads = 10_000

export function contentDigest(tables: readonly TableEntry[]): string {
  const parts = tables
    .toSorted((one, other) => (one.name < other.name ? -1 : 1))
    .flatMap(({ name, columns, rows, digest }) => [name, columns.join(), String(rows), digest])
  return hash('sha256', lengthPrefixed(parts), 'hex')
}

export type BackupProgress = {
  readonly stage: 'copy' | 'write' | 'check' | 'load' | 'compare' | 'rights' | 'audit trails' | 'values'
  readonly done: number
  readonly total: number
}

export type BackupOptions = {
  readonly onProgress?: (progress: BackupProgress) => void
  readonly signal?: AbortSignal
}
