/**
 * Assembles the HTTP layer: the routes, the steps that every request passes, and the responses to malformed requests.
 */
import { randomBytes } from 'node:crypto'
import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import type { Health } from '../domain/health.ts'
import type { Tls } from '../tls/tls.ts'
import { openapiRoute } from './docs/openapi.ts'
import { docsRoutes } from './docs/swagger-ui.ts'
import type { Exchange, Route } from './exchange.ts'
import { type AcceptGate, createAcceptGate } from './limits/accept-gate.ts'
import type { ByteBudgets } from './limits/byte-budget.ts'
import { createPipeliningLimit } from './limits/pipelining-limit.ts'
import { createReservations } from './limits/reservation.ts'
import { type Metrics, metricsRoute } from './metrics.ts'
import { createPipeline } from './pipeline.ts'
import { type AdmissionParts, createAdmission, createReadmission } from './request/admit.ts'
import { answerError } from './response/error.ts'
import { logoRoute } from './response/logo.ts'
import type { StaticFolder } from './response/static-file.ts'
import { serveInto } from './route.ts'
import { accessRoutes } from './routes/access/access.ts'
import { auditRoutes } from './routes/audit/audit.ts'
import { authRoutes } from './routes/auth/auth.ts'
import { dashboardRoute } from './routes/dashboard.ts'
import { deviceRoutes } from './routes/device.ts'
import { emailRoutes } from './routes/email.ts'
import { environmentRoutes } from './routes/environment.ts'
import { healthRoutes } from './routes/health.ts'
import { historyRoutes } from './routes/history.ts'
import { inviteRoutes } from './routes/invite.ts'
import { meRoutes } from './routes/me.ts'
import { memberRoutes } from './routes/member/member.ts'
import { mfaRoutes } from './routes/mfa.ts'
import { oidcRoutes } from './routes/oidc/oidc.ts'
import { policyRoutes } from './routes/policy/policy.ts'
import { projectRoutes } from './routes/project.ts'
import { secretFileRoutes } from './routes/secret/file.ts'
import { secretReminderRoutes } from './routes/secret/reminder.ts'
import { secretSearchRoutes } from './routes/secret/search.ts'
import { secretRoutes } from './routes/secret/secret.ts'
import { serviceAccountRoutes } from './routes/service-account/service-account.ts'
import { shareRoutes } from './routes/share/share.ts'
import { syncRoutes } from './routes/sync/sync.ts'
import { teamRoutes } from './routes/team.ts'
import { tokenRoutes } from './routes/token/token.ts'
import { workspaceRoutes } from './routes/workspace.ts'

type HttpParts = Omit<AdmissionParts, 'reservations'> & {
  readonly budgets: ByteBudgets
  readonly metrics: Metrics
  readonly health: Health
  readonly dashboard: StaticFolder
  readonly tls: Tls | undefined
  /** The node was told to stop: it still serves, but is not ready for more. */
  readonly isDraining: () => boolean
  /** Each response ends its connection. */
  readonly isParting: () => boolean
}

const areas = [
  authRoutes,
  deviceRoutes,
  meRoutes,
  emailRoutes,
  mfaRoutes,
  workspaceRoutes,
  memberRoutes,
  inviteRoutes,
  policyRoutes,
  teamRoutes,
  projectRoutes,
  environmentRoutes,
  secretRoutes,
  secretFileRoutes,
  secretReminderRoutes,
  secretSearchRoutes,
  historyRoutes,
  shareRoutes,
  syncRoutes,
  tokenRoutes,
  serviceAccountRoutes,
  oidcRoutes,
  accessRoutes,
  auditRoutes,
]

export function createServer(parts: HttpParts): { server: Server; acceptGate: AcceptGate; routes: readonly Route[] } {
  const { services } = parts
  const routes = collectRoutes(parts)
  const fallback = dashboardRoute(parts.dashboard)
  const reservations = createReservations(parts.budgets)
  const pipeliningLimit = createPipeliningLimit()
  const admission = { ...parts, reservations }
  const listener = createPipeline(routes, {
    reservations,
    fallback,
    newId: requestIds(),
    admit: createAdmission(admission),
    readmit: createReadmission(admission),
    onAnswer: observer(parts),
    onError: (error, exchange) => answerError(services.log, error, exchange),
  })
  // Node answers a missing Host header without a body; `admit` refuses it in the usual error format.
  const options = {
    requireHostHeader: false,
    optimizeEmptyRequests: true,
    requestTimeout: 60_000,
    keepAliveTimeout: 72_000,
  }
  const server = (parts.tls ?? process.getBuiltinModule('node:http')).createServer(options)
  // A client that half-closes its connection still waits for its response. Node has no option for this, only this
  // undocumented field; `wire-connection.test.ts` fails if Node drops it.
  Object.assign(server, { httpAllowHalfOpen: true })
  const acceptGate = createAcceptGate(server, listener, pipeliningLimit)
  // RFC 9110 lets the server ignore unknown expectations: such a request is counted and answered like any other.
  server.on('checkExpectation', (request, response) => server.emit('request', request, response))
  server.on('clientError', (error, socket: Socket) => {
    if (!pipeliningLimit.drop(socket)) answerClientError(error, socket)
  })
  return { server, acceptGate, routes: [...routes, fallback] }
}

function collectRoutes({ services, metrics, health, forwarded, isDraining }: HttpParts): Route[] {
  const routes: Route[] = []
  const serve = serveInto(routes)
  for (const area of areas) area(serve)
  const beside = [
    openapiRoute(routes, services.config.publicUrl),
    ...docsRoutes(),
    ...healthRoutes(health, forwarded, isDraining),
    logoRoute,
  ]
  return [...routes, ...beside, metricsRoute(metrics, services.config)]
}

function observer({ services: { log }, metrics, isParting }: HttpParts) {
  return (exchange: Exchange): void => {
    const { method, statusCode: status } = exchange
    const route = exchange.route?.path ?? ''
    const elapsedMs = performance.now() - exchange.startedAt
    metrics.observe(method, route, status, elapsedMs)
    if (log.isDebug) {
      const ms = Math.round(elapsedMs * 100) / 100
      log.debug('request', { requestId: exchange.id, method, route, status, ms })
    }
    // Tells clients and proxies to send their next request to another node.
    if (isParting()) exchange.header('connection', 'close')
  }
}

/**
 * Unique across processes and restarts. Random, not a counter: two ids must not reveal how many requests came in
 * between.
 */
function requestIds(): () => string {
  const length = 16
  // Generates random bytes for many ids at once: one call per id would dominate the cost.
  const bytes = length * 0.75 * 512
  let pool = ''
  let at = 0
  return () => {
    if (at === pool.length) {
      pool = randomBytes(bytes).toString('base64url')
      at = 0
    }
    at += length
    return pool.slice(at - length, at)
  }
}

const clientErrors: Record<string, [status: string, message: string]> = {
  ERR_HTTP_REQUEST_TIMEOUT: ['408 Request Timeout', 'The request took too long to arrive.'],
  HPE_HEADER_OVERFLOW: ['431 Request Header Fields Too Large', 'The request headers are too large.'],
  HPE_CHUNK_EXTENSIONS_OVERFLOW: ['413 Payload Too Large', 'The request body is not acceptable.'],
}

const lingerMs = 5_000

/** Input that is not HTTP never becomes a request; it is answered here in the usual error format. */
function answerClientError(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  const [status, message] = clientErrors[error.code ?? ''] ?? ['400 Bad Request', 'This is not a valid HTTP request.']
  const body = JSON.stringify({ message })
  const head = [
    `HTTP/1.1 ${status}`,
    'Content-Type: application/json; charset=utf-8',
    `Content-Length: ${Buffer.byteLength(body)}`,
    'Cache-Control: no-store',
    `X-Request-Id: ${randomBytes(9).toString('base64url')}`,
    'Connection: close',
  ]
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`)
  // Disconnects a client that does not close its side.
  socket.setTimeout(lingerMs, () => socket.destroy())
}
