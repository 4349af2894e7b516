/**
 * The only door to the outside. An address that a user typed may lead to the public internet and nowhere else: every
 * address of the name is checked first, the connection is pinned to those addresses, and no redirect is followed.
 */
import { lookup as lookupName } from 'node:dns/promises'
import type { IncomingHttpHeaders } from 'node:http'
import { isIP, type LookupFunction } from 'node:net'
import { domainToASCII } from 'node:url'
import {
  type AddressRange,
  isCloudMetadata,
  isInRange,
  isSingleAddress,
  isSpecialPurpose,
  parseAddress,
  parseRange,
} from './address-range.ts'
import { codeOf } from './error-code.ts'

// An import would load everything that it offers, 10 MB of a WebSocket client included.
const { request: requestHttp, validateHeaderName, validateHeaderValue } = process.getBuiltinModule('node:http')

export type AllowList = { hosts: ReadonlySet<string>; ranges: readonly AddressRange[] }
/** A resolver of one's own may lead to another port than the one that was asked for. */
type ResolvedAddress = { address: string; family: number; port?: number }
export type Resolve = (hostname: string) => Promise<ResolvedAddress[]>

/**
 * On whose behalf a request is sent. `operator`: the address is from the operator's own settings, and the rules on
 * addresses, ports and https are skipped. `allowed`: a workspace that may use COFFER_OUTBOUND_ALLOW. `public`: any other.
 */
export type OutboundReach = 'operator' | 'allowed' | 'public'

export type OutboundRequest = {
  /** Required, so that no caller reaches the inner network by leaving it out. */
  reach: OutboundReach
  url: string
  method?: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  headers?: Readonly<Record<string, string>>
  body?: string | Uint8Array
  timeoutMs?: number
  maxBytes?: number
  /** Replaces the well-known authorities for this request. */
  ca?: string
}
export type OutboundResponse = { status: number; headers: IncomingHttpHeaders; body: Buffer }
export type Outbound = { request(request: OutboundRequest): Promise<OutboundResponse> }
/** The same on behalf of one workspace. */
export type WorkspaceOutbound = { request(request: Omit<OutboundRequest, 'reach'>): Promise<OutboundResponse> }

type OutboundErrorKind = 'refused' | 'timeout' | 'too_large' | 'connection' | 'bad_url'

/** The message names the host at most, never a path, query, header or body; there is no cause, as that might. */
export class OutboundError extends Error {
  readonly kind: OutboundErrorKind
  /** There was no connection, TLS included: the address is wrong, not allowed, or nobody is there. */
  readonly isUnreached: boolean
  /** The server showed a certificate that no trusted authority has signed. */
  readonly isUntrusted: boolean

  constructor(
    kind: OutboundErrorKind,
    message: string,
    { isUnreached = kind === 'bad_url', isUntrusted = false }: { isUnreached?: boolean; isUntrusted?: boolean } = {},
  ) {
    super(message)
    this.name = 'OutboundError'
    this.kind = kind
    this.isUnreached = isUnreached
    this.isUntrusted = isUntrusted
  }
}

export const unlistedWorkspace =
  'Private addresses, other ports and plain http are for workspaces that the operator lists in COFFER_OUTBOUND_WORKSPACES: ask the operator to add this one.'

type Target = { url: URL; hostname: string; headers: Record<string, string>; isReached: boolean }

export function createOutbound(options: {
  allow: AllowList
  resolve?: Resolve
  /** Replaces the well-known authorities. */
  ca?: string | string[]
}): Outbound {
  const resolve = options.resolve ?? ((hostname) => lookupName(hostname, { all: true }))

  async function perform(request: OutboundRequest, target: Target, signal: AbortSignal): Promise<OutboundResponse> {
    const addresses = await resolveTarget(target, resolve)
    if (request.reach !== 'operator') requirePermitted(target, addresses, options.allow, request.reach)
    signal.throwIfAborted()
    return exchange(request, target, addresses, signal, request.ca ?? options.ca)
  }

  return {
    async request(request) {
      const target = readTarget(request)
      const abort = new AbortController()
      const deadline = Promise.withResolvers<never>()
      const timer = setTimeout(() => {
        const isUnreached = !target.isReached
        deadline.reject(new OutboundError('timeout', `${target.hostname} did not answer in time.`, { isUnreached }))
        abort.abort()
      }, request.timeoutMs ?? 10_000)

      try {
        return await Promise.race([perform(request, target, abort.signal), deadline.promise])
      } catch (error) {
        throw error instanceof OutboundError ? error : connectionError(target, 'could not be reached', error)
      } finally {
        clearTimeout(timer)
      }
    },
  }
}

/** Entries are separated by commas or white space; each is a host name, an address or a range such as 10.0.0.0/8. */
export function parseAllowList(text: string): AllowList {
  const hosts = new Set<string>()
  const ranges: AddressRange[] = []

  for (const entry of text.split(/[\s,]+/).filter((part) => part !== '')) {
    const range = parseRange(entry)
    if (range !== undefined) ranges.push(range)
    else hosts.add(requireHostName(entry))
  }
  return { hosts, ranges }
}

function requireHostName(entry: string): string {
  // What ends the host in a URL, domainToASCII would quietly cut off: another name than the one that was written.
  const name = /[/?#@:\\]/.test(entry) ? '' : domainToASCII(entry.replace(/\.$/, ''))
  const isName = /^(?!-)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*$/.test(name)
  // A name that ends in a number is an address in disguise (0177.0.0.1), or a slip (10.0.0/8).
  if (!isName || /(^|\.)(\d+|0x[0-9a-f]*)$/.test(name)) {
    throw new Error(`"${entry}" is not a host name, an IP address or a range such as 10.0.0.0/8.`)
  }
  return name
}

function readTarget({ url: text, headers = {} }: OutboundRequest): Target {
  const url = URL.parse(text)
  if (url === null) throw new OutboundError('bad_url', 'The address is not a valid URL.')
  if (url.protocol !== 'https:' && url.protocol !== 'http:') {
    throw new OutboundError('bad_url', 'The address must start with https://.')
  }

  const hostname = url.hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '')
  if (hostname === '' || hostname.endsWith('.')) throw new OutboundError('bad_url', 'The address has no valid host.')
  if (url.username !== '' || url.password !== '') {
    throw new OutboundError('bad_url', `The address of ${hostname} must not contain a user name or a password.`)
  }
  return { url, hostname, headers: checkedHeaders(url, hostname, headers), isReached: false }
}

// These say where the message goes and where it ends, which is for this file to decide.
const reservedHeaders: ReadonlySet<string> = new Set(
  'host connection content-length transfer-encoding keep-alive te trailer upgrade expect proxy-connection'.split(' '),
)

function checkedHeaders(url: URL, hostname: string, headers: Readonly<Record<string, string>>): Record<string, string> {
  const checked: Record<string, string> = {}
  for (const [name, value] of Object.entries(headers)) {
    try {
      validateHeaderName(name)
      validateHeaderValue(name, value)
    } catch {
      throw new OutboundError('refused', `A header of the request to ${hostname} is not valid.`)
    }
    if (reservedHeaders.has(name.toLowerCase())) {
      throw new OutboundError('refused', `A header of the request to ${hostname} may not be set.`)
    }
    checked[name.toLowerCase()] = value
  }

  const host = isIP(hostname) === 6 ? `[${hostname}]` : hostname
  return { ...checked, host: url.port === '' ? host : `${host}:${url.port}`, 'accept-encoding': 'identity' }
}

async function resolveTarget(target: Target, resolve: Resolve): Promise<ResolvedAddress[]> {
  const family = isIP(target.hostname)
  if (family !== 0) return [{ address: target.hostname, family }]

  const addresses = await resolve(target.hostname).catch((error: unknown) => {
    throw connectionError(target, 'could not be resolved', error)
  })
  if (addresses.length === 0) throw connectionError(target, 'could not be resolved')
  return addresses
}

/** One bad address among many refuses them all: which of them the connection would use is up to whoever answers. */
function requirePermitted(
  target: Target,
  addresses: ResolvedAddress[],
  allow: AllowList,
  reach: 'allowed' | 'public',
): void {
  const mayUseList = reach === 'allowed'
  const unlisted = addresses.filter(({ address }) => !mayUseList || !isListed(target.hostname, address, allow))
  if (unlisted.length === 0) return

  // The same sentence whether the host is listed or not: a workspace must not learn which inner hosts are.
  const advice = mayUseList || allow.hosts.size + allow.ranges.length === 0 ? '' : ` ${unlistedWorkspace}`
  const refuse = (reason: string) => {
    throw new OutboundError('refused', `Connecting to ${target.hostname} is refused: ${reason}.${advice}`, {
      isUnreached: true,
    })
  }
  for (const { address: text } of unlisted) {
    const address = parseAddress(text)
    if (address === undefined || isSpecialPurpose(address)) refuse('it has a private or reserved address')
  }
  if (target.url.protocol !== 'https:') refuse('only https is allowed')
  if (target.url.port !== '') refuse('only port 443 is allowed')
}

function isListed(hostname: string, text: string, allow: AllowList): boolean {
  const address = parseAddress(text)
  if (address === undefined) return false

  const matching = allow.ranges.filter((range) => isInRange(address, range))
  // The machine's own cloud credentials are opened by their very address only, not by a range or a name around it.
  if (isCloudMetadata(address)) return matching.some(isSingleAddress)
  return matching.length > 0 || allow.hosts.has(hostname)
}

async function exchange(
  request: OutboundRequest,
  target: Target,
  addresses: ResolvedAddress[],
  signal: AbortSignal,
  ca: string | string[] | undefined,
): Promise<OutboundResponse> {
  const { url, hostname } = target
  const maxBytes = request.maxBytes ?? 1024 * 1024
  const body = request.body === undefined ? undefined : Buffer.from(request.body)
  const length = body === undefined ? {} : { 'content-length': String(body.length) }
  const { promise, resolve, reject } = Promise.withResolvers<OutboundResponse>()

  // TLS takes a start some 20 ms: it is loaded by the first who needs it.
  const send = url.protocol === 'https:' ? process.getBuiltinModule('node:https').request : requestHttp
  const outgoing = send({
    host: hostname,
    port: addresses[0]?.port ?? (url.port === '' ? undefined : Number(url.port)),
    path: url.pathname + url.search,
    method: request.method ?? 'GET',
    headers: { ...target.headers, ...length },
    // A connection of its own, never a pooled one or an environment's proxy, which would choose the address again.
    agent: false,
    lookup: pinnedLookup(addresses),
    signal,
    // Said aloud, since NODE_TLS_REJECT_UNAUTHORIZED=0 would otherwise switch it off.
    rejectUnauthorized: true,
    servername: isIP(hostname) === 0 ? hostname : '',
    ...(ca === undefined ? {} : { ca }),
  })

  outgoing.on('socket', (socket) =>
    socket.once(url.protocol === 'https:' ? 'secureConnect' : 'connect', () => {
      target.isReached = true
    }),
  )
  outgoing.on('error', (error) => reject(connectionError(target, 'could not be reached', error)))
  outgoing.on('close', () => reject(connectionError(target, 'closed the connection')))
  outgoing.on('response', (incoming) => {
    const chunks: Buffer[] = []
    let receivedBytes = 0
    incoming.on('data', (chunk: Buffer) => {
      receivedBytes += chunk.length
      if (receivedBytes <= maxBytes) chunks.push(chunk)
      else reject(new OutboundError('too_large', `The answer of ${hostname} is larger than ${maxBytes} bytes.`))
    })
    incoming.on('error', (error) => reject(connectionError(target, 'broke off its answer', error)))
    incoming.on('end', () =>
      resolve({ status: incoming.statusCode ?? 0, headers: incoming.headers, body: Buffer.concat(chunks) }),
    )
  })
  outgoing.end(body)

  return promise.finally(() => outgoing.destroy())
}

/** Answers with what was checked, so that the name is never resolved a second time. */
function pinnedLookup(addresses: ResolvedAddress[]): LookupFunction {
  return (_hostname, { all }, callback) => {
    const [first] = addresses
    if (all === true) callback(null, addresses)
    else callback(null, first?.address ?? '', first?.family)
  }
}

/** OpenSSL's words for a chain that does not end at an authority that we know. */
const untrustedCodes: ReadonlySet<string> = new Set([
  'CERT_SIGNATURE_FAILURE',
  'CERT_UNTRUSTED',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
])

/** Keeps the error's code and drops its text, which is another library's. */
function connectionError(target: Target, what: string, error?: unknown): OutboundError {
  const code = codeOf(error)
  const suffix = /^[A-Z][A-Z0-9_]{2,50}$/.test(code) ? ` (${code})` : ''
  const isUntrusted = untrustedCodes.has(code)
  const said = isUntrusted ? 'shows a certificate that cannot be verified' : what
  return new OutboundError('connection', `${target.hostname} ${said}${suffix}.`, {
    isUnreached: !target.isReached,
    isUntrusted,
  })
}
