/** Says once in the log that the clocks of this node and of its database differ, and once that they agree again. */
import type { Services } from '../domain/context.ts'
import { clockLeewayMs, readClockOffset } from '../domain/database-clock.ts'

export function createClockJob({ engine, now, log }: Services): () => Promise<void> {
  let isApart = false
  return async () => {
    const offsetMs = await readClockOffset(engine, now)
    if (offsetMs === undefined || Math.abs(offsetMs) > clockLeewayMs === isApart) return
    isApart = !isApart
    if (!isApart) return log.info('the clocks of this node and of its database agree again')
    const seconds = Math.round(Math.abs(offsetMs) / 1_000)
    // Which of the two is wrong cannot be seen from here, so readiness does not depend on it.
    log.warn(`the clock of this node is ${seconds} s ${offsetMs > 0 ? 'ahead of' : 'behind'} that of its database`)
  }
}
