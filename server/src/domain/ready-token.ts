/**
 * Tokens and identities of outside issuers in the form that requests are checked against: made once, when the record is
 * loaded.
 */
import type { AddressRange } from '../address-range.ts'
import type { IdentityRecord } from '../store/oidc.ts'
import type { TokenRecord } from '../store/token.ts'
import { toRanges } from './allowed-address.ts'
import { type ScopeSet, toScopeSet } from './scope.ts'

export type ReadyToken = TokenRecord & {
  readonly scopeSet: ScopeSet
  /** Undefined if every address is allowed. */
  readonly ranges: readonly AddressRange[] | undefined
}
export type ReadyIdentity = IdentityRecord & { readonly scopeSet: ScopeSet }

export function toReadyToken(token: TokenRecord): ReadyToken {
  const ranges = token.allowedIps.length === 0 ? undefined : toRanges(token.allowedIps)
  return { ...token, scopeSet: toScopeSet(token.scope), ranges }
}

export const toReadyIdentity = (identity: IdentityRecord): ReadyIdentity => ({
  ...identity,
  scopeSet: toScopeSet(identity.scope),
})
