/**
 * A fake vendor on loopback: one HTTPS server with the vendor's host names around a state machine from fake/. It
 * records every request and can inject failures.
 */
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { createOutbound, type Outbound, OutboundError } from '../../server/src/outbound.ts'
import { parseAllowList } from '../../server/src/outbound-allow.ts'
import type { Values } from '../../server/src/providers/provider.ts'
import { vendorCertificate, vendorKey } from './certificate.ts'

export type FakeRequest = {
  readonly method: string
  readonly host: string
  readonly path: string
  readonly query: URLSearchParams
  /** The target of the request line. */
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly text: string
  /** Undefined if the body is not JSON. */
  readonly json: unknown
}
export type FakeAnswer = {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  /** Sent as JSON unless it is a string. */
  readonly body?: unknown
}

/**
 * The vendor's state and behaviour. `answer` also checks each request against the vendor's API description and collects
 * violations.
 */
export type Fake = {
  readonly hosts: readonly string[]
  /** Wizard input that leads to this fake's target. */
  readonly credential: Values
  readonly target: Values
  readonly options: Values
  /** A credential that the vendor rejects. */
  readonly wrongCredential: Values
  answer(request: FakeRequest): FakeAnswer | Promise<FakeAnswer>
  /** Requests that the vendor's description does not allow; a test with a violation fails. */
  readonly violations: string[]
  /** All values at the target by name, in plaintext. */
  state(): Map<string, string>
  /** A change by someone else: sets or removes a value. */
  tamper(name: string, value: string | undefined): void
  /** Deletes or restores the target itself. */
  setTarget(exists: boolean): void
  /** Items per page of a list; undefined if the vendor's list has no pages. */
  pageSize: number | undefined
  /** Names that the vendor rejects individually; other names of the same bulk call are stored. */
  readonly refusedNames: Set<string>
  /**
   * Expected number of calls, login included: to list `count` items, and to update one of many. `look`: extra calls to
   * check the entry before that update.
   */
  readonly calls: { readonly list: (count: number) => number; readonly update: number; readonly look: 0 | 1 }
}

/** `drop`: closes the connection without a response, before or after the request took effect. */
export type InjectedFailure =
  | { readonly kind: 'answer'; readonly answer: FakeAnswer }
  | { readonly kind: 'drop'; readonly after: boolean }
  | { readonly kind: 'stall' }

export type RunningFake = {
  readonly fake: Fake
  readonly port: number
  /** IP-based URL for official clients, which cannot override name resolution. */
  readonly url: string
  readonly outbound: Outbound
  /** Requests since the last `forget`. */
  readonly requests: FakeRequest[]
  /** Called before each request. */
  injectFailure: ((request: FakeRequest) => InjectedFailure | undefined) | undefined
  forget(): void
  close(): Promise<void>
}

/** `plain`: without TLS, for official clients that accept a URL but no certificate. */
export async function startFake(fake: Fake, { plain = false } = {}): Promise<RunningFake> {
  const requests: FakeRequest[] = []
  const listener: RequestListener = async (incoming, response) => {
    const request = await readRequest(incoming, plain ? fake.hosts[0] : undefined)
    requests.push(request)
    const injectFailure = running.injectFailure?.(request)
    if (injectFailure?.kind === 'stall') return
    if (injectFailure?.kind === 'answer') return send(response, injectFailure.answer)
    if (injectFailure?.kind === 'drop' && !injectFailure.after) return void incoming.socket.destroy()
    try {
      const answer = await fake.answer(request)
      if (injectFailure?.kind === 'drop') incoming.socket.destroy()
      else send(response, answer)
    } catch (error) {
      fake.violations.push(`the fake failed: ${String(error)}`)
      send(response, { status: 500 })
    }
  }
  const server = plain
    ? createServer(listener)
    : createSecureServer({ key: vendorKey, cert: vendorCertificate }, listener)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const running: RunningFake = {
    fake,
    port,
    url: `${plain ? 'http' : 'https'}://127.0.0.1:${port}`,
    outbound: outboundTo(fake, port),
    requests,
    injectFailure: undefined,
    forget: () => void requests.splice(0),
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
  return running
}

async function readRequest(incoming: IncomingMessage, playedHost = incoming.headers.host): Promise<FakeRequest> {
  const chunks: Buffer[] = []
  for await (const chunk of incoming) chunks.push(chunk)
  const text = Buffer.concat(chunks).toString('utf8')
  const url = new URL(`https://${playedHost}${incoming.url}`)
  return {
    method: incoming.method ?? '',
    host: url.host,
    path: url.pathname,
    query: url.searchParams,
    url: incoming.url ?? '',
    headers: Object.fromEntries(Object.entries(incoming.headers).map(([name, value]) => [name, String(value)])),
    text,
    json: parse(text),
  }
}

/** The service's outbound client, with the vendor's hosts resolved to this fake. */
function outboundTo(fake: Fake, port: number): Outbound {
  return createOutbound({
    allow: parseAllowList(fake.hosts.join(',')),
    resolve: async (hostname) => {
      if (!fake.hosts.includes(hostname)) throw Object.assign(new Error('no such host'), { code: 'ENOTFOUND' })
      return [{ address: '127.0.0.1', family: 4, port }]
    },
    ca: vendorCertificate,
  })
}

/** Calls the fake without sockets, for tests with very many calls; other tests cover TLS and HTTP. */
export function outboundWithoutSockets(
  fake: Fake,
  injectFailure: (request: FakeRequest) => InjectedFailure | undefined,
): Outbound & { readonly calls: { count: number } } {
  const calls = { count: 0 }
  const lost = () => new OutboundError('connection', 'The connection was lost.')
  return {
    calls,
    async request({ method = 'GET', url, headers = {}, body = '' }) {
      calls.count++
      const { host, pathname, searchParams, search, hostname } = new URL(url)
      if (!fake.hosts.includes(hostname)) {
        throw new OutboundError('connection', `${hostname} could not be resolved (ENOTFOUND).`, { isUnreached: true })
      }
      if (typeof body === 'object' && 'open' in body) throw new Error('no provider streams')
      const text = Buffer.from(body).toString('utf8')
      const asked = {
        method,
        host,
        path: pathname,
        query: searchParams,
        url: pathname + search,
        headers: { ...headers, host },
      }
      const request: FakeRequest = { ...asked, text, json: parse(text) }
      const failure = injectFailure(request)
      if (failure?.kind === 'stall') throw new OutboundError('timeout', 'No response in time.')
      if (failure?.kind === 'drop' && !failure.after) throw lost()
      const answer = failure?.kind === 'answer' ? failure.answer : await fake.answer(request)
      if (failure?.kind === 'drop') throw lost()
      const lowered = Object.entries(answer.headers ?? {}).map(([name, value]) => [name.toLowerCase(), value])
      const { body: content } = answer
      const sent = content === undefined ? '' : typeof content === 'string' ? content : JSON.stringify(content)
      return { status: answer.status, headers: Object.fromEntries(lowered), body: Buffer.from(sent) }
    },
  }
}

function send(response: ServerResponse, { status, headers = {}, body }: FakeAnswer): void {
  const isText = typeof body === 'string'
  const text = body === undefined ? '' : isText ? body : JSON.stringify(body)
  const type = body === undefined ? {} : { 'content-type': isText ? 'text/plain' : 'application/json' }
  response.writeHead(status, { ...type, ...headers })
  response.end(text)
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
