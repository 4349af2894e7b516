/** Lets a service make the backups that are due. */
import { expect } from 'vitest'
import { backUp } from '../server/src/jobs/backup.ts'
import { sql } from '../server/src/store/engine/sql.ts'
import type { TestService } from './harness.ts'

/** The service looks for itself now and then: waits for its run too, if it was first. */
export async function runBackup(service: TestService, afterMs = 0): Promise<void> {
  service.clock.offsetMs += afterMs
  const { services } = service.app
  await backUp(services, new AbortController().signal)
  const isFree = async () =>
    (await services.engine.one(sql`select id from lease where lease_until is not null`)) === undefined
  await expect.poll(isFree).toBe(true)
}
