/**
 * The HTTP client of the tests. It checks the status, body and common headers of every response against the contract,
 * and is lean: a run sends about a million requests.
 */
import { Agent, type IncomingHttpHeaders, type IncomingMessage, type RequestOptions, request } from 'node:http'
import { endpoints } from '@coffer/contract/api'
import { type Endpoint, errorStatuses } from '@coffer/contract/endpoint'
import { Ajv } from 'ajv'
import addFormatsModule from 'ajv-formats'
import { expect } from 'vitest'

export type Answer<Body = unknown> = {
  readonly status: number
  readonly headers: Headers
  readonly body: Body
  readonly text: string
}
export type CallOptions = {
  readonly token?: string | undefined
  readonly body?: unknown
  readonly headers?: Record<string, string>
}

export type Call = <Body = unknown>(method: string, path: string, options?: CallOptions) => Promise<Answer<Body>>

export function caller(url: string, agent = new Agent({ keepAlive: true })): Call {
  return async <Body>(method: string, path: string, { token, body, headers }: CallOptions = {}) => {
    const sent = body === undefined ? undefined : typeof body === 'string' ? body : JSON.stringify(body)
    const { response, text } = await send(new URL(url + path), sent, {
      method,
      agent,
      headers: {
        'user-agent': 'node',
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...(sent === undefined
          ? {}
          : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(sent) }),
        ...headers,
      },
    })
    const { statusCode: status = 0, headers: received, rawHeaders } = response
    const isJson = received['content-type']?.startsWith('application/json') ?? false
    const parsed: unknown = isJson && text !== '' ? JSON.parse(text) : text
    checkAnswer(method, path, status, received, parsed)
    return {
      status,
      get headers() {
        return new Headers(pairsOf(rawHeaders))
      },
      // The contract was just checked; the caller names the type it expects.
      body: parsed as Body,
      text,
    }
  }
}

function send(
  url: URL,
  body: string | undefined,
  options: RequestOptions,
): Promise<{ response: IncomingMessage; text: string }> {
  return new Promise((resolve, reject) => {
    const sent = request(url, options, (response) => {
      let text = ''
      response.setEncoding('utf8')
      response.on('data', (part: string) => {
        text += part
      })
      response.on('end', () => resolve({ response, text }))
      response.on('error', reject)
    })
    sent.on('error', reject)
    sent.end(body)
  })
}

function pairsOf(list: readonly string[]): [name: string, value: string][] {
  return list.flatMap((name, index): [string, string][] => (index % 2 === 0 ? [[name, list[index + 1] ?? '']] : []))
}

const addFormats = addFormatsModule as unknown as (ajv: Ajv, formats: string[]) => Ajv
const ajv = addFormats(new Ajv({ strict: false, allErrors: true }), ['date-time'])

function checkAnswer(method: string, path: string, status: number, headers: IncomingHttpHeaders, body: unknown): void {
  const problem = findProblem(method, path, status, headers, body)
  if (problem !== undefined) expect.fail(`${method} ${path.split('?')[0]} → ${status}: ${problem}`)
}

/** The first violation of the contract. Plain comparisons, because this runs a million times per test run. */
function findProblem(
  method: string,
  path: string,
  status: number,
  headers: IncomingHttpHeaders,
  body: unknown,
): string | undefined {
  const fits = (name: string, form: RegExp) => form.test(String(headers[name] ?? ''))
  if (!fits('x-request-id', /^[\w-]{8,}$/)) return 'no X-Request-Id'
  const endpoint = findEndpoint(method, path)
  if (status >= 400 && method !== 'HEAD' && !isRefusal(endpoint, status, body) && !isMessage(body)) {
    return 'an error body with fields other than message'
  }
  if (status === 401 && headers['www-authenticate'] !== 'Bearer') return 'no WWW-Authenticate'
  if ((status === 429 || status === 503) && !fits('retry-after', /^[1-9]\d*$/)) return 'no Retry-After'
  if (!path.startsWith('/v1')) return undefined
  if (headers['cache-control'] !== 'no-store') return 'no Cache-Control: no-store'
  for (const name of ['ratelimit-limit', 'ratelimit-remaining', 'ratelimit-reset']) {
    if (!fits(name, /^\d+$/)) return `no ${name}`
  }
  if (!endpoint) return [400, 404, 429, 503].includes(status) ? undefined : 'an unexpected status without an endpoint'
  if (status !== endpoint.status) return mayAnswer(endpoint, status) ? undefined : 'an undeclared status'
  if (!headers['content-type']?.startsWith('application/json')) return undefined
  const validate = ajv.compile(endpoint.response)
  return validate(body) ? undefined : ajv.errorsText(validate.errors)
}

const isMessage = (body: unknown): boolean =>
  Object.keys(Object(body)).join() === 'message' && typeof Object(body).message === 'string'

const mayAnswer = (endpoint: Endpoint, status: number): boolean =>
  (status === 304 && endpoint.isCached === true) ||
  (status === 200 && endpoint.dryRuns === true) ||
  errorStatuses(endpoint).includes(status)

/** The one error whose body is not a message. */
const isRefusal = (endpoint: Endpoint | undefined, status: number, body: unknown): boolean =>
  status === 400 && endpoint?.refusal !== undefined && ajv.validate(endpoint.refusal, body)

/** Fixed segments win over parameters, as in the router. */
const patterns = Object.values(endpoints)
  .map((endpoint: Endpoint) => ({
    endpoint,
    pattern: new RegExp(`^${endpoint.path.replace(/:\w+/g, '[^/]+')}/?$`),
  }))
  .sort((a, b) => a.endpoint.path.split(':').length - b.endpoint.path.split(':').length)

function findEndpoint(method: string, path: string): Endpoint | undefined {
  const plain = path.split('?')[0] ?? ''
  return patterns.find(({ endpoint, pattern }) => endpoint.method === method && pattern.test(plain))?.endpoint
}
