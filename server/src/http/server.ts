/** The HTTP floor: one Fastify instance whose hooks identify, limit and authenticate every request in this order. */
import { randomBytes } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Endpoint } from '@coffer/contract/endpoint'
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import { type AddressRange, clientNetwork, isInRange, parseAddress, plainAddress } from '../address-range.ts'
import type { ChangeFollower } from '../domain/change-follower.ts'
import { type Actor, anonymous, type Context, type Services } from '../domain/context.ts'
import { credentialKey } from '../domain/credential.ts'
import { Failure } from '../failure.ts'
import { answerError } from './answer-error.ts'
import { hasTwoCredentials, readCredential } from './authenticate.ts'
import { acceptJson, maxBodyBytes } from './body.ts'
import { logoRoute } from './logo.ts'
import { type Metrics, metricsRoute } from './metrics.ts'
import { openapiRoutes } from './openapi.ts'
import { type Hit, type Limiter, nearerToExhaustion } from './rate-limit.ts'
import { type Serve, serveOn } from './route.ts'
import { auditRoutes } from './routes/audit.ts'
import { authRoutes } from './routes/auth.ts'
import { deviceRoutes } from './routes/device.ts'
import { environmentRoutes } from './routes/environment.ts'
import { healthRoutes } from './routes/health.ts'
import { historyRoutes } from './routes/history.ts'
import { inviteRoutes } from './routes/invite.ts'
import { meRoutes } from './routes/me.ts'
import { memberRoutes } from './routes/member.ts'
import { mfaRoutes } from './routes/mfa.ts'
import { oidcRoutes } from './routes/oidc.ts'
import { projectRoutes } from './routes/project.ts'
import { secretRoutes } from './routes/secret.ts'
import { secretFileRoutes } from './routes/secret-file.ts'
import { secretReminderRoutes } from './routes/secret-reminder.ts'
import { shareRoutes } from './routes/share.ts'
import { syncRoutes } from './routes/sync.ts'
import { teamRoutes } from './routes/team.ts'
import { tokenRoutes } from './routes/token.ts'
import { workspaceRoutes } from './routes/workspace.ts'
import { serializerCompiler } from './serialize.ts'
import { validatorCompiler } from './validate.ts'

export type HttpParts = {
  readonly services: Services
  readonly follower: ChangeFollower
  readonly limiter: Limiter
  readonly exchangeLimiter: Limiter
  readonly shareLimiter: Limiter
  readonly metrics: Metrics
  readonly isStopping: () => boolean
}

const areas = [
  authRoutes,
  deviceRoutes,
  meRoutes,
  mfaRoutes,
  workspaceRoutes,
  memberRoutes,
  inviteRoutes,
  teamRoutes,
  projectRoutes,
  environmentRoutes,
  secretRoutes,
  secretFileRoutes,
  secretReminderRoutes,
  historyRoutes,
  shareRoutes,
  syncRoutes,
  tokenRoutes,
  oidcRoutes,
  auditRoutes,
]

export async function createServer(parts: HttpParts): Promise<FastifyInstance> {
  const { services } = parts
  const { log, config } = services
  const answer = (error: unknown, request: FastifyRequest, reply: FastifyReply) => {
    answerError(log, error, request, reply)
  }
  const identify = identifier(parts)
  const app = fastify({
    bodyLimit: maxBodyBytes,
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 4_096 },
    rewriteUrl: ({ url = '/' }) => onePath(url),
    // Without a Host the answer would have no body: identify refuses it in the same form as everything else.
    http: { requireHostHeader: false, optimizeEmptyRequests: true },
    genReqId: requestIds(),
    requestTimeout: 60_000,
    connectionTimeout: 0,
    keepAliveTimeout: 72_000,
    // Ours answers with the same body and headers as every other refusal.
    return503OnClosing: false,
    // `stop` closes what rests, a moment later: at once would cut off a request that is just on its way.
    forceCloseConnections: false,
    // A URL that cannot be decoded meets no hook of its own: it is identified here, so that its answer has all headers.
    frameworkErrors: (error, request, reply) => {
      Promise.try(identify, request, reply).then(
        () => answer(error, request, reply),
        (refusal) => answer(refusal, request, reply),
      )
    },
    clientErrorHandler: answerClientError,
  })
  app.server.on('checkExpectation', answerExpectation)
  app.setValidatorCompiler(validatorCompiler)
  app.setSerializerCompiler(serializerCompiler)
  app.setErrorHandler(answer)
  app.setNotFoundHandler((request, reply) => answer(new Failure('notFound'), request, reply))
  acceptJson(app)
  app.decorateRequest('ctx', null as unknown as Context)
  app.decorateRequest('startedAt', 0)
  app.decorateRequest('route', undefined)

  app.addHook('onRoute', ({ config, url }) => {
    if (url.startsWith('/v1') && !config?.endpoint?.permission) throw new Error(`${url} declares no permission`)
  })
  app.addHook('onRequest', (request, reply, done) => {
    try {
      const waiting = identify(request, reply)
      if (waiting) waiting.then(() => done(), done)
      else done()
    } catch (error) {
      done(error instanceof Error ? error : new Failure('internal'))
    }
  })
  // Counted here and not once the answer has been sent: listening for that costs each request more than the counting.
  app.addHook('onSend', (request, reply, payload, done) => {
    const route = request.route?.url ?? ''
    const elapsedMs = performance.now() - request.startedAt
    parts.metrics.observe(request.method, route, reply.statusCode, elapsedMs)
    if (log.isDebug) {
      const ms = Math.round(elapsedMs * 100) / 100
      log.debug('request', { requestId: request.id, method: request.method, route, status: reply.statusCode, ms })
    }
    // Whoever is told so opens no next request on a connection that is about to be closed.
    if (parts.isStopping()) reply.header('connection', 'close')
    done(null, payload)
  })

  const declare = (serve: Serve) => {
    for (const area of areas) area(serve)
  }
  openapiRoutes(app, declare)
  declare(serveOn(app))
  healthRoutes(app, services)
  metricsRoute(app, parts.metrics, config)
  logoRoute(app)
  await app.ready()
  return app
}

/**
 * Who asks, how often, and with which credential: headers that stand on every answer are set before any refusal. When
 * all that it needs is at hand nothing is awaited: this is on the way of every request.
 */
function identifier(parts: HttpParts) {
  const { services, follower, limiter } = parts
  return (request: FastifyRequest, reply: FastifyReply): Promise<void> | undefined => {
    request.startedAt = performance.now()
    reply.header('x-request-id', request.id)
    reply.header('x-content-type-options', 'nosniff')
    // A body that is empty or not there has no type: `curl -d ''` sends one all the same, and nothing would end it.
    if (request.headers['content-type'] !== undefined && !hasBody(request)) delete request.headers['content-type']
    // Taken once: Fastify puts the options together anew each time they are asked for.
    request.route = request.routeOptions?.config
    const endpoint = request.route?.endpoint
    // An endpoint is never reached without what follows, however its path was spelled.
    if (!endpoint && !isApi(request.url)) return requireHost(request)
    reply.header('cache-control', 'no-store')
    const ip = clientAddress(request, services.config.trustedProxies)
    const counted = limiter.hit(clientNetwork(ip))
    if (counted instanceof Promise) return counted.then((hit) => admit(hit))
    return admit(counted)

    function admit(hit: Hit): Promise<void> | undefined {
      showLimit(reply, hit)
      if (hit.exceeded) throw rateLimited(hit)
      requireHost(request)
      if (parts.isStopping()) throw new Failure('stopping')
      if (!endpoint || endpoint.permission === 'public') {
        request.ctx = contextFor(services, anonymous, request, ip)
        return endpoint?.area === 'secret-share' ? admitReader(hit) : undefined
      }
      const waiting = follower.ensureFresh()
      const known = waiting ? undefined : recognise(request, ip)
      if (known && endpoint.permission !== 'auth:exchange') {
        request.ctx = contextFor(services, known, request, ip)
        return undefined
      }
      return authenticate(hit, endpoint, waiting)
    }

    /** Whether a share opens is decided from memory too, and guesses at shares have a limit of their own. */
    async function admitReader(globalHit: Hit): Promise<void> {
      const hit = await parts.shareLimiter.hit(clientNetwork(ip))
      showLimit(reply, nearerToExhaustion(hit, globalHit))
      if (hit.exceeded) throw rateLimited(hit)
      await follower.ensureFresh()
    }

    function recognise(request: FastifyRequest, ip: string): Actor | undefined {
      const { authorization } = request.headers
      if (!authorization?.startsWith('Bearer ') || hasTwoCredentials(request)) return undefined
      return services.credentials.recognise(keyOnSocket(request, authorization), ip)
    }

    async function authenticate(hit: Hit, endpoint: Endpoint, waiting: Promise<void> | undefined): Promise<void> {
      await waiting
      const actor = await services.credentials.authenticate(readCredential(request, services.config), ip)
      request.ctx = contextFor(services, actor, request, ip)
      if (endpoint.permission === 'auth:exchange') await limitExchange(request, reply, parts.exchangeLimiter, hit)
    }
  }
}

function hasBody({ headers }: FastifyRequest): boolean {
  const length = headers['content-length']
  return length === undefined ? headers['transfer-encoding'] !== undefined : length !== '0'
}

/** A client sends the same credential with every request of a connection: it is hashed once for each. */
const lastOnSocket = new WeakMap<Socket, { readonly authorization: string; readonly key: string }>()

function keyOnSocket(request: FastifyRequest, authorization: string): string {
  const last = lastOnSocket.get(request.socket)
  if (last?.authorization === authorization) return last.key
  const key = credentialKey(authorization.slice('Bearer '.length))
  lastOnSocket.set(request.socket, { authorization, key })
  return key
}

/** The second limit of the exchange: per token; the headers describe whichever limit is nearer. */
async function limitExchange(
  request: FastifyRequest,
  reply: FastifyReply,
  limiter: Limiter,
  globalHit: Hit,
): Promise<void> {
  const { credential } = request.ctx.actor
  // Anything but an API token is refused further on: it uses up nobody's exchanges.
  if (credential.type !== 'static' && credential.type !== 'cli-token') return
  const hit = await limiter.hit(credential.token.id)
  showLimit(reply, nearerToExhaustion(hit, globalHit))
  if (hit.exceeded) throw rateLimited(hit)
}

function contextFor(services: Services, actor: Actor, request: FastifyRequest, ip: string): Context {
  const userAgent = request.headers['user-agent'] ?? ''
  return { ...services, actor, request: { id: request.id, ip, userAgent } }
}

function showLimit(reply: FastifyReply, hit: Hit): void {
  reply.header('ratelimit-limit', hit.limit)
  reply.header('ratelimit-remaining', hit.remaining)
  reply.header('ratelimit-reset', hit.resetSeconds)
}

function rateLimited(hit: Hit): Failure {
  const { resetSeconds } = hit
  return new Failure('rateLimited', `Rate limit exceeded, retry in ${resetSeconds} seconds.`, {
    retryAfterSeconds: resetSeconds,
  })
}

const isApi = (url: string) => url.startsWith('/v1') && (url.length === 3 || url[3] === '/' || url[3] === '?')

/** One spelling for each path: without scheme and host (RFC 9112, 3.2.2), letters and digits not percent-encoded. */
function onePath(url: string): string {
  const path = url.startsWith('/') ? url : url.replace(/^https?:\/\/[^/?#]*/i, '') || '/'
  return path.includes('%') ? path.replace(/%(?:2d|2e|3\d|[46][1-9a-f]|[57][0-9a]|5f|7e)/gi, decodeURIComponent) : path
}

function requireHost(request: FastifyRequest): undefined {
  if (request.headers.host !== undefined || request.raw.httpVersion !== '1.1') return undefined
  throw new Failure('malformed', 'The request has no Host header.')
}

/**
 * The socket's address or, where a trusted proxy speaks, the right-most address of X-Forwarded-For that is none of
 * theirs. An entry that is no address ends the search: what stands left of it is hearsay.
 */
function clientAddress(request: FastifyRequest, proxies: readonly AddressRange[]): string {
  let client = plainAddress(request.socket.remoteAddress ?? '')
  if (proxies.length === 0) return client
  const hops = String(request.headers['x-forwarded-for'] ?? '').split(',')
  while (isTrusted(proxies, client)) {
    const entry = (hops.pop() ?? '').trim().replace(/^\[(.*)\](?::\d+)?$|^([\d.]+):\d+$/, '$1$2')
    if (!parseAddress(entry)) break
    client = plainAddress(entry)
  }
  return client
}

function isTrusted(ranges: readonly AddressRange[], peer: string): boolean {
  const address = parseAddress(peer)
  return address !== undefined && ranges.some((range) => isInRange(address, range))
}

/** Unique across processes and starts, and cheap: random bytes once, then a counter. */
function requestIds(): () => string {
  const prefix = randomBytes(9).toString('base64url')
  let counter = 0
  return () => `${prefix}-${(++counter).toString(36)}`
}

const clientErrors: Record<string, [status: string, message: string]> = {
  ERR_HTTP_REQUEST_TIMEOUT: ['408 Request Timeout', 'The request took too long to arrive.'],
  HPE_HEADER_OVERFLOW: ['431 Request Header Fields Too Large', 'The request headers are too large.'],
  HPE_CHUNK_EXTENSIONS_OVERFLOW: ['413 Payload Too Large', 'The request body is not acceptable.'],
}

/** What only Node's own server would answer otherwise, with an empty body. */
function answerExpectation(_request: IncomingMessage, response: ServerResponse): void {
  const body = JSON.stringify({ message: 'The expectation of the request cannot be met.' })
  const requestId = randomBytes(9).toString('base64url')
  response
    .writeHead(417, {
      'content-type': 'application/json; charset=utf-8',
      'cache-control': 'no-store',
      'x-request-id': requestId,
      connection: 'close',
    })
    .end(body)
}

/** What is not HTTP never becomes a request: answered here, in the same form. */
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
}
