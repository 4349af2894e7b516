import type { Health } from '../../domain/health.ts'
import type { Route } from '../exchange.ts'
import { plainRoute } from '../route.ts'

/** Liveness and readiness probes for orchestrators, and a redirect from `/` to the docs. All are outside of /v1. */
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
    plainRoute('/', async (exchange) => exchange.status(302).header('location', '/docs').send()),
  ]
}
