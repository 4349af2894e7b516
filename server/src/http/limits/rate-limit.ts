/**
 * Fixed-window rate limits, exact under concurrency. Hand-written because the common path must not allocate or wait:
 * the local count is one map look-up, two limits share one set of headers, and an unreachable Redis falls back to local
 * counts.
 */
import type { Redis } from 'ioredis'
import { setBounded } from '../../bounded-map.ts'
import { codeOf } from '../../error-code.ts'
import { Failure } from '../../failure.ts'
import type { Log } from '../../log.ts'

export type Hit = {
  readonly limit: number
  readonly remaining: number
  readonly resetSeconds: number
  readonly exceeded: boolean
}
export type Limiter = { hit(key: string): Hit | Promise<Hit> }
type LocalLimiter = {
  hit(key: string): Hit
  /** Returns the result that a hit would have now, without counting one. */
  peek(key: string): Hit
}

const windowMs = 60_000
/** With more clients than this in one window, the oldest windows are evicted. */
const maxWindows = 200_000
/**
 * Stands in for a limit that is switched off. Requests are still counted, because every API response carries the
 * rate-limit headers.
 */
const noLimit = 1_000_000_000

type Window = { startedAt: number; count: number }

export function createLocalLimiter(setting: number, now: () => number = Date.now): LocalLimiter {
  const limit = setting === 0 ? noLimit : setting
  const windows = new Map<string, Window>()
  // A clock that jumps back must not freeze a window.
  const hasEnded = ({ startedAt }: Window, at: number) => at - startedAt >= windowMs || at < startedAt
  return {
    hit(key) {
      const at = now()
      let window = windows.get(key)
      if (!window || hasEnded(window, at)) {
        window = { startedAt: at, count: 0 }
        setBounded(windows, maxWindows, key, window)
      }
      window.count++
      return toHit(limit, window.count, window.startedAt + windowMs - at)
    },
    peek(key) {
      const at = now()
      const window = windows.get(key)
      if (!window || hasEnded(window, at)) return toHit(limit, 1, windowMs)
      return toHit(limit, window.count + 1, window.startedAt + windowMs - at)
    },
  }
}

/**
 * Increments the count and reads the time left in one round trip. Every key gets an expiry, even if an earlier call
 * failed to set one.
 */
const countScript = `
local count = redis.call('INCR', KEYS[1])
if count == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
local left = redis.call('PTTL', KEYS[1])
if left < 0 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) left = tonumber(ARGV[1]) end
return { count, left }`

/** Pause after a failure of Redis, during which requests use local counts instead of waiting for another timeout. */
const restMs = 1_000

export function createSharedLimiter(setting: number, redis: Redis, name: string, log: Log): Limiter {
  const limit = setting === 0 ? noLimit : setting
  const local = createLocalLimiter(setting)
  let isDown = false
  let restsUntil = 0
  // A failed command only says that there is no connection; the reason arrives in a separate `error` event.
  let connectionError: Error | undefined
  redis.on('error', (error: Error) => {
    connectionError = error
  })
  return {
    async hit(key) {
      if (isDown && performance.now() < restsUntil) return local.hit(key)
      try {
        const answer: unknown = await redis.eval(countScript, 1, `coffer:limit:${name}:${key}`, windowMs)
        if (isDown) log.info('rate limits are shared again')
        connectionError = undefined
        isDown = false
        const [count, leftMs] = Array.isArray(answer) ? answer.map(Number) : []
        return toHit(limit, count ?? 1, leftMs ?? windowMs)
      } catch (error) {
        if (!isDown) {
          const code = reasonOf(connectionError ?? error)
          log.warn('Redis does not answer: rate limits are counted on each node alone', { code })
        }
        isDown = true
        restsUntil = performance.now() + restMs
        return local.hit(key)
      }
    },
  }
}

/** The code of the connection error, or the upper-case word that starts every error reply of Redis, such as NOAUTH. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return 'unknown error'
  if ('code' in error) return codeOf(error)
  return /^[A-Z]+(?= )/.exec(error.message)?.[0] ?? (error.message === 'Command timed out' ? 'ETIMEDOUT' : error.name)
}

export function rateLimited({ resetSeconds }: Hit): Failure {
  const message = `Rate limit exceeded, retry in ${resetSeconds} seconds.`
  return new Failure('rateLimited', message, { retryAfterSeconds: resetSeconds })
}

/** Returns the hit that leaves the client fewer requests. */
export function nearerToExhaustion(a: Hit, b: Hit): Hit {
  if (a.exceeded !== b.exceeded) return a.exceeded ? a : b
  return a.remaining <= b.remaining ? a : b
}

function toHit(limit: number, count: number, leftMs: number): Hit {
  return {
    limit,
    remaining: Math.max(0, limit - count),
    resetSeconds: Math.max(1, Math.ceil(leftMs / 1000)),
    exceeded: count > limit,
  }
}
