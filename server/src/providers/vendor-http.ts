/**
 * HTTP as providers see it: JSON in and out, paced, and every refusal sorted into a fault. Only reading is tried again
 * here, a few times; what writes is tried again by whoever knows what it wrote. Beneath it is the one door to the outside.
 */
import type { IncomingHttpHeaders } from 'node:http'
import { OutboundError, type OutboundRequest, type WorkspaceOutbound } from '../outbound.ts'
import { type FaultKind, VendorFault, VendorRefusal } from './fault.ts'
import { patiently, rest, type Sleep } from './patience.ts'
import { at, maybeTextAt } from './vendor-json.ts'

export type VendorRequest = {
  readonly method: NonNullable<OutboundRequest['method']>
  readonly url: string
  readonly headers?: Readonly<Record<string, string>>
  /** Sent as JSON; its content type is application/json unless `headers` name another. */
  readonly json?: unknown
  readonly body?: string | Uint8Array
  /** Changes nothing, or nothing that matters, though it is no GET: it may be repeated like one. */
  readonly isRead?: boolean
  /** Statuses, or answers, beside 2xx that the caller sorts out itself. */
  readonly accept?: readonly number[] | ((response: VendorResponse) => boolean)
  /** Where this vendor means something else by a refusal than others do. */
  readonly sort?: (response: VendorResponse) => FaultKind | undefined
  /** Of the wizard's form, the answer that a refusal is about, where the response tells. */
  readonly blame?: (response: VendorResponse) => string | undefined
  /** Certificates of the target's own authority, in PEM. */
  readonly ca?: string
  /** The name of whom is asked, where that is another service than the one that is pushed to: a login, say. */
  readonly service?: string
}

export type VendorResponse = {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
  /** Undefined where the body is no JSON. */
  readonly json: unknown
  /** As the request named it. */
  readonly service?: string
}

export type VendorHttp = { send(request: VendorRequest): Promise<VendorResponse> }

type VendorHttpParts = {
  readonly outbound: WorkspaceOutbound
  readonly now: () => number
  readonly perSecond: number
  readonly sleep: Sleep
  /** Somebody waits for the answer: a list without an end would keep them, and us. */
  readonly maxRequests?: number
  /** Ends the wait for an answer: what became of the request is then not known. */
  readonly signal?: AbortSignal
  /** For the metrics. */
  readonly onAnswer?: (status: number) => void
}

const timeoutMs = 20_000
/** Room for a page of a hundred values, each as large as a secret may be. */
const maxBytes = 8 * 1024 * 1024
const maxBytesOfAll = 64 * 1024 * 1024

export function createVendorHttp(parts: VendorHttpParts): VendorHttp {
  const { outbound, now, perSecond, sleep, signal, maxRequests = Number.POSITIVE_INFINITY, onAnswer } = parts
  const gapMs = 1_000 / perSecond
  let requests = 0
  let received = 0
  let nextAt = 0
  let askedAt = 0

  /** A short burst is fine everywhere; it is the lasting pace that vendors limit. */
  async function pace(): Promise<void> {
    const burstMs = Math.min(1_000, gapMs * 5)
    const at = now()
    // By a clock that was set back the next one would be due when it is again where it was.
    if (at < askedAt) nextAt = at
    askedAt = at
    nextAt = Math.max(nextAt, at - burstMs) + gapMs
    const waitMs = nextAt - at
    if (waitMs > 0) await rest(waitMs, { sleep, signal })
  }

  return {
    send: (request) =>
      request.method === 'GET' || request.isRead
        ? patiently(() => sendOnce(request), { sleep, signal })
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

const endless = 'The service sends more than anybody could want: its lists may have no end.'
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
    // What may not be reached will not be allowed by waiting; everything else is the weather.
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

/** The fault that a refusal stands for; providers use it for refusals that they asked to see first. */
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

/** Whoever says more is asked once a day: it may be a mistake, and no moment that has a date. */
const maxRetryAfterMs = 24 * 60 * 60 * 1_000

/** In how long the vendor wants to be asked again; undefined where it does not say. */
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
  // Seconds from now, or a moment in seconds or milliseconds: their sizes tell them apart.
  if (value < 1e8) return value * 1_000
  return (value < 1e11 ? value * 1_000 : value) - nowMs
}

/** Where vendors put their words. */
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
  for (const path of messagePaths) {
    const value = at(json, ...path)
    // Cut only after it was scrubbed: half of a value would not be recognised.
    if (typeof value === 'string' && value !== '') return value
  }
  // Some say which field is wrong, and how.
  const byField = at(json, 'message')
  return typeof byField === 'object' && byField !== null ? writtenOut(byField) : undefined
}

/** Undefined for what nests so deeply that it can be read, but not written again: nobody says anything with that. */
function writtenOut(value: object): string | undefined {
  try {
    return JSON.stringify(value)
  } catch {
    return undefined
  }
}

/** The next page, which a vendor may only send us to on its own ground. */
export function sameOrigin(from: string, link: string): string {
  const next = URL.parse(link, from)
  if (next === null || next.origin !== new URL(from).origin) {
    throw new VendorFault('protocol', 'The next page of a list lies on another host; it was not followed.')
  }
  return next.href
}

/** `Link: <…>; rel="next"`, checked. */
export function nextLink(from: string, { headers }: VendorResponse): string | undefined {
  const link = headers.link
  // An address may hold commas, so each link begins where the next one's does; no text is looked at twice.
  for (const [, url, parameters] of [link ?? []]
    .flat()
    .join(', ')
    .matchAll(/<([^<>]*)>([^<]*)/g)) {
    if (url !== undefined && /^\s*;[^,]*\brel="?next"?/i.test(parameters ?? '')) return sameOrigin(from, url)
  }
  return undefined
}
