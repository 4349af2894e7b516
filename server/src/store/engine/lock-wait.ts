/**
 * How long a migration step on PostgreSQL waits for the lock of a table. Everybody else waits behind it, so it gives way
 * to somebody who holds the table for long, such as a backup, and tries again later.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { codeOf } from '../../error-code.ts'

export const lockWaitMs = 500
const pauseMs = 2_000
const lockNotAvailable = '55P03'

export async function givingWay(attempt: () => Promise<void>): Promise<void> {
  for (;;) {
    try {
      return await attempt()
    } catch (error) {
      if (codeOf(error) !== lockNotAvailable) throw error
    }
    await sleep(pauseMs)
  }
}
