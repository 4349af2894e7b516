/** What the policy of a workspace means for somebody, in words. */
import { daysText, findUnmet } from '../access/policy.ts'
import type { WorkspaceSnapshot } from '../cache/workspace-snapshot.ts'
import type { Context } from '../context.ts'
import type { PolicyRules, UnmetRule } from '../policy.ts'
import { who } from './sentence.ts'
import { asSubject, type Subject } from './subject.ts'

/** The rule that refuses every request of the subject, as a clause; undefined if none does. */
export function findPolicyProblem(
  ctx: Context,
  { policy }: WorkspaceSnapshot,
  subject: Subject,
  ip?: string,
): string | undefined {
  if (typeof policy !== 'object' || subject.refusal) return undefined
  const unmet = findUnmet(asSubject(ctx, subject, ip), policy)
  return unmet && clause(policy, unmet, who(subject.owner ?? subject.shown), ip)
}

function clause({ document }: PolicyRules, unmet: UnmetRule, holder: string, ip = ''): string {
  const clauses: Record<UnmetRule, string> = {
    requireMfa: `the workspace requires a second factor, and ${holder} has none`,
    requireVerifiedEmail: `the workspace requires a confirmed email address, and that of ${holder} is not confirmed`,
    allowedIps: `the workspace accepts requests from ${addresses(document)} only, not from ${ip}`,
    maxTokenDays: `the workspace accepts tokens for ${daysText(document.maxTokenDays)} after their creation, and this one is older`,
  }
  return clauses[unmet]
}

const addresses = ({ allowedIps = [] }: PolicyRules['document']) => allowedIps.join(', ')

/** Said if no address was named, so that the rule about addresses could not be applied. */
export function addressRemark({ policy }: WorkspaceSnapshot): string | undefined {
  if (typeof policy !== 'object' || !policy.ranges) return undefined
  return `the workspace accepts requests from ${addresses(policy.document)} only: no address was named, so that was not checked`
}
