/** How long tokens live, and what is said about their end. */
import type { NewToken, Token } from '@coffer/sdk'

const dayMs = 86_400_000
/** Time enough to replace a token before it ends. */
export const soonDays = 14
const soonMs = soonDays * dayMs

export type Lifetime = NewToken['expiresIn']

export const lifetimes: readonly { readonly value: Lifetime; readonly name: string; readonly days?: number }[] = [
  { value: '24h', name: '1 day', days: 1 },
  { value: '5d', name: '5 days', days: 5 },
  { value: '30d', name: '30 days', days: 30 },
  { value: '60d', name: '60 days', days: 60 },
  { value: '3m', name: '3 months', days: 91 },
  { value: '6m', name: '6 months', days: 182 },
  { value: '1y', name: '1 year', days: 365 },
  { value: 'never', name: 'Never' },
]

/** Undefined for a token that never ends. */
export function endOf(lifetime: Lifetime, nowMs: number): string | undefined {
  const days = lifetimes.find(({ value }) => value === lifetime)?.days
  return days === undefined ? undefined : new Date(nowMs + days * dayMs).toISOString()
}

export type TokenState = 'active' | 'expiring' | 'expired' | 'revoked'

export function stateOf({ revokedAt, expiresAt }: Pick<Token, 'revokedAt' | 'expiresAt'>, nowMs: number): TokenState {
  if (revokedAt !== null) return 'revoked'
  if (expiresAt === null) return 'active'
  const leftMs = Date.parse(expiresAt) - nowMs
  return leftMs <= 0 ? 'expired' : isSoon(expiresAt, nowMs) ? 'expiring' : 'active'
}

/** For a service account: whether the first of its tokens to expire does so soon. */
export const isSoon = (expiresAt: string | null, nowMs: number) =>
  expiresAt !== null && Date.parse(expiresAt) - nowMs < soonMs

export const isEnded = (state: TokenState) => state === 'expired' || state === 'revoked'
