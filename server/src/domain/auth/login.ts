/** Login with password and optional second factor, and the limit on failed attempts. */
import type { Login } from '@coffer/contract/auth'
import { clientNetwork } from '../../address-range.ts'
import { verifyPassword } from '../../crypto/password.ts'
import { Failure } from '../../failure.ts'
import { traceOf } from '../../log.ts'
import type { Account } from '../../store/account/account.ts'
import { type Attempt, backOffMs, forgiveAttempt, maxFailures, tooManyFailures } from '../account/attempt-limit.ts'
import { normaliseEmail } from '../account/email.ts'
import { type CodeVerdict, spendCode } from '../account/mfa.ts'
import {
  asUser,
  inPersonTransaction,
  type PersonEvent,
  personEntity,
  type RecordPersonEvent,
  recordInWorkspaces,
} from '../account/person.ts'
import { type OpenedSession, openBrowserSession } from '../account/session.ts'
import { systemChain } from '../audit/event.ts'
import type { Context, WriteContext } from '../context.ts'
import { inLoginSlot, inPasswordSlot } from '../slot.ts'
import { inQuietTransaction, inTransaction, recordAct } from '../transaction.ts'

const tooMany = 'Too many failed logins for this address: wait before you try again.'

export function login(ctx: Context, body: Login): Promise<OpenedSession> {
  const email = normaliseEmail(body.email)
  // One login per address at a time: attempts count as failed until proven right, so concurrent ones could exceed the
  // limit.
  return inLoginSlot(ctx, email, () => loginInSlot(ctx, email, body))
}

async function loginInSlot(ctx: Context, email: string, body: Login): Promise<OpenedSession> {
  const attempts = await countLogin(ctx, email)
  const refusal = attempts.isLocked ? tooManyFailures(ctx, attempts.everywhere, tooMany) : undefined
  if (refusal && !isSpared(attempts)) throw refusal
  const account = await ctx.store.accounts.findByEmail(email)
  const isRight = await inPasswordSlot(ctx, (slot) => verifyPassword(slot, account?.passwordHash, body.password)).catch(
    async (error) => {
      // The password was never checked, so this was not a failed login.
      await forgiveAttempt(ctx, ...attempts.subjects)
      throw error
    },
  )
  if (!account || !isRight) {
    await recordWrongPassword(ctx, account)
    // While the address is locked, a wrong password from a known network gets the same refusal as from any other.
    throw refusal ?? new Failure('loginRefused')
  }
  const outcome = await inPersonTransaction(asUser(ctx, account), account.id, (ctx, recordEvent) =>
    openIfProven(ctx, recordEvent, account, body.code, attempts),
  )
  if (typeof outcome !== 'string') return outcome
  if (outcome === 'outdated') {
    await recordWrongPassword(ctx, account)
    throw new Failure('loginRefused')
  }
  if (outcome === 'missing') await forgiveAttempt(ctx, ...attempts.subjects)
  await recordFailure(ctx, account, `${outcome} code`)
  throw new Failure(outcome === 'missing' ? 'codeRequired' : 'codeRefused')
}

/** The new session, or the reason for refusal: the code, or a password that was changed during the check. */
async function openIfProven(
  ctx: WriteContext,
  recordEvent: RecordPersonEvent,
  account: Account,
  code: string | undefined,
  attempts: LoginAttempts,
): Promise<OpenedSession | Extract<CodeVerdict, 'wrong' | 'missing'> | 'outdated'> {
  // The account may also have gained a second factor in the meantime.
  const current = await ctx.store.accounts.find(account.id)
  if (current?.passwordHash !== account.passwordHash) return 'outdated'
  const verdict = await spendCode(ctx, current, code)
  if (verdict === 'wrong' || verdict === 'missing') return verdict
  // A success here does not reset the lock: an attacker elsewhere must not get new attempts from it.
  const [, ...here] = attempts.subjects
  for (const subject of attempts.isLocked ? here : attempts.subjects) ctx.store.loginAttempts.forget(subject)
  await recordEvent({
    action: 'LOGIN',
    entity: personEntity(current),
    ...(verdict === 'not needed' ? {} : { after: { secondFactor: verdict } }),
  })
  return openBrowserSession(ctx, current, verdict === 'not needed' ? null : current.totpId)
}

type LoginAttempts = {
  /** The keys that are counted: the email address, and address plus network if the person has signed in from there. */
  readonly subjects: readonly [everywhere: string, ...here: string[]]
  readonly everywhere: Attempt
  readonly here: Attempt | undefined
  readonly isLocked: boolean
}

async function countLogin(ctx: Context, email: string): Promise<LoginAttempts> {
  // An email address contains no space, so the two kinds of key cannot collide.
  const network = clientNetwork(ctx.request.ip)
  const known = (await ctx.store.loginAddresses.isKnown(email, network)) ? [`${email} ${network}`] : []
  return inQuietTransaction(ctx, `login:${email}`, async (store) => {
    const everywhere = await store.loginAttempts.count(email, ctx.now(), backOffMs)
    let here: Attempt | undefined
    // Only known networks get a counter of their own: an attacker can use any number of unknown ones.
    for (const subject of known) here = await store.loginAttempts.count(subject, ctx.now(), backOffMs)
    return { subjects: [email, ...known], everywhere, here, isLocked: everywhere.failures > maxFailures }
  })
}

/**
 * Deliberate failures by an attacker must not lock a person out. Networks that the person has signed in from have
 * attempts of their own, as many as all other networks together.
 */
const isSpared = ({ here }: LoginAttempts) => here !== undefined && here.failures <= maxFailures

async function recordFailure(ctx: Context, account: Account, reason: string): Promise<void> {
  await inPersonTransaction(ctx, account.id, (_ctx, recordEvent) => recordEvent(failureOf(account, reason)))
}

/**
 * Response time must not reveal whether the account exists or its number of workspaces: their trails are written later.
 */
async function recordWrongPassword(ctx: Context, account: Account | undefined): Promise<void> {
  // An unknown address is not recorded: it may be a password typed into the wrong field.
  if (!account) return recordStrangeLogin(ctx)
  const event = failureOf(account, 'wrong password')
  await recordAct(ctx, { chain: systemChain, ...event })
  recordInWorkspaces(ctx, account.id, event).catch((error) =>
    ctx.log.error('a failed login could not be recorded in the trails of the workspaces', traceOf(error)),
  )
}

/** An account's attempt limit also bounds its audit entries; for unknown addresses, `strangers` does. */
async function recordStrangeLogin(ctx: Context): Promise<void> {
  const event = ctx.strangers.admit(ctx.request.ip, 'login')
  if (event) return recordAct(ctx, event)
  // Signing the head takes as long as recording a failure: response time must not reveal whether the account exists.
  await inTransaction(ctx, systemChain, ({ transaction }) => void transaction.signed.add(systemChain))
}

function failureOf(account: Account, reason: string): PersonEvent {
  return { action: 'LOGIN', entity: personEntity(account), outcome: 'failure', after: { reason } }
}
