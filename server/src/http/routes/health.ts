import type { Health } from '../../domain/health.ts'
import type { Route } from '../pipeline.ts'
import { plainRoute } from '../route.ts'

/** Outside of /v1, for whatever keeps the process running: alive, and able to serve. */
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
