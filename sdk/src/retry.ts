/** When a request is sent again, and after how long. */
import { ApiError, ConnectionError } from './error.ts'
import type { Request } from './request.ts'

/** A longer Retry-After is left to the caller. */
const maxWaitMs = 60_000
const firstBackoffMs = 250
const maxBackoffMs = 10_000

/** The connection was never made, so the service has seen nothing of the request. */
const unsentCodes = ['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH', 'UND_ERR_CONNECT_TIMEOUT']
/** A wrong certificate, or no TLS at all: it would fail again. */
const tlsCode = /CERT|SIGNATURE|^ERR_(SSL|TLS)_/
/** The service or a proxy in front of it cannot answer now; a write may have happened anyway. */
const outageStatuses = [502, 503, 504]

/** Milliseconds to wait before the next attempt; undefined if the request must not be sent again. */
export function delayBefore(attempt: number, request: Request, error: unknown, random: number): number | undefined {
  if (error instanceof ApiError) {
    const isRefused = error.status === 429 || (error.status === 503 && error.isUnprocessed)
    if (!isRefused && !(outageStatuses.includes(error.status) && canRepeat(request))) return undefined
    if (error.retryAfterMs === undefined) return backoff(attempt, random)
    if (error.retryAfterMs > maxWaitMs) return undefined
    // Clients that were refused together must not come back together, nor at once because of a date in the past.
    return Math.max(error.retryAfterMs + random * firstBackoffMs, backoff(attempt, random))
  }
  if (!(error instanceof ConnectionError) || tlsCode.test(error.code)) return undefined
  // A service that hangs would otherwise take many times the time limit.
  if (error.code === 'TIMEOUT' && attempt > 0) return undefined
  return unsentCodes.includes(error.code) || canRepeat(request) ? backoff(attempt, random) : undefined
}

/** Full jitter: anywhere between nothing and the limit, which doubles with every attempt. */
const backoff = (attempt: number, random: number) => random * Math.min(maxBackoffMs, firstBackoffMs * 2 ** attempt)

/** A write that names the version it replaces cannot happen twice. */
function canRepeat({ method, body, options, isRepeatable = method === 'GET' }: Request): boolean {
  if (isRepeatable) return true
  if (options?.ifMatch !== undefined && options.ifMatch !== '*') return true
  const { ifVersion, operations } = Object(body)
  if (Array.isArray(operations)) return operations.every((operation) => isVersion(Object(operation).ifVersion))
  return isVersion(ifVersion)
}

const isVersion = (value: unknown) => typeof value === 'number'

/** Retry-After as milliseconds: seconds, or a date. */
export function parseRetryAfter(text: string | undefined, now: number): number | undefined {
  if (text === undefined) return undefined
  if (/^\d+$/.test(text)) return Number(text) * 1000
  // Date.parse takes -5 for a month.
  const waitMs = text.endsWith('GMT') ? Date.parse(text) - now : Number.NaN
  return Number.isNaN(waitMs) ? undefined : Math.max(0, waitMs)
}
