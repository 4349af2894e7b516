/** Prometheus metrics: what was asked, how it ended and how long it took, by route pattern and never by URL. */
import { timingSafeEqual } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import { Counter, collectDefaultMetrics, Histogram, Registry } from 'prom-client'
import type { Config } from '../config.ts'
import { Failure } from '../failure.ts'

export type Metrics = {
  observe(method: string, route: string, status: number, elapsedMs: number): void
  render(): Promise<string>
  readonly contentType: string
}

const secondsBuckets = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5]

export function createMetrics(): Metrics {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  const requests = new Counter({
    name: 'coffer_http_requests_total',
    help: 'Requests answered.',
    labelNames: ['method', 'route', 'status'],
    registers: [registry],
  })
  const durations = new Histogram({
    name: 'coffer_http_request_duration_seconds',
    help: 'Time from the first byte of a request to the last of its answer.',
    labelNames: ['route'],
    buckets: secondsBuckets,
    registers: [registry],
  })
  // Labels are looked up once for each combination; there are few.
  const known = new Map<string, { count: Counter.Internal; duration: Histogram.Internal<'route'> }>()
  return {
    observe(method, route, status, elapsedMs) {
      const key = `${method} ${route} ${status}`
      let series = known.get(key)
      if (!series) {
        series = { count: requests.labels(method, route, String(status)), duration: durations.labels(route) }
        known.set(key, series)
      }
      series.count.inc()
      series.duration.observe(elapsedMs / 1000)
    },
    render: () => registry.metrics(),
    contentType: registry.contentType,
  }
}

export function metricsRoute(app: FastifyInstance, metrics: Metrics, config: Config): void {
  app.get('/metrics', { schema: { hide: true } }, async (request, reply) => {
    if (config.metricsToken === undefined) {
      throw new Failure('notFound', 'Metrics are off: set COFFER_METRICS_TOKEN or COFFER_METRICS_PORT.')
    }
    const given = Buffer.from(request.headers.authorization ?? '')
    const expected = Buffer.from(`Bearer ${config.metricsToken}`)
    if (given.length !== expected.length || !timingSafeEqual(given, expected)) throw new Failure('unauthenticated')
    reply.header('content-type', metrics.contentType)
    return metrics.render()
  })
}
