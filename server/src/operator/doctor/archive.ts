/** With COFFER_AUDIT_DAYS, entries are removed after they were archived: an archive that stands still keeps all. */
import { retentionStart } from '../../domain/audit/archive/retention.ts'
import type { Services } from '../../domain/context.ts'
import { dayMs } from '../../domain/time.ts'
import { installation } from '../../installation.ts'
import { type Check, note, ok } from './finding.ts'

/** The archive may run once a day, and a little later than the day before. */
const graceMs = 2 * dayMs

export function archiveChecks(services: Services): Check[] {
  const { config, store } = services
  const beforeMs = retentionStart(services)
  if (beforeMs === undefined) return []
  const why = `COFFER_AUDIT_DAYS=${config.auditDays} removes only archived entries, so the store grows without end.`
  const fix = `run "${installation.command} audit archive --to <folder>" every night.`
  return [
    {
      name: 'audit archive',
      why,
      fix,
      run: async () => {
        const oldest = await store.auditRetention.findOldestUnarchived()
        if (oldest === undefined || oldest >= beforeMs - graceMs) return ok('not behind')
        return note(`an entry of ${new Date(oldest).toISOString()} is in no archive yet`, why, fix)
      },
    },
  ]
}
