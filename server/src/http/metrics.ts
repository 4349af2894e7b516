/**
 * Prometheus metrics: requests by method, route pattern (never URL) and status, with their durations. Every request is
 * counted here, so counts are kept in plain arrays and become text only when the metrics are scraped.
 */
import { createHash, timingSafeEqual } from 'node:crypto'
import type { Registry } from 'prom-client'
import type { Config } from '../config.ts'
import type { SyncStats } from '../domain/sync/stat.ts'
import { Failure } from '../failure.ts'
import type { Route } from './exchange.ts'
import { createLocalLimiter, rateLimited } from './limits/rate-limit.ts'
import { plainRoute } from './route.ts'

export type Metrics = {
  observe(method: string, route: string, status: number, elapsedMs: number): void
  render(): Promise<string>
  readonly contentType: string
}

type Series = { readonly labels: string; readonly buckets: number[]; seconds: number }

const bounds = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5]
const name = 'coffer_http_request_duration_seconds'

/**
 * Sync metrics, collected on each scrape. The lag is read from the store, and undefined if the store does not answer.
 */
type SyncFigures = SyncStats & { readonly lagSeconds: number | undefined }

export async function createMetrics(
  { metricsToken, metricsPort }: Config,
  syncs: () => Promise<SyncFigures>,
): Promise<Metrics> {
  const isShown = metricsToken !== undefined || metricsPort !== undefined
  const registry = isShown ? await watchProcess() : undefined
  const series = new Map<string, Map<string, Map<number, Series>>>()
  const every = () => [...series.values()].flatMap((ofMethod) => [...ofMethod.values()]).flatMap((s) => [...s.values()])
  return {
    observe(method, route, status, elapsedMs) {
      // Nested maps: building one combined key per request would cost more than the rest of this function.
      let entry = series.get(route)?.get(method)?.get(status)
      if (!entry) {
        const labels = `method="${method}",route="${route}",status="${status}"`
        entry = { labels, buckets: new Array(bounds.length + 1).fill(0), seconds: 0 }
        const ofRoute = series.get(route) ?? new Map<string, Map<number, Series>>()
        const ofMethod = ofRoute.get(method) ?? new Map<number, Series>()
        series.set(route, ofRoute.set(method, ofMethod.set(status, entry)))
      }
      const seconds = elapsedMs / 1000
      let bucket = 0
      while (bucket < bounds.length && seconds > (bounds[bucket] ?? 0)) bucket++
      entry.buckets[bucket] = (entry.buckets[bucket] ?? 0) + 1
      entry.seconds += seconds
    },
    render: async () => {
      const ofProcess = (await registry?.metrics()) ?? ''
      return `${ofProcess}\n${renderSeries(every())}${renderSyncs(await syncs())}`
    },
    contentType: 'text/plain; version=0.0.4; charset=utf-8',
  }
}

/** Loaded only if metrics are enabled: prom-client takes memory and observes every garbage collection. */
async function watchProcess(): Promise<Registry> {
  const { collectDefaultMetrics, Registry } = await import('prom-client')
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  return registry
}

function renderSeries(all: readonly Series[]): string {
  const counts: string[] = [
    '# HELP coffer_http_requests_total Requests answered.',
    '# TYPE coffer_http_requests_total counter',
  ]
  const durations: string[] = [`# HELP ${name} Time from request to answer.`, `# TYPE ${name} histogram`]
  for (const { labels, buckets, seconds } of all) {
    let total = 0
    buckets.forEach((count, index) => {
      total += count
      durations.push(`${name}_bucket{${labels},le="${bounds[index] ?? '+Inf'}"} ${total}`)
    })
    durations.push(`${name}_sum{${labels}} ${seconds}`, `${name}_count{${labels}} ${total}`)
    counts.push(`coffer_http_requests_total{${labels}} ${total}`)
  }
  return `${[...counts, ...durations].join('\n')}\n`
}

function renderSyncs({ runs, calls, throttled, lagSeconds }: SyncFigures): string {
  const lines = [
    '# HELP coffer_sync_runs_total Runs of syncs by this process, by how they ended.',
    '# TYPE coffer_sync_runs_total counter',
    ...Object.entries(runs).map(([state, count]) => `coffer_sync_runs_total{state="${state}"} ${count}`),
    '# HELP coffer_sync_calls_total Calls to the targets of syncs by this process.',
    '# TYPE coffer_sync_calls_total counter',
    `coffer_sync_calls_total ${calls}`,
    '# HELP coffer_sync_throttled_total Those that were answered with 429.',
    '# TYPE coffer_sync_throttled_total counter',
    `coffer_sync_throttled_total ${throttled}`,
  ]
  if (lagSeconds !== undefined) {
    lines.push(
      '# HELP coffer_sync_lag_seconds Age of the oldest change that has not arrived at its target.',
      '# TYPE coffer_sync_lag_seconds gauge',
      `coffer_sync_lag_seconds ${lagSeconds}`,
    )
  }
  return `${lines.join('\n')}\n`
}

/** Wrong tokens per minute and network. Beyond this limit even the right token is refused, or guessing could go on. */
const maxGuesses = 20

/** Hashes have equal lengths, so the comparison reveals nothing about the length of the token. */
const digest = (text: string) => createHash('sha256').update(text).digest()

export function metricsRoute(metrics: Metrics, config: Config): Route {
  const guesses = createLocalLimiter(maxGuesses)
  return plainRoute('/metrics', async (exchange) => {
    if (config.metricsToken === undefined) {
      const isElsewhere = config.metricsPort !== undefined
      throw new Failure(
        'notFound',
        isElsewhere
          ? 'Metrics are on a port of their own: see COFFER_METRICS_PORT.'
          : 'Metrics are off: set COFFER_METRICS_TOKEN or COFFER_METRICS_PORT.',
      )
    }
    const { authorization } = exchange.headers
    if (authorization === undefined) throw new Failure('unauthenticated')
    const hit = guesses.peek(exchange.network)
    if (hit.exceeded) throw rateLimited(hit)
    if (!timingSafeEqual(digest(authorization), digest(`Bearer ${config.metricsToken}`))) {
      guesses.hit(exchange.network)
      throw new Failure('unauthenticated')
    }
    return exchange.header('content-type', metrics.contentType).send(await metrics.render())
  })
}
