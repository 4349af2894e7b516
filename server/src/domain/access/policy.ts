/** Refuses callers who do not meet the policy of the workspace, and says what to do about it. */
import { Failure } from '../../failure.ts'
import type { AccountProofs } from '../../store/account/account.ts'
import { type Actor, type Credential, isPerson } from '../actor.ts'
import type { Context, WriteContext } from '../context.ts'
import {
  asksForProofs,
  findUnmetRule,
  type PersonProofs,
  type PolicyRules,
  type ReadyPolicy,
  toReadyPolicy,
  type UnmetRule,
} from '../policy.ts'
import type { Granted } from '../request-run.ts'
import { dayMs } from '../time.ts'

/** `proofs` are those of the actor unless the store has newer ones. */
export function requirePolicy(ctx: Context, policy: ReadyPolicy | undefined, proofs?: AccountProofs): void {
  if (policy === undefined) return
  if (typeof policy === 'string') throw new Failure('unavailable', closed[policy])
  const unmet = findUnmet(ctx, policy, proofs)
  if (unmet) throw new Failure('forbidden', explain(ctx, policy, unmet))
}

/** The first rule of the policy that the caller does not meet. */
export function findUnmet(ctx: Context, policy: PolicyRules, proofs?: AccountProofs): UnmetRule | undefined {
  const { actor, request } = ctx
  const subject = {
    person: isPerson(actor) ? provenWith(actor.credential, proofs ?? proofsOf(actor)) : undefined,
    tokenCreatedAt: 'token' in actor.credential ? actor.credential.token.createdAt : undefined,
    address: request.hasNoAddress ? undefined : request.ip,
  }
  return findUnmetRule(policy, subject, ctx.now())
}

const proofsOf = ({ emailVerified = false, secondFactorId = null }: Actor): AccountProofs => ({
  emailVerified,
  secondFactorId,
})

/** A session has the second factor that it was opened with, if the account still has it; a token, that of its owner. */
function provenWith(credential: Credential, { emailVerified, secondFactorId }: AccountProofs): PersonProofs {
  const isUsed = !('sessionId' in credential) || credential.factorId === secondFactorId
  return { emailVerified, hasSecondFactor: secondFactorId !== null && isUsed }
}

const closed = {
  tampered:
    'The policy of this workspace failed its integrity check, so the workspace is closed. Ask the operator to run the doctor command.',
  incomplete:
    'Members, service accounts or the policy of this workspace were changed in the database, so the workspace is closed. Ask the operator to run the doctor command.',
}

/** Why the workspace is closed for everybody, also for work on behalf of somebody; undefined if it is open. */
export const findClosure = (policy: ReadyPolicy | undefined): string | undefined =>
  typeof policy === 'string' ? closed[policy] : undefined

function explain({ actor, request }: Context, { document }: PolicyRules, unmet: UnmetRule): string {
  const isToken = 'token' in actor.credential
  const sentences: Record<UnmetRule, string> = {
    requireMfa: isToken
      ? 'This workspace requires a second factor: the owner of this token must set up an authenticator app.'
      : (actor.secondFactorId ?? null) !== null
        ? 'This workspace requires a second factor, and this session was opened without one: sign in again with the code of your authenticator app.'
        : 'This workspace requires a second factor: set up an authenticator app in your account.',
    requireVerifiedEmail: isToken
      ? 'This workspace requires a confirmed email address: the owner of this token must confirm theirs.'
      : 'This workspace requires a confirmed email address: confirm yours in your account.',
    allowedIps: `This workspace accepts no requests from the address ${request.ip}: use an allowed network, or ask the owner of the workspace to allow this one.`,
    maxTokenDays: `This workspace accepts a token for ${daysText(document.maxTokenDays)} after its creation, and this one is older: create a new one.`,
  }
  return sentences[unmet]
}

export const daysText = (days = 0) => (days === 1 ? '1 day' : `${days} days`)

/** Call under the lock of the workspace: checks the stored policy, and what the person has proven by now. */
export async function requireStoredPolicy(ctx: WriteContext, workspaceId: string): Promise<ReadyPolicy | undefined> {
  const policy = toReadyPolicy(await ctx.store.policies.find(workspaceId))
  requirePolicy(ctx, policy, await findAskedProofs(ctx, policy))
  return policy
}

const findAskedProofs = async (ctx: Context, policy: ReadyPolicy | undefined): Promise<AccountProofs | undefined> =>
  typeof policy === 'object' && asksForProofs(policy) && isPerson(ctx.actor)
    ? ctx.store.accounts.findProofs(ctx.actor.userId)
    : undefined

/** False if the caller met the policy of the snapshot, but does not meet the stored one, or no longer has the proofs. */
export async function isStillAdmitted(ctx: Context, { snapshot }: Granted): Promise<boolean> {
  const stored = toReadyPolicy(await ctx.store.policies.find(snapshot.workspace.id))
  if (isAdmitted(ctx, stored, await findAskedProofs(ctx, stored))) return true
  // Somebody who lists their workspaces need not meet the policy of each.
  return !isAdmitted(ctx, snapshot.policy)
}

const isAdmitted = (ctx: Context, policy: ReadyPolicy | undefined, proofs?: AccountProofs): boolean =>
  policy === undefined || (typeof policy === 'object' && findUnmet(ctx, policy, proofs) === undefined)

/** True if this node may have learned that the owner of a token no longer has what the policy asks for. */
export function mayProofsHaveChanged(ctx: Context, { snapshot }: Granted): boolean {
  const { actor, credentials, pendingChanges } = ctx
  const { policy } = snapshot
  // Sessions are checked again at every change of their user.
  if (typeof policy !== 'object' || !asksForProofs(policy) || !('token' in actor.credential)) return false
  if (!isPerson(actor)) return false
  const known = credentials.peekProofs(actor.userId)
  return !known || !isSameProofs(known, proofsOf(actor)) || pendingChanges.has('user', actor.userId)
}

const isSameProofs = (a: AccountProofs, b: AccountProofs) =>
  a.emailVerified === b.emailVerified && a.secondFactorId === b.secondFactorId

/** A lifetime of null has no end. */
export function requireTokenLife(policy: ReadyPolicy | undefined, lifetimeMs: number | null): void {
  const maxDays = typeof policy === 'object' ? policy.document.maxTokenDays : undefined
  if (maxDays === undefined || (lifetimeMs !== null && lifetimeMs <= maxDays * dayMs)) return
  throw new Failure(
    'forbidden',
    `expiresIn: tokens of this workspace are valid for ${daysText(maxDays)} at most: choose a shorter time.`,
  )
}

type PlannedShare = { readonly kind: 'server' | 'e2e'; readonly lifeMs: number }

export function requireSharing(policy: ReadyPolicy | undefined, { kind, lifeMs }: PlannedShare): void {
  if (typeof policy !== 'object') return
  const { enabled, maxDays, endToEndOnly } = policy.document.sharing
  if (!enabled) throw new Failure('forbidden', 'Sharing is switched off in this workspace.')
  if (endToEndOnly && kind !== 'e2e') {
    throw new Failure('forbidden', 'This workspace allows only end-to-end encrypted shares: send an envelope.')
  }
  if (lifeMs > maxDays * dayMs) {
    throw new Failure(
      'forbidden',
      `expiresIn: shares of this workspace are valid for ${daysText(maxDays)} at most: choose a shorter time.`,
    )
  }
}
