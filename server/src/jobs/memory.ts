import type { Services } from '../domain/context.ts'
import { createIdleWatch } from '../idle-memory.ts'

/** When the service has become idle, drops the cached responses, which hold values, and collects all garbage. */
export function createMemoryJob({ log, responseCache }: Services): () => Promise<void> {
  const look = createIdleWatch(() => {
    responseCache.clear()
    // `serve` makes it known; a service within another program, as in tests, has none.
    if (!globalThis.gc) return
    const startedAt = performance.now()
    globalThis.gc({ type: 'major', execution: 'sync', flavor: 'last-resort' })
    log.debug('idle: unused memory was returned to the system', { ms: Math.round(performance.now() - startedAt) })
  })
  return async () => look()
}
