/** The service that audits reads of values, as the context offers it. `Caller` is the context of a read. */
import type { CompactDetails } from '../../store/audit/key-list.ts'
import type { AuditEvent } from './event.ts'

export type ReadEvent = Omit<AuditEvent, 'before' | 'after'>

/** Audit details of a response, as JSON within JSON, with its key lists. Built and hashed once per cached response. */
export type ReadDetails = CompactDetails

export type ReadRecorder<Caller> = {
  /**
   * Reserves memory for a response of about this size, then records the read. Resolves once the audit entry is durable;
   * no value may be sent before. If there is no memory, the read is recorded as failed and rejected.
   */
  record(caller: Caller, event: ReadEvent, details: ReadDetails, bytes: number): Promise<void>
}
