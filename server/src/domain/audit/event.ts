/** An event for the audit trail: what was done to which entity, and the chain that records it. */
import type { AuditAction } from '@coffer/contract/audit'
import type { BatchEntry } from '../../store/audit/batch.ts'
import type { AuditRow } from '../../store/audit/entry.ts'
import type { NameBases } from '../../store/audit/key-list.ts'

/** The audit chain for events that belong to no workspace, such as logins and changes to accounts. */
export const systemChain = '00000000-0000-0000-0000-000000000000'

export type AuditEvent = {
  readonly chain: string
  readonly action: AuditAction
  readonly entity: { readonly type: string; readonly id: string; readonly name: string }
  readonly projectId?: string
  readonly environmentId?: string
  /** All environments that the event touches: one goes into the entry's own field, several go into its details. */
  readonly environmentIds?: readonly string[]
  readonly outcome?: 'success' | 'failure'
  readonly before?: Record<string, unknown>
  readonly after?: Record<string, unknown>
  readonly bases?: NameBases | undefined
}

/** An entry of the trail, before it has its place in the chain. */
export type Entry = BatchEntry & {
  readonly chain: string
  /** The fields of a row of its own. Reads, and the same act on many things, have none. */
  readonly fields?: Omit<AuditRow, 'chainId' | 'sequence' | 'hash' | 'id' | 'at' | 'requestId' | 'details'>
}
