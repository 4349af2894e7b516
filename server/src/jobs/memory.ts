import type { Services } from '../domain/context.ts'
import { createIdleWatch } from '../idle-memory.ts'

/** When the service has become idle, drops the cached responses, which hold values, and collects all garbage. */
export function createMemoryJob({ log, responseCache }: Services): () => Promise<void> {
  const look = createIdleWatch(() => {
    responseCache.clear()
    // Every start of the service has Node's option --expose-gc; tests have not.
    if (!globalThis.gc) return
    const startedAt = performance.now()
    globalThis.gc({ type: 'major', execution: 'sync', flavor: 'last-resort' })
    log.debug('idle: unused memory was returned to the system', { ms: Math.round(performance.now() - startedAt) })
  })
  return async () => look()
}
