/**
 * The only module that sends HTTP requests. An address typed by a user may lead only to the public internet: every
 * address of the host is checked first, the connection is pinned to the checked addresses, and redirects are not
 * followed.
 */
import { lookup as lookupName } from 'node:dns/promises'
import type { ClientRequest, IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { isIP, type LookupFunction } from 'node:net'
import { isSpecialPurpose, parseAddress } from './address-range.ts'
import { refusedCodes, untrustedCodes } from './certificate-code.ts'
import { codeOf } from './error-code.ts'
import { type AllowList, isListed } from './outbound-allow.ts'

// An import would load the whole module, including 10 MB of a WebSocket client.
const { request: requestHttp, validateHeaderName, validateHeaderValue } = process.getBuiltinModule('node:http')

/** A custom resolver may return a port other than the requested one. */
type ResolvedAddress = { address: string; family: number; port?: number }
export type Resolve = (hostname: string) => Promise<ResolvedAddress[]>

/**
 * Decides which addresses a request may reach. `operator`: the address is from the operator's settings, and the rules
 * on addresses, ports and https are skipped. `allowed`: a workspace that may use COFFER_OUTBOUND_ALLOW. `public`:
 * everyone else.
 */
export type OutboundReach = 'operator' | 'allowed' | 'public'

export type OutboundRequest = {
  /** Required, so that no caller reaches the internal network by omitting it. */
  reach: OutboundReach
  url: string
  method?: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  headers?: Readonly<Record<string, string>>
  body?: string | Uint8Array | StreamedBody
  /** For a streamed body, and with `save`, time without progress; otherwise time of the whole exchange. */
  timeoutMs?: number
  maxBytes?: number
  signal?: AbortSignal
  /** Takes the body of a response with status 200 to 299, which is then not held in memory. */
  save?: (body: AsyncIterable<Buffer>, status: number) => Promise<void>
  /** Replaces the default certificate authorities for this request. */
  ca?: string
}
/** A body of known length that is not held in memory. */
type StreamedBody = { readonly bytes: number; open(): AsyncIterable<Uint8Array> }
export type OutboundResponse = { status: number; headers: IncomingHttpHeaders; body: Buffer }
export type Outbound = { request(request: OutboundRequest): Promise<OutboundResponse> }
/** Outbound requests on behalf of one workspace. */
export type WorkspaceOutbound = { request(request: Omit<OutboundRequest, 'reach'>): Promise<OutboundResponse> }

type OutboundErrorKind = 'refused' | 'timeout' | 'too_large' | 'connection' | 'bad_url'

/**
 * The message names at most the host, never a path, query, header or body. The error has no cause, since a cause might.
 */
export class OutboundError extends Error {
  readonly kind: OutboundErrorKind
  /** No connection was established, TLS included: the address is wrong, not allowed, or nothing listens there. */
  readonly isUnreached: boolean
  /** The server's certificate is not signed by a trusted authority. */
  readonly isUntrusted: boolean
  /** A server answered with a certificate that was refused for any reason, such as its name or its end. */
  readonly isCertificateRefused: boolean

  constructor(
    kind: OutboundErrorKind,
    message: string,
    {
      isUnreached = kind === 'bad_url',
      isUntrusted = false,
      isCertificateRefused = isUntrusted,
    }: { isUnreached?: boolean; isUntrusted?: boolean; isCertificateRefused?: boolean } = {},
  ) {
    super(message)
    this.name = 'OutboundError'
    this.kind = kind
    this.isUnreached = isUnreached
    this.isUntrusted = isUntrusted
    this.isCertificateRefused = isCertificateRefused
  }
}

/** An error of the caller's own stream, such as a full disk. It is no fault of the connection. */
class StreamFailure extends Error {}

export const unlistedWorkspace =
  'Private addresses, other ports and plain http are for workspaces that the operator lists in COFFER_OUTBOUND_WORKSPACES: ask the operator to add this one.'

/** Ends an exchange, and restarts its deadline. */
type Line = { readonly signal: AbortSignal; onProgress(): void }
type Target = { url: URL; hostname: string; headers: Record<string, string>; isReached: boolean }

export function createOutbound(options: {
  allow: AllowList
  resolve?: Resolve
  /** Replaces the default certificate authorities. */
  ca?: string | string[]
}): Outbound {
  const resolve = options.resolve ?? ((hostname) => lookupName(hostname, { all: true }))

  async function perform(request: OutboundRequest, target: Target, line: Line): Promise<OutboundResponse> {
    const addresses = await resolveTarget(target, resolve)
    if (request.reach !== 'operator') requirePermitted(target, addresses, options.allow, request.reach)
    line.signal.throwIfAborted()
    return exchange(request, target, addresses, line, request.ca ?? options.ca)
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
      const signal = AbortSignal.any([abort.signal, ...(request.signal === undefined ? [] : [request.signal])])

      try {
        return await Promise.race([
          perform(request, target, { signal, onProgress: () => timer.refresh() }),
          deadline.promise,
        ])
      } catch (error) {
        if (error instanceof StreamFailure) throw error.cause
        throw error instanceof OutboundError ? error : connectionError(target, 'could not be reached', error)
      } finally {
        clearTimeout(timer)
      }
    },
  }
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

// These headers define the message's destination and length, which only this file may decide.
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
      throw new OutboundError('refused', `A header of the request to ${hostname} must not be set.`)
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

/** One forbidden address refuses the request, because the DNS server decides which address the connection would use. */
function requirePermitted(
  target: Target,
  addresses: ResolvedAddress[],
  allow: AllowList,
  reach: 'allowed' | 'public',
): void {
  const mayUseList = reach === 'allowed'
  const unlisted = addresses.filter(({ address }) => !mayUseList || !isListed(target.hostname, address, allow))
  if (unlisted.length === 0) return

  // The message is the same whether or not the host is listed: a workspace must not learn which internal hosts are.
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

async function exchange(
  request: OutboundRequest,
  target: Target,
  addresses: ResolvedAddress[],
  line: Line,
  ca: string | string[] | undefined,
): Promise<OutboundResponse> {
  const { url, hostname } = target
  const maxBytes = request.maxBytes ?? 1024 * 1024
  const body = bodyOf(request)
  const { promise, resolve, reject } = Promise.withResolvers<OutboundResponse>()

  // Loaded on the first https request: loading TLS would slow every start by some 20 ms.
  const send = url.protocol === 'https:' ? process.getBuiltinModule('node:https').request : requestHttp
  const outgoing = send({
    host: hostname,
    port: addresses[0]?.port ?? (url.port === '' ? undefined : Number(url.port)),
    path: url.pathname + url.search,
    method: request.method ?? 'GET',
    headers: { ...target.headers, ...(body && { 'content-length': String(body.bytes) }) },
    // A new connection: a pooled one, or a proxy from the environment, would bypass the checked addresses.
    agent: false,
    lookup: pinnedLookup(addresses),
    signal: line.signal,
    // Set explicitly, because NODE_TLS_REJECT_UNAUTHORIZED=0 would switch verification off.
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
  const onClose = () => reject(connectionError(target, 'closed the connection'))
  outgoing.on('close', onClose)
  outgoing.on('response', (incoming) => {
    const status = incoming.statusCode ?? 0
    // From here on `receive` reports a lost connection, which may also close before all that it brought is saved.
    outgoing.off('close', onClose)
    const received = receive(incoming, target, maxBytes)
    const isSaved = request.save !== undefined && status >= 200 && status < 300
    const content = isSaved ? save(request, watched(received, line.onProgress), status) : inMemory(received)
    content.then((body) => resolve({ status, headers: incoming.headers, body }), reject)
  })
  if (body?.stream) sendStream(body.stream(), line, outgoing).catch(reject)
  else outgoing.end(body?.content)

  return promise.finally(() => outgoing.destroy())
}

type Body = { readonly bytes: number; readonly content?: Buffer; readonly stream?: () => AsyncIterable<Uint8Array> }

function bodyOf({ body }: OutboundRequest): Body | undefined {
  if (body === undefined) return undefined
  if (typeof body === 'object' && 'open' in body) return { bytes: body.bytes, stream: () => body.open() }
  const content = typeof body === 'string' ? Buffer.from(body) : Buffer.from(body.buffer, body.byteOffset, body.length)
  return { bytes: content.length, content }
}

/** An error of the connection is left to the events of the request, which know more about it. */
async function sendStream(chunks: AsyncIterable<Uint8Array>, line: Line, outgoing: ClientRequest): Promise<void> {
  const { pipeline } = process.getBuiltinModule('node:stream/promises')
  let failure: StreamFailure | undefined
  async function* guarded() {
    try {
      yield* watched(chunks, line.onProgress)
    } catch (error) {
      failure = ownFailure(error)
      throw failure
    }
  }
  await pipeline(guarded(), outgoing).catch(() => undefined)
  if (failure !== undefined) throw failure
}

async function inMemory(chunks: AsyncIterable<Buffer>): Promise<Buffer> {
  return Buffer.concat(await Array.fromAsync(chunks))
}

async function save(request: OutboundRequest, chunks: AsyncIterable<Buffer>, status: number): Promise<Buffer> {
  await request.save?.(chunks, status).catch((error: unknown) => {
    throw ownFailure(error)
  })
  return Buffer.alloc(0)
}

async function* watched<Chunk>(chunks: AsyncIterable<Chunk>, onProgress: () => void): AsyncGenerator<Chunk> {
  for await (const chunk of chunks) {
    onProgress()
    yield chunk
  }
}

async function* receive(incoming: IncomingMessage, target: Target, maxBytes: number): AsyncGenerator<Buffer> {
  let receivedBytes = 0
  try {
    for await (const chunk of incoming) {
      receivedBytes += chunk.length
      if (receivedBytes > maxBytes) {
        throw new OutboundError('too_large', `The response of ${target.hostname} is larger than ${maxBytes} bytes.`)
      }
      yield chunk
    }
  } catch (error) {
    throw error instanceof OutboundError ? error : connectionError(target, 'broke off its response', error)
  }
}

function ownFailure(error: unknown): Error {
  return error instanceof OutboundError ? error : new StreamFailure('', { cause: error })
}

/** Returns the checked addresses, so that the name is never resolved a second time. */
function pinnedLookup(addresses: ResolvedAddress[]): LookupFunction {
  return (_hostname, { all }, callback) => {
    const [first] = addresses
    if (all === true) callback(null, addresses)
    else callback(null, first?.address ?? '', first?.family)
  }
}

/** Keeps the error's code and drops its message, which is another library's text. */
function connectionError(target: Target, what: string, error?: unknown): OutboundError {
  const code = codeOf(error)
  const suffix = /^[A-Z][A-Z0-9_]{2,50}$/.test(code) ? ` (${code})` : ''
  const isUntrusted = untrustedCodes.has(code)
  const said = isUntrusted ? 'shows a certificate that cannot be verified' : what
  return new OutboundError('connection', `${target.hostname} ${said}${suffix}.`, {
    isUnreached: !target.isReached,
    isUntrusted,
    isCertificateRefused: refusedCodes.has(code),
  })
}
