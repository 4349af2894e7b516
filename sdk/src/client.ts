/** Sends requests to one service: credential, time limit, retries, and errors that hold no secrets. */
import type { CredentialSource } from './credential.ts'
import { ApiError, CofferError, ConnectionError, ResponseError, SettingError } from './error.ts'
import { codeOf, type Platform } from './platform.ts'
import type { Answer, Request } from './request.ts'
import { delayBefore, parseRetryAfter } from './retry.ts'
import { orAborted, timeLimit } from './shared-call.ts'
import type { TransportResponse } from './transport.ts'

const defaultTimeoutMs = 10_000
const defaultRetries = 5
const defaultMaxResponseBytes = 64 * 1024 * 1024
const maxMessageLength = 1_000

export type ClientOptions = {
  readonly url: string
  /** For one attempt; 10 seconds by default. */
  readonly timeoutMs?: number | undefined
  /** Attempts after the first; 5 by default, which is about 4 seconds. A time-out is repeated only once. */
  readonly retries?: number | undefined
  /** Larger responses are an error; 64 MB by default. */
  readonly maxResponseBytes?: number | undefined
}

export type Client = {
  /** The address without a slash at its end. */
  readonly url: string
  send(request: Request): Promise<Answer>
}

export function createClient(options: ClientOptions, platform: Platform, credential?: CredentialSource): Client {
  const url = serviceUrl(options.url)
  const { timeoutMs = defaultTimeoutMs, retries = defaultRetries, maxResponseBytes = defaultMaxResponseBytes } = options

  async function attempt(request: Request, bearer: string | undefined): Promise<Answer> {
    const { signal, ...own } = request.options ?? {}
    const limitMs = own.timeoutMs ?? timeoutMs
    const timeout = timeLimit(limitMs)
    const body = request.body === undefined ? undefined : JSON.stringify(request.body)
    const headers = {
      accept: 'application/json',
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...(bearer !== undefined && { authorization: `Bearer ${bearer}` }),
      ...(own.ifMatch !== undefined && { 'if-match': own.ifMatch }),
      ...(request.ifNoneMatch !== undefined && { 'if-none-match': request.ifNoneMatch }),
    }
    const response = await platform
      .transport({
        method: request.method,
        url: url + request.path,
        headers,
        body,
        signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
        maxBytes: maxResponseBytes,
      })
      .catch((error: unknown) => {
        signal?.throwIfAborted()
        if (error instanceof CofferError) throw error
        if (timeout.aborted) {
          throw new ConnectionError(`${url} has not answered within ${limitMs / 1000} seconds.`, 'TIMEOUT')
        }
        const code = codeOf(error)
        throw new ConnectionError(`${url} cannot be reached (${code}).`, code)
      })
    return readAnswer(request, response, bearer, platform.now())
  }

  async function send(request: Request): Promise<Answer> {
    const signal = request.options?.signal
    let isRenewed = false
    for (let tries = 0; ; ) {
      signal?.throwIfAborted()
      // A credential may come from a function or a file that hangs.
      const source = request.isPublic ? undefined : credential
      const bearer = source && (await orAborted(source.bearer(signal), signal))
      try {
        const answer = await attempt(request, bearer)
        const { body: _, ...details } = answer
        request.options?.onResponse?.(details)
        return answer
      } catch (error) {
        // A JWT ends early if its token is rotated or its identity changes; a new one may be accepted.
        const isRefused = error instanceof ApiError && error.status === 401 && bearer !== undefined
        if (isRefused && !isRenewed && credential?.drop(bearer)) {
          isRenewed = true
          continue
        }
        const delayMs = tries < retries ? delayBefore(tries, request, error, platform.random()) : undefined
        if (delayMs === undefined) throw error
        tries++
        await platform.sleep(delayMs, signal)
      }
    }
  }

  return { url, send }
}

function serviceUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (!url || !/^https?:$/.test(url.protocol)) {
    throw new SettingError('The address of the service is not an http(s) URL.')
  }
  // Anything but a path would end up in error messages, or be lost.
  if (url.username || url.password || url.search || url.hash) {
    throw new SettingError('The address of the service must have no user, password, query or fragment.')
  }
  return url.href.replace(/\/+$/, '')
}

function readAnswer(request: Request, response: TransportResponse, bearer: string | undefined, now: number): Answer {
  const { status } = response
  const requestId = response.header('x-request-id')?.match(/^[\w.:-]{1,128}$/)?.[0]
  const details = {
    status,
    requestId,
    etag: response.header('etag'),
    nextCursor: response.header('x-next-cursor'),
    leftOut: response.header('x-coffer-left-out')?.match(/[\w-]+/g) ?? [],
    searchedTo: response.header('x-searched-to'),
  }
  if (status === 304 && request.ifNoneMatch !== undefined) return { ...details, body: undefined }
  if (status >= 200 && status < 300) return { ...details, body: parseBody(request, response, requestId) }
  if (status < 400)
    throw new ResponseError('The service answered with a redirect: check its address.', status, requestId)
  // Polling for a device login is refused with a word in `error` instead of a message.
  const { error, message = error } = Object(parseJson(response.body))
  const text = typeof message === 'string' && message !== '' ? message : `The service answered with status ${status}.`
  const retryAfterMs = parseRetryAfter(response.header('retry-after'), now)
  const isUnprocessed = response.header('x-coffer-unprocessed') === 'true'
  const reason = redacted(text, [bearer, ...confidential(request.body)])
  throw new ApiError(reason, status, requestId, retryAfterMs, isUnprocessed)
}

/** A proxy may echo the request in its error message. Control characters would reach the terminal of whoever prints it. */
function redacted(message: string, texts: readonly unknown[]): string {
  const hidden = texts.filter((text) => typeof text === 'string' && text !== '').map(String)
  const spelled = hidden.flatMap((text) => [text, JSON.stringify(text).slice(1, -1)])
  // Longest first: a shorter one may be a part of it.
  return spelled
    .sort((one, other) => other.length - one.length)
    .reduce((left, text) => left.replaceAll(text, '***'), message)
    .replace(/\p{Cc}+/gu, ' ')
    .slice(0, maxMessageLength)
}

/** The values and credentials in a body: fields of these names, and everything inside of them. */
function confidential(field: unknown, isInside = false): unknown[] {
  if (typeof field !== 'object' || field === null) return isInside ? [field] : []
  return Object.entries(field).flatMap(([name, inner]) =>
    confidential(inner, isInside || /value|token|password|content|code|proof|claim/i.test(name)),
  )
}

/** Other text is no export: it is the page of a proxy or of a network that asks for a login. */
const textTypes: readonly (string | undefined)[] = ['text/plain', 'text/csv', 'application/yaml']

function parseBody(request: Request, response: TransportResponse, requestId: string | undefined): unknown {
  const type = response.header('content-type')?.split(';')[0]?.trim()
  if (request.allowsText && type === 'application/x-ndjson') return parseLines(response, requestId)
  if (request.allowsText && textTypes.includes(type)) return response.body
  const body = type === 'application/json' ? parseJson(response.body) : undefined
  if (body === undefined) throw new ResponseError('The answer is not JSON.', response.status, requestId)
  return body
}

function parseLines({ body, status }: TransportResponse, requestId: string | undefined): unknown[] {
  const lines = body.split('\n').flatMap((line) => (line === '' ? [] : [parseJson(line)]))
  if (lines.includes(undefined)) throw new ResponseError('The answer has a line that is not JSON.', status, requestId)
  return lines
}

/** Undefined for text that is not JSON: the error of JSON.parse would quote the text. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
