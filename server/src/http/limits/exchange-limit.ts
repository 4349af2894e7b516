/** The rate limit of the token exchange, beside the one of the client's address, and the headers of both. */
import type { Exchange } from '../exchange.ts'
import { type Hit, type Limiter, nearerToExhaustion, rateLimited } from './rate-limit.ts'

/**
 * Applies the second rate limit of the token exchange, which is per token. The headers describe the limit that is
 * nearer to exhaustion.
 */
export async function limitExchange(exchange: Exchange, limiter: Limiter, globalHit: Hit): Promise<void> {
  const { credential } = exchange.ctx.actor
  // Other credentials are refused later, and use up no exchanges.
  if (credential.type !== 'static' && credential.type !== 'cli-token') return
  const hit = await limiter.hit(credential.token.id)
  showLimit(exchange, nearerToExhaustion(hit, globalHit))
  if (hit.exceeded) throw rateLimited(hit)
}

export function showLimit(exchange: Exchange, hit: Hit): void {
  exchange.header('ratelimit-limit', hit.limit)
  exchange.header('ratelimit-remaining', hit.remaining)
  exchange.header('ratelimit-reset', hit.resetSeconds)
}
