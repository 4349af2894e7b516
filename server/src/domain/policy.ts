/**
 * The policy of a workspace in the form that requests are checked against, and what it asks of them. `access/policy.ts`
 * refuses with it, `workspace/policy.ts` forecasts with it.
 */
import { openPolicy, type Policy } from '@coffer/contract/policy'
import type { AddressRange } from '../address-range.ts'
import type { StoredPolicy } from '../store/workspace/policy.ts'
import { isInRanges, toRanges } from './allowed-address.ts'
import { dayMs } from './time.ts'

export type PolicyRules = {
  readonly document: Policy
  /** Undefined if every address is allowed. */
  readonly ranges: readonly AddressRange[] | undefined
}
/**
 * Two states close the workspace, because its rules are unknown: `tampered`, a policy that was changed outside of Coffer,
 * and `incomplete`, rows of members, service accounts or policy that were removed or put back.
 */
export type ReadyPolicy = PolicyRules | 'tampered' | 'incomplete'

/** Undefined if the policy allows everything. */
export function toReadyPolicy(stored: StoredPolicy | undefined): ReadyPolicy | undefined {
  if (stored === undefined || stored === 'tampered') return stored
  return isOpen(stored) ? undefined : toRules(stored)
}

export function toRules(document: Policy): PolicyRules {
  const { allowedIps = [] } = document
  return { document, ranges: allowedIps.length === 0 ? undefined : toRanges(allowedIps) }
}

const isOpen = ({ requireMfa, requireVerifiedEmail, allowedIps = [], maxTokenDays, sharing }: Policy): boolean =>
  !requireMfa &&
  !requireVerifiedEmail &&
  allowedIps.length === 0 &&
  maxTokenDays === undefined &&
  sharing.enabled &&
  !sharing.endToEndOnly &&
  sharing.maxDays >= openPolicy.sharing.maxDays

export const asksForProofs = ({ document }: PolicyRules): boolean =>
  document.requireMfa || document.requireVerifiedEmail

/** What somebody has proven: about their account, and by the way they signed in. */
export type PersonProofs = { readonly emailVerified: boolean; readonly hasSecondFactor: boolean }

/** Whom the rules are applied to; a rule about something that is undefined does not apply. */
type PolicySubject = {
  /** Undefined for machines, which have neither a second factor nor an address to confirm. */
  readonly person: PersonProofs | undefined
  readonly tokenCreatedAt?: number | undefined
  readonly address?: string | undefined
}

export type UnmetRule = 'requireMfa' | 'requireVerifiedEmail' | 'allowedIps' | 'maxTokenDays'

/** The first rule that the subject does not meet. */
export function findUnmetRule(policy: PolicyRules, subject: PolicySubject, nowMs: number): UnmetRule | undefined {
  const { requireMfa, requireVerifiedEmail, maxTokenDays } = policy.document
  const { person, tokenCreatedAt, address } = subject
  if (requireMfa && person?.hasSecondFactor === false) return 'requireMfa'
  if (requireVerifiedEmail && person?.emailVerified === false) return 'requireVerifiedEmail'
  if (address !== undefined && !isAddressAllowed(policy, address)) return 'allowedIps'
  const isTooOld =
    maxTokenDays !== undefined && tokenCreatedAt !== undefined && tokenCreatedAt + maxTokenDays * dayMs <= nowMs
  return isTooOld ? 'maxTokenDays' : undefined
}

export const isAddressAllowed = ({ ranges }: PolicyRules, address: string): boolean =>
  !ranges || isInRanges(address, ranges)

type PolicyShare = { readonly kind: 'server' | 'e2e'; readonly createdAt: number; readonly expiresAt: number }

/** When a share ends; undefined if the policy does not let it open at all. */
export function shareEnd(policy: ReadyPolicy | undefined, share: PolicyShare): number | undefined {
  if (policy === undefined) return share.expiresAt
  if (typeof policy === 'string') return undefined
  const { enabled, maxDays, endToEndOnly } = policy.document.sharing
  if (!enabled || (endToEndOnly && share.kind !== 'e2e')) return undefined
  return Math.min(share.expiresAt, share.createdAt + maxDays * dayMs)
}
