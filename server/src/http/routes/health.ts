import type { FastifyInstance } from 'fastify'
import type { Services } from '../../domain/context.ts'
import { checkReady } from '../../domain/health.ts'

/** Outside of /v1, for whatever keeps the process running: alive, and able to serve. */
export function healthRoutes(app: FastifyInstance, services: Services): void {
  app.get('/healthz', { schema: { hide: true } }, async () => ({ status: 'ok' }))
  app.get('/readyz', { schema: { hide: true } }, async () => {
    await checkReady(services)
    return { status: 'ready' }
  })
  app.get('/', { schema: { hide: true } }, async (_request, reply) => reply.redirect('/docs'))
}
