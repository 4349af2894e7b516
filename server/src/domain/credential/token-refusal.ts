/** Why a token is refused, whatever it is used for. */
import type { AddressRange } from '../../address-range.ts'
import type { TokenRecord } from '../../store/token.ts'
import { isInRanges, toRanges } from '../allowed-address.ts'

/** `ip` undefined leaves the allowed addresses unchecked. */
export function findRefusal(
  token: TokenRecord,
  nowMs: number,
  ip: string | undefined,
): 'revoked' | 'expired' | 'address' | undefined {
  if (token.revokedAt !== null) return 'revoked'
  if (token.expiresAt !== null && token.expiresAt <= nowMs) return 'expired'
  return ip === undefined || isAddressAllowed(token, ip) ? undefined : 'address'
}

const allowedRanges = new WeakMap<TokenRecord, readonly AddressRange[]>()

function isAddressAllowed(token: TokenRecord, ip: string): boolean {
  if (token.allowedIps.length === 0) return true
  let ranges = allowedRanges.get(token)
  if (!ranges) {
    ranges = toRanges(token.allowedIps)
    allowedRanges.set(token, ranges)
  }
  return isInRanges(ip, ranges)
}
