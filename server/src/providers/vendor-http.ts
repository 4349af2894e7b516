/**
 * HTTP for providers: JSON in and out, rate-limited, with every refusal classified as a fault. Only reads are retried
 * here, a few times; writes are retried by the code that knows what it wrote. All requests go through outbound.ts.
 */
import type { IncomingHttpHeaders } from 'node:http'
import { OutboundError, type OutboundRequest, type WorkspaceOutbound } from '../outbound.ts'
import { type FaultKind, VendorFault, VendorRefusal } from './fault.ts'
import { rest, type Sleep, withRetries } from './retry.ts'
import { at, maybeTextAt } from './vendor-json.ts'

export type VendorRequest = {
  readonly method: NonNullable<OutboundRequest['method']>
  readonly url: string
  readonly headers?: Readonly<Record<string, string>>
  /** Sent as JSON, with content type application/json unless `headers` name another. */
  readonly json?: unknown
  readonly body?: string | Uint8Array
  /** Changes nothing that matters, although it is no GET, so it may be retried like one. */
  readonly isRead?: boolean
  /** Statuses or responses besides 2xx that the caller handles itself. */
  readonly accept?: readonly number[] | ((response: VendorResponse) => boolean)
  /** Overrides the classification if this vendor uses a refusal differently. */
  readonly sort?: (response: VendorResponse) => FaultKind | undefined
  /** Returns the field of the wizard's form that the refusal is about, if the response tells. */
  readonly blame?: (response: VendorResponse) => string | undefined
  /** PEM certificates of the target's own CA. */
  readonly ca?: string
  /** Name of the service that is called, if it is not the push target itself, for example a login. */
  readonly service?: string
}

export type VendorResponse = {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
  /** Undefined if the body is not JSON. */
  readonly json: unknown
  /** Copied from the request. */
  readonly service?: string
}

export type VendorHttp = { send(request: VendorRequest): Promise<VendorResponse> }

type VendorHttpParts = {
  readonly outbound: WorkspaceOutbound
  readonly now: () => number
  readonly perSecond: number
  readonly sleep: Sleep
  /** Set if a person waits for the result: an endless list must not block them. */
  readonly maxRequests?: number
  /** Stops waiting for a response; the outcome of the request is then unknown. */
  readonly signal?: AbortSignal
  /** For metrics. */
  readonly onAnswer?: (status: number) => void
}

const timeoutMs = 20_000
/** Room for a page of a hundred values of the maximum size. */
const maxBytes = 8 * 1024 * 1024
const maxBytesOfAll = 64 * 1024 * 1024

export function createVendorHttp(parts: VendorHttpParts): VendorHttp {
  const { outbound, now, perSecond, sleep, signal, maxRequests = Number.POSITIVE_INFINITY, onAnswer } = parts
  const gapMs = 1_000 / perSecond
  let requests = 0
  let received = 0
  let nextAt = 0
  let askedAt = 0

  /** Short bursts are allowed: vendors limit the sustained rate. */
  async function pace(): Promise<void> {
    const burstMs = Math.min(1_000, gapMs * 5)
    const at = now()
    // If the clock was set back, `nextAt` would lie far in the future.
    if (at < askedAt) nextAt = at
    askedAt = at
    nextAt = Math.max(nextAt, at - burstMs) + gapMs
    const waitMs = nextAt - at
    if (waitMs > 0) await rest(waitMs, { sleep, signal })
  }

  return {
    send: (request) =>
      request.method === 'GET' || request.isRead
        ? withRetries(() => sendOnce(request), { sleep, signal })
        : sendOnce(request),
  }

  async function sendOnce(request: VendorRequest): Promise<VendorResponse> {
    await pace()
    if (signal?.aborted) throw stopping()
    if (++requests > maxRequests || received > maxBytesOfAll) throw new VendorFault('protocol', endless)
    const response = await unlessAborted(exchange(outbound, request), signal)
    received += response.text.length
    onAnswer?.(response.status)
    const isFine = response.status >= 200 && response.status < 300
    if (isFine || isAccepted(request, response)) return response
    throw faultOf(response, now(), request.sort?.(response), request.blame?.(response))
  }
}

function isAccepted({ accept = [] }: VendorRequest, response: VendorResponse): boolean {
  return typeof accept === 'function' ? accept(response) : accept.includes(response.status)
}

const endless = 'The service sends too much data: its lists may be endless.'
const stopping = () => new VendorFault('transient', 'The run was ended early.')

async function unlessAborted<Result>(work: Promise<Result>, signal: AbortSignal | undefined): Promise<Result> {
  if (!signal) return work
  const { promise, reject } = Promise.withResolvers<never>()
  const stop = () => reject(stopping())
  signal.addEventListener('abort', stop, { once: true })
  try {
    return await Promise.race([work, promise])
  } finally {
    signal.removeEventListener('abort', stop)
    work.catch(() => undefined)
  }
}

async function exchange(outbound: WorkspaceOutbound, request: VendorRequest): Promise<VendorResponse> {
  const { method, url, json, ca } = request
  const service = request.service === undefined ? {} : { service: request.service }
  const body = json === undefined ? request.body : JSON.stringify(json)
  const type = json === undefined ? {} : { 'content-type': 'application/json' }
  const headers = { accept: 'application/json', 'user-agent': 'coffer', ...type, ...lowerCased(request.headers) }
  try {
    const answer = await outbound.request({
      method,
      url,
      headers,
      timeoutMs,
      maxBytes,
      ...(body !== undefined && { body }),
      ...(ca !== undefined && { ca }),
    })
    const text = answer.body.toString('utf8')
    return { status: answer.status, headers: answer.headers, text, json: parse(text), ...service }
  } catch (error) {
    if (!(error instanceof OutboundError)) throw error
    // Waiting does not help if the address is not allowed; all other errors may pass.
    const isForGood = error.kind === 'refused' || error.kind === 'bad_url'
    throw new VendorFault(isForGood ? 'gone' : 'transient', error.message, {
      ...(error.isUnreached && { isUnreached: true }),
      ...(error.isUntrusted && { isUntrusted: true }),
      ...service,
    })
  }
}

function lowerCased(headers: Readonly<Record<string, string>> = {}): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Converts a refusal into a fault; providers use it for refusals that they inspect first. */
export function faultOf(
  response: VendorResponse,
  nowMs: number,
  kind = kindOf(response),
  field?: string,
): VendorRefusal {
  const { status, service } = response
  const retryAfterMs = kind === 'rate' || kind === 'transient' ? retryAfterOf(response, nowMs) : undefined
  const vendorMessage = messageOf(response)
  return new VendorRefusal(kind, `The service answered ${status}.`, {
    status,
    ...(vendorMessage !== undefined && { vendorMessage }),
    ...(retryAfterMs !== undefined && { retryAfterMs }),
    ...(service !== undefined && { service }),
    ...(field !== undefined && { field }),
  })
}

function kindOf({ status, headers }: VendorResponse): FaultKind {
  const isSpent = headers['retry-after'] !== undefined || headers['x-ratelimit-remaining'] === '0'
  if (status === 429 || (status === 403 && isSpent)) return 'rate'
  if (status === 401) return 'auth'
  if (status === 403) return 'scope'
  if (status === 404 || status === 410) return 'gone'
  if (status === 409 || status === 412) return 'conflict'
  if (status === 402) return 'quota'
  if (status === 408 || status === 425 || status >= 500) return 'transient'
  if (status >= 400) return 'invalid'
  return 'protocol'
}

/** Upper limit for the vendor's retry time: a larger value may be a mistake or exceed the range of dates. */
const maxRetryAfterMs = 24 * 60 * 60 * 1_000

/** The wait that the vendor asks for; undefined if it does not say. */
function retryAfterOf(response: VendorResponse, nowMs: number): number | undefined {
  const ms = askedWaitOf(response, nowMs)
  return ms === undefined ? undefined : Math.min(Math.max(0, ms), maxRetryAfterMs)
}

function askedWaitOf({ headers, json }: VendorResponse, nowMs: number): number | undefined {
  const after = headers['retry-after']
  if (after !== undefined) {
    const ms = /^\d+(\.\d+)?$/.test(after) ? Number(after) * 1_000 : Date.parse(after) - nowMs
    if (!Number.isNaN(ms)) return ms
  }
  const reset =
    headers['x-ratelimit-reset'] ?? headers['ratelimit-reset'] ?? maybeTextAt(json, 'error', 'limit', 'reset')
  const value = Number(Array.isArray(reset) ? reset[0] : reset)
  if (reset === undefined || !Number.isFinite(value)) return undefined
  // Seconds from now, or a timestamp in seconds or milliseconds, distinguished by size.
  if (value < 1e8) return value * 1_000
  return (value < 1e11 ? value * 1_000 : value) - nowMs
}

/** Paths of the error message in the responses of different vendors. */
const messagePaths: readonly (string | number)[][] = [
  ['message'],
  ['error', 'message'],
  ['error_description'],
  ['Message'],
  ['errors', 0, 'message'],
  ['errors', 0, 'detail'],
  ['errors', 0],
  ['error', 'error_msg'],
  ['msg'],
  ['error'],
]

function messageOf({ json }: VendorResponse): string | undefined {
  const errors = at(json, 'errors')
  const texts = Array.isArray(errors) ? errors.filter((error) => typeof error === 'string' && error !== '') : []
  if (texts.length > 1) return texts.join('\n* ')
  for (const path of messagePaths) {
    const value = at(json, ...path)
    // Not truncated here: scrubbing would not recognise half of a value.
    if (typeof value === 'string' && value !== '') return value
  }
  // Some vendors send an object with one message per field.
  const byField = at(json, 'message')
  return typeof byField === 'object' && byField !== null ? writtenOut(byField) : undefined
}

/** Undefined if the value is nested too deeply to serialise, which no real message is. */
function writtenOut(value: object): string | undefined {
  try {
    return JSON.stringify(value)
  } catch {
    return undefined
  }
}

/** Resolves a link to the next page and refuses one to another origin. */
export function sameOrigin(from: string, link: string): string {
  const next = URL.parse(link, from)
  if (next === null || next.origin !== new URL(from).origin) {
    throw new VendorFault('protocol', 'The next page of a list is on another host and was not requested.')
  }
  return next.href
}

/** Returns the checked `Link: <…>; rel="next"`. */
export function nextLink(from: string, { headers }: VendorResponse): string | undefined {
  const link = headers.link
  // A URL may contain commas, so links are split at angle brackets. The pattern runs in linear time.
  for (const [, url, parameters] of [link ?? []]
    .flat()
    .join(', ')
    .matchAll(/<([^<>]*)>([^<]*)/g)) {
    if (url !== undefined && /^\s*;[^,]*\brel="?next"?/i.test(parameters ?? '')) return sameOrigin(from, url)
  }
  return undefined
}
