/** The policy as a form, whose numbers and lists are texts. Pure functions. */
import type { Policy } from '@coffer/sdk'

export type PolicyForm = Pick<Policy, 'requireMfa' | 'requireVerifiedEmail'> & {
  readonly addresses: string
  /** Blank: no limit. */
  readonly tokenDays: string
  readonly sharing: boolean
  readonly shareDays: string
  readonly endToEndOnly: boolean
}

export function toForm(policy: Policy): PolicyForm {
  const { requireMfa, requireVerifiedEmail, allowedIps = [], maxTokenDays, sharing } = policy
  return {
    requireMfa,
    requireVerifiedEmail,
    addresses: allowedIps.join('\n'),
    tokenDays: maxTokenDays === undefined ? '' : String(maxTokenDays),
    sharing: sharing.enabled,
    shareDays: String(sharing.maxDays),
    endToEndOnly: sharing.endToEndOnly,
  }
}

export function toPolicy(form: PolicyForm): Policy {
  const allowedIps = form.addresses.split(/[\s,]+/).filter(Boolean)
  return {
    requireMfa: form.requireMfa,
    requireVerifiedEmail: form.requireVerifiedEmail,
    ...(allowedIps.length > 0 && { allowedIps }),
    ...(form.tokenDays !== '' && { maxTokenDays: Number(form.tokenDays) }),
    sharing: { enabled: form.sharing, maxDays: Number(form.shareDays), endToEndOnly: form.endToEndOnly },
  }
}
