/** Admits a request: counts it against its rate limit and recognises its credential. First step of every request. */
import type { Socket } from 'node:net'
import type { Endpoint } from '@coffer/contract/endpoint'
import { type AddressRange, clientNetwork, isInRange, parseAddress, plainAddress } from '../../address-range.ts'
import { type Config, isLoopback } from '../../config.ts'
import { mayHaveChanged } from '../../domain/access/confirm.ts'
import { type Actor, anonymous } from '../../domain/actor.ts'
import type { ChangeFollower } from '../../domain/cache/change-follower.ts'
import type { Context, Services } from '../../domain/context.ts'
import { credentialKey } from '../../domain/credential/credential.ts'
import { newRun, type Run } from '../../domain/request-run.ts'
import { Failure } from '../../failure.ts'
import type { Exchange } from '../exchange.ts'
import { limitExchange, showLimit } from '../limits/exchange-limit.ts'
import { type Hit, type Limiter, nearerToExhaustion, rateLimited } from '../limits/rate-limit.ts'
import type { Reservations } from '../limits/reservation.ts'
import { hasTwice, readCredential } from './credential-header.ts'
import type { ForwardedWatch } from './forwarded-watch.ts'

export type AdmissionParts = {
  readonly services: Services
  readonly follower: ChangeFollower
  readonly limiter: Limiter
  readonly exchangeLimiter: Limiter
  readonly shareLimiter: Limiter
  /** Counts requests outside `/v1`, so that a page load does not use up the limit of the API. */
  readonly pageLimiter: Limiter
  /** Counts the scripts and styles of pages. */
  readonly fileLimiter: Limiter
  readonly reservations: Reservations
  readonly forwarded: ForwardedWatch
  readonly isStopping: () => boolean
}

/**
 * Sets the headers of every response before it can refuse the request. Returns undefined, instead of a promise, if
 * everything needed is in memory: every request passes here.
 */
export function createAdmission(parts: AdmissionParts) {
  const { services, follower, limiter } = parts
  const isTlsOnly = mayRequireTls(services.config)
  const keyOnSocket = createSocketKeys()
  return (exchange: Exchange): Promise<void> | undefined => {
    exchange.header('x-request-id', exchange.id)
    exchange.header('x-content-type-options', 'nosniff')
    if (isTlsOnly) exchange.header('strict-transport-security', `max-age=${yearSeconds}`)
    const endpoint = exchange.route?.endpoint
    // Decided by the matched endpoint as well as the URL, so that no spelling of a path bypasses the checks below.
    const ip = clientAddress(exchange, services.config.trustedProxies, parts.forwarded)
    exchange.network = clientNetwork(ip)
    if (!endpoint && !isApi(exchange.url)) return admitPage(exchange, parts)
    exchange.header('cache-control', 'no-store')
    const counted = limiter.hit(exchange.network)
    if (counted instanceof Promise) return counted.then((hit) => admit(hit))
    return admit(counted)

    function admit(hit: Hit): Promise<void> | undefined {
      showLimit(exchange, hit)
      if (hit.exceeded) throw rateLimited(hit)
      requireHost(exchange)
      if (parts.isStopping()) throw new Failure('stopping')
      if (!endpoint || endpoint.permission === 'public') {
        exchange.admitted = contextFor(parts, anonymous, exchange, ip)
        return endpoint?.looksUpToken ? admitLookUp(hit) : undefined
      }
      const waiting = follower.ensureFresh()
      const known = waiting ? undefined : recognise(exchange, ip)
      if (known && endpoint.permission !== 'auth:exchange') {
        exchange.admitted = contextFor(parts, known, exchange, ip)
        return undefined
      }
      return authenticate(hit, endpoint, waiting)
    }

    /** A rate limit of its own against guessing. Shares are also served from memory, which must be fresh first. */
    async function admitLookUp(globalHit: Hit): Promise<void> {
      const hit = await parts.shareLimiter.hit(exchange.network)
      showLimit(exchange, nearerToExhaustion(hit, globalHit))
      if (hit.exceeded) throw rateLimited(hit)
      await follower.ensureFresh()
    }

    function recognise(exchange: Exchange, ip: string): Actor | undefined {
      const { authorization } = exchange.headers
      if (!authorization?.startsWith('Bearer ') || hasTwice(exchange, 'authorization')) return undefined
      return services.credentials.recognise(keyOnSocket(exchange, authorization), ip)
    }

    async function authenticate(hit: Hit, endpoint: Endpoint, waiting: Promise<void> | undefined): Promise<void> {
      await waiting
      const actor = await services.credentials.authenticate(readCredential(exchange, services.config), ip)
      exchange.admitted = contextFor(parts, actor, exchange, ip)
      if (endpoint.permission === 'auth:exchange') await limitExchange(exchange, parts.exchangeLimiter, hit)
    }
  }
}

const yearSeconds = 31_536_000

/** Not on loopback: a browser would then refuse plain http on every port of the machine. */
function mayRequireTls({ tls, publicUrl }: Config): boolean {
  const url = new URL(publicUrl)
  return tls !== undefined && url.protocol === 'https:' && !isLoopback(url.hostname.replace(/^\[|\]$/g, ''))
}

/** Sets no RateLimit headers, since they describe the limit of the API. */
function admitPage(exchange: Exchange, { pageLimiter, fileLimiter }: AdmissionParts): Promise<void> | undefined {
  requireHost(exchange)
  // Probes are cheap, and an orchestrator whose probe is refused would restart the service.
  if (exchange.route?.isProbe) return undefined
  const limiter = exchange.url.startsWith('/assets/') ? fileLimiter : pageLimiter
  const counted = limiter.hit(exchange.network)
  if (counted instanceof Promise) return counted.then(refuseExceeded)
  return refuseExceeded(counted)
}

function refuseExceeded(hit: Hit): undefined {
  if (hit.exceeded) throw rateLimited(hit)
}

/**
 * Re-checks a request after it waited for its body or a slot. It is the same request, so no rate limit counts it again.
 */
export function createReadmission(parts: AdmissionParts) {
  const { services, follower } = parts

  async function authenticateAgain(exchange: Exchange, waiting: Promise<void> | undefined, run: Run | undefined) {
    if (waiting) await waiting
    const { ip } = exchange.ctx.request
    const actor = await services.credentials.authenticate(readCredential(exchange, services.config), ip)
    exchange.admitted = contextFor(parts, actor, exchange, ip, run)
  }

  return (exchange: Exchange, run?: Run): Promise<void> | undefined => {
    const { admitted, route } = exchange
    if ((route?.endpoint?.permission ?? 'public') === 'public') {
      if (admitted && run) exchange.admitted = { ...admitted, run }
      return undefined
    }
    const waiting = follower.ensureFresh()
    // A body that came at once, as most do: nothing has changed meanwhile.
    return !waiting && !run && !mayHaveChanged(exchange.ctx) ? undefined : authenticateAgain(exchange, waiting, run)
  }
}

/** Clients send the same credential with every request of a connection, so it is hashed once per connection. */
function createSocketKeys(): (exchange: Exchange, authorization: string) => string {
  /** Sockets are Node's objects, which have no field for this. */
  const lastKeys = new WeakMap<Socket, { readonly authorization: string; readonly key: string }>()

  return ({ socket }, authorization) => {
    const last = lastKeys.get(socket)
    if (last?.authorization === authorization) return last.key
    const key = credentialKey(authorization.slice('Bearer '.length))
    lastKeys.set(socket, { authorization, key })
    return key
  }
}

/** Maximum stored length of the user agent, which the client could make arbitrarily long. */
const maxUserAgentLength = 256

function contextFor(parts: AdmissionParts, actor: Actor, exchange: Exchange, ip: string, run: Run = newRun()): Context {
  const { services, reservations } = parts
  const { id, headers, socket } = exchange
  const userAgent = (headers['user-agent'] ?? '').slice(0, maxUserAgentLength)
  const reserve = (bytes: number) => reservations.reserveRead(exchange, bytes)
  const hasHungUp = () => socket.destroyed || socket.readableEnded
  return { ...services, actor, request: { id, ip, userAgent, reserve, hasHungUp }, run }
}

const isApi = (url: string) => url.startsWith('/v1') && (url.length === 3 || url[3] === '/' || url[3] === '?')

function requireHost(exchange: Exchange): undefined {
  if (hasTwice(exchange, 'host')) throw new Failure('malformed', 'The request has two Host headers.')
  const { headers, request } = exchange
  if (headers.host !== undefined || request.httpVersion !== '1.1') return undefined
  throw new Failure('malformed', 'The request has no Host header.')
}

/**
 * Returns the socket's address or, behind trusted proxies, the right-most address in X-Forwarded-For that is not a
 * trusted proxy. An invalid entry ends the search: anything to its left is unverified.
 */
function clientAddress(
  { socket, headers }: Exchange,
  proxies: readonly AddressRange[],
  forwarded: ForwardedWatch,
): string {
  let client = plainAddress(socket.remoteAddress ?? '')
  if (headers['x-forwarded-for'] !== undefined && !isTrusted(proxies, client)) forwarded.saw(client)
  if (proxies.length === 0) return client
  const hops = String(headers['x-forwarded-for'] ?? '').split(',')
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
