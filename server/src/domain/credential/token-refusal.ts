/** Why a token is refused, whatever it is used for. */
import { isInRanges } from '../allowed-address.ts'
import type { ReadyToken } from '../ready-token.ts'

/** `ip` undefined leaves the allowed addresses unchecked. */
export function findRefusal(
  token: ReadyToken,
  nowMs: number,
  ip: string | undefined,
): 'revoked' | 'expired' | 'address' | undefined {
  if (token.revokedAt !== null) return 'revoked'
  if (token.expiresAt !== null && token.expiresAt <= nowMs) return 'expired'
  const isAllowed = ip === undefined || token.ranges === undefined || isInRanges(ip, token.ranges)
  return isAllowed ? undefined : 'address'
}
