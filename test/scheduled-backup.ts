/** Lets a service make the backups that are due. */
import { expect, onTestFinished } from 'vitest'
import { openStaging } from '../server/src/domain/backup/staging.ts'
import { inQuietTransaction } from '../server/src/domain/transaction.ts'
import { backUp } from '../server/src/jobs/backup.ts'
import { sql } from '../server/src/store/engine/sql.ts'
import type { TestService } from './harness.ts'

/** Until the result is called, the service makes no backup, by itself or by `runBackup`. */
export async function holdBackups({ app }: TestService): Promise<() => Promise<void>> {
  const { services } = app
  const { now } = services
  const fence = await inQuietTransaction(services, 'backup', ({ leases }) =>
    leases.claim('backup', now(), now() + 365 * 86_400_000),
  )
  if (fence === undefined) throw new Error('a backup is being made')
  return () => inQuietTransaction(services, 'backup', ({ leases }) => leases.release('backup', fence))
}

/** The service looks for itself now and then: waits for its run too, if it was first. */
export async function runBackup(service: TestService, afterMs = 0): Promise<void> {
  service.clock.offsetMs += afterMs
  const { services } = service.app
  // Nodes on PostgreSQL share the folder for temporary files, which no test removes. A data folder goes with its test.
  if (services.engine.kind === 'postgres') onTestFinished(async () => (await openStaging(services.config)).remove())
  await backUp(services, new AbortController().signal)
  const isFree = async () =>
    (await services.engine.one(sql`select id from lease where lease_until is not null`)) === undefined
  await expect.poll(isFree).toBe(true)
}
