import { removeArchived, retentionStart } from '../domain/audit/archive/retention.ts'
import { asOperator, type Services } from '../domain/context.ts'
import { isFailure } from '../failure.ts'
import { traceOf } from '../log.ts'

/**
 * Removes archived entries older than COFFER_AUDIT_DAYS. A broken chain is left as it is, and does not block the
 * others.
 */
export async function removeOldEntries(services: Services, signal?: AbortSignal): Promise<void> {
  const beforeMs = retentionStart(services)
  if (beforeMs === undefined) return
  const { auditRetention } = services.store
  const ctx = asOperator(services)
  let next = await auditRetention.findArchivedAfter('')
  while (next !== undefined && !signal?.aborted) {
    const chain = next
    await removeArchived(ctx, chain, beforeMs, signal).catch((error: unknown) => {
      // Another node, or the command, removes them at this moment.
      if (isFailure(error, 'conflict')) return
      services.log.error('archived audit entries could not be removed', { workspaceId: chain, ...traceOf(error) })
    })
    next = await auditRetention.findArchivedAfter(chain)
  }
}
