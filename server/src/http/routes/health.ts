import type { Health } from '../../domain/health.ts'
import type { Route } from '../exchange.ts'
import { plainRoute } from '../route.ts'

/** Liveness and readiness probes for orchestrators. */
export function healthRoutes(health: Health): Route[] {
  return [
    plainRoute('/healthz', async () => ({ status: 'ok' }), true),
    plainRoute(
      '/readyz',
      async () => {
        await health.checkReady()
        return { status: 'ready' }
      },
      true,
    ),
  ]
}
