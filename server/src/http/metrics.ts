/** Prometheus metrics: requests by method, route pattern (never URL) and status, with their durations; syncs. */
import { createHash, timingSafeEqual } from 'node:crypto'
import type { Config } from '../config.ts'
import type { SyncStats } from '../domain/sync/stat.ts'
import { Failure } from '../failure.ts'
import type { Route } from './exchange.ts'
import { createLocalLimiter, rateLimited } from './limits/rate-limit.ts'
import { plainRoute } from './route.ts'

const contentType = 'text/plain; version=0.0.4; charset=utf-8'

export type Metrics = {
  observe(method: string, route: string, status: number, elapsedMs: number): void
  render(): Promise<string>
  readonly contentType: string
}

/**
 * Sync metrics, collected on each scrape. The lag is read from the store, and undefined if the store does not answer.
 */
type SyncFigures = SyncStats & { readonly lagSeconds: number | undefined }

/** Read from the store on each scrape; undefined if no backups are scheduled, or the store does not answer. */
type BackupFigures = { readonly ageSeconds: number | undefined; readonly isLastOk: boolean }

export async function createMetrics(
  { metricsToken, metricsPort }: Config,
  figures: {
    syncs(): Promise<SyncFigures>
    backups(): Promise<BackupFigures | undefined>
    clockOffset(): Promise<number | undefined>
  },
  forwarded: { readonly count: number },
  tls: { readonly expiresAt: number } | undefined,
): Promise<Metrics> {
  const isShown = metricsToken !== undefined || metricsPort !== undefined
  const shown = isShown ? await watchProcess() : undefined
  return {
    observe: shown?.observe ?? (() => undefined),
    render: async () =>
      `${(await shown?.registry.metrics()) ?? ''}\n${renderSyncs(await figures.syncs())}${renderBackups(await figures.backups())}${renderClock(await figures.clockOffset())}${renderForwarded(forwarded.count)}${tls ? renderExpiry(tls.expiresAt) : ''}${sealedGauge(false)}`,
    contentType,
  }
}

const sealedGauge = (isSealed: boolean) =>
  `# HELP coffer_sealed Whether the service waits for the shares of its master key.
# TYPE coffer_sealed gauge
coffer_sealed ${isSealed ? 1 : 0}
`

/** Of a sealed service, which serves nothing that could be measured. */
export const sealedMetrics: Metrics = {
  observe: () => undefined,
  render: async () => sealedGauge(true),
  contentType,
}

/** Loaded only if metrics are enabled: prom-client takes memory and observes every garbage collection. */
async function watchProcess() {
  const { collectDefaultMetrics, Counter, Histogram, Registry } = await import('prom-client')
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  const shared = { labelNames: ['method', 'route', 'status'], registers: [registry] }
  const durations = new Histogram({
    ...shared,
    name: 'coffer_http_request_duration_seconds',
    help: 'Time from request to response.',
    buckets: [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5],
  })
  new Counter({
    ...shared,
    name: 'coffer_http_requests_total',
    help: 'Requests served.',
    /** Copied from the histogram on each scrape: counting every request twice would cost each one a microsecond. */
    async collect() {
      const { values } = await durations.get()
      this.reset()
      for (const { metricName, labels, value } of values) if (metricName?.endsWith('_count')) this.inc(labels, value)
    },
  })
  const observe: Metrics['observe'] = (method, route, status, elapsedMs) =>
    durations.observe({ method, route, status }, elapsedMs / 1000)
  return { registry, observe }
}

function renderSyncs({ runs, calls, throttled, lagSeconds }: SyncFigures): string {
  const lines = [
    '# HELP coffer_sync_runs_total Sync runs of this process, by outcome.',
    '# TYPE coffer_sync_runs_total counter',
    ...Object.entries(runs).map(([state, count]) => `coffer_sync_runs_total{state="${state}"} ${count}`),
    '# HELP coffer_sync_calls_total Requests of this process to sync targets.',
    '# TYPE coffer_sync_calls_total counter',
    `coffer_sync_calls_total ${calls}`,
    '# HELP coffer_sync_throttled_total Requests to sync targets that were answered with 429.',
    '# TYPE coffer_sync_throttled_total counter',
    `coffer_sync_throttled_total ${throttled}`,
  ]
  if (lagSeconds !== undefined) {
    lines.push(
      '# HELP coffer_sync_lag_seconds Age of the oldest change that is not pushed yet.',
      '# TYPE coffer_sync_lag_seconds gauge',
      `coffer_sync_lag_seconds ${lagSeconds}`,
    )
  }
  return `${lines.join('\n')}\n`
}

const renderForwarded = (count: number) =>
  [
    '# HELP coffer_untrusted_forwarded_total Requests with X-Forwarded-For from an address that is not trusted.',
    '# TYPE coffer_untrusted_forwarded_total counter',
    `coffer_untrusted_forwarded_total ${count}\n`,
  ].join('\n')

function renderBackups(figures: BackupFigures | undefined): string {
  if (figures === undefined) return ''
  const lines = [
    '# HELP coffer_backup_last_result Whether the last run of the scheduled backup ended well (1) or failed (0).',
    '# TYPE coffer_backup_last_result gauge',
    `coffer_backup_last_result ${figures.isLastOk ? 1 : 0}`,
  ]
  if (figures.ageSeconds !== undefined) {
    lines.push(
      '# HELP coffer_backup_age_seconds Age of the newest verified backup.',
      '# TYPE coffer_backup_age_seconds gauge',
      `coffer_backup_age_seconds ${figures.ageSeconds}`,
    )
  }
  return `${lines.join('\n')}\n`
}

/** On PostgreSQL, while it answers. */
const renderClock = (offsetMs: number | undefined) =>
  offsetMs === undefined
    ? ''
    : [
        '# HELP coffer_clock_offset_seconds How far the clock of this node is ahead of that of its database.',
        '# TYPE coffer_clock_offset_seconds gauge',
        `coffer_clock_offset_seconds ${offsetMs / 1_000}\n`,
      ].join('\n')

const renderExpiry = (expiresAt: number) =>
  [
    '# HELP coffer_tls_certificate_expiry_seconds Unix time at which the TLS certificate in use ends.',
    '# TYPE coffer_tls_certificate_expiry_seconds gauge',
    `coffer_tls_certificate_expiry_seconds ${expiresAt / 1_000}\n`,
  ].join('\n')

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
          ? 'Metrics are on a separate port: see COFFER_METRICS_PORT.'
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
