/** What a sealed service answers: its health, its metrics, and to everything else how it is unsealed. */
import { randomBytes } from 'node:crypto'
import type { Server } from 'node:http'
import { clientNetwork } from '../address-range.ts'
import type { Config } from '../config.ts'
import { Failure } from '../failure.ts'
import type { Log } from '../log.ts'
import type { Tls } from '../tls/tls.ts'
import type { Exchange, Route } from './exchange.ts'
import { createByteBudgets } from './limits/byte-budget.ts'
import { createReservations } from './limits/reservation.ts'
import { metricsRoute, sealedMetrics } from './metrics.ts'
import { createPipeline } from './pipeline.ts'
import { answerError } from './response/error.ts'
import { plainRoute } from './route.ts'

/** Long enough for people to fetch their shares, short enough that a client notices soon. */
const retryAfterSeconds = 5

const sealed = () => new Failure('sealed', undefined, { retryAfterSeconds })

export function createSealedServer(config: Config, log: Log, tls: Tls | undefined): Server {
  const routes = [plainRoute('/healthz', async () => ({ status: 'ok' }), true), metricsRoute(sealedMetrics, config)]
  const listener = createPipeline(routes, {
    reservations: createReservations(createByteBudgets()),
    fallback: sealedPage,
    newId: () => randomBytes(12).toString('base64url'),
    admit: (exchange) => admit(exchange, routes),
    readmit: () => undefined,
    // The next request of the client must reach the service that follows.
    onAnswer: (exchange) => void exchange.header('connection', 'close'),
    onError: (error, exchange) => answerError(log, error, exchange),
  })
  const server = (tls ?? process.getBuiltinModule('node:http')).createServer({ requestTimeout: 10_000 })
  return server.on('request', listener)
}

function admit(exchange: Exchange, routes: readonly Route[]): undefined {
  exchange.header('x-request-id', exchange.id)
  exchange.header('x-content-type-options', 'nosniff')
  exchange.header('cache-control', 'no-store')
  exchange.network = clientNetwork(exchange.socket.remoteAddress ?? '')
  const { route } = exchange
  if (route && routes.includes(route)) return
  if (route !== sealedPage || !isPage(exchange)) throw sealed()
}

/** People get a page, programs the error of the API. */
const isPage = ({ url, headers }: Exchange) =>
  !/^\/(v1|readyz|docs|openapi\.json|logo|assets)(\/|\?|$)/.test(url) &&
  (headers.accept?.includes('text/html') ?? false)

const sealedPage: Route = plainRoute('/*', async (exchange) =>
  exchange
    .status(503)
    .header('retry-after', retryAfterSeconds)
    .header('content-type', 'text/html; charset=utf-8')
    .header('content-security-policy', "default-src 'none'; frame-ancestors 'none'")
    .header('referrer-policy', 'no-referrer')
    .send(
      `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="refresh" content="${retryAfterSeconds}"><title>Coffer is sealed</title></head>
<body><h1>Coffer is sealed</h1><p>${sealed().message}</p><p>This page loads again by itself.</p></body></html>
`,
    ),
)
