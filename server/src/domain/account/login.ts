/** Signing in with a password and, where one is set up, a second factor; and how often that may fail. */
import type { Login } from '@coffer/contract/auth'
import { clientNetwork } from '../../address-range.ts'
import { verifyPassword } from '../../crypto/password.ts'
import { Failure } from '../../failure.ts'
import { traceOf } from '../../log.ts'
import type { Account } from '../../store/account.ts'
import { extendChain, lockChain } from '../audit/chain.ts'
import { type Context, systemChain, type WriteContext } from '../context.ts'
import { inLoginSlot, inPasswordSlot } from '../slot.ts'
import { inQuietTransaction, inTransaction, recordAct } from '../transaction.ts'
import { type Attempt, backOffMs, forgiveAttempt, maxFailures, tooManyFailures } from './attempt-limit.ts'
import { normaliseEmail } from './email.ts'
import { type CodeVerdict, spendCode } from './mfa.ts'
import { asUser, inPersonTransaction, type PersonEvent, personEntity, type Tell, tellWorkspaces } from './person.ts'
import { type OpenedSession, openBrowserSession } from './session.ts'

const tooMany = 'Too many failed logins for this address: wait before you try again.'

export function login(ctx: Context, body: Login): Promise<OpenedSession> {
  const email = normaliseEmail(body.email)
  // Attempts count until they are known to be right, and many may be right at once.
  return inLoginSlot(ctx, email, () => loginInSlot(ctx, email, body))
}

async function loginInSlot(ctx: Context, email: string, body: Login): Promise<OpenedSession> {
  const attempts = await countLogin(ctx, email)
  const refusal = attempts.isLocked ? tooManyFailures(ctx, attempts.everywhere, tooMany) : undefined
  if (refusal && !isSpared(attempts)) throw refusal
  const account = await ctx.store.accounts.findByEmail(email)
  const isRight = await inPasswordSlot(ctx, (slot) => verifyPassword(slot, account?.passwordHash, body.password)).catch(
    async (error) => {
      // Nobody has looked at the password: that was not a failed login.
      await forgiveAttempt(ctx, ...attempts.subjects)
      throw error
    },
  )
  if (!account || !isRight) {
    await recordWrongPassword(ctx, account)
    // While others are locked out, a wrong password is answered here as it is everywhere else.
    throw refusal ?? new Failure('loginRefused')
  }
  const outcome = await inPersonTransaction(asUser(ctx, account), account.id, (ctx, tell) =>
    openIfProven(ctx, tell, account, body.code, attempts),
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

/** The session, or what is wrong: the code, or a password that has been changed since it was looked at. */
async function openIfProven(
  ctx: WriteContext,
  tell: Tell,
  account: Account,
  code: string | undefined,
  attempts: LoginAttempts,
): Promise<OpenedSession | Extract<CodeVerdict, 'wrong' | 'missing'> | 'outdated'> {
  // It may also have a second factor by now that it had not then.
  const current = await ctx.store.accounts.find(account.id)
  if (current?.passwordHash !== account.passwordHash) return 'outdated'
  const verdict = await spendCode(ctx, current, code)
  if (verdict === 'wrong' || verdict === 'missing') return verdict
  // Whoever is hammering elsewhere gets no new tries because the person has come in.
  const [, ...here] = attempts.subjects
  for (const subject of attempts.isLocked ? here : attempts.subjects) await ctx.store.loginAttempts.forget(subject)
  await tell({
    action: 'LOGIN',
    entity: personEntity(current),
    ...(verdict === 'not needed' ? {} : { after: { secondFactor: verdict } }),
  })
  return openBrowserSession(ctx, current)
}

type LoginAttempts = {
  /** What is counted: the email address, and the email address from this network where the person has signed in before. */
  readonly subjects: readonly [everywhere: string, ...here: string[]]
  readonly everywhere: Attempt
  readonly here: Attempt | undefined
  readonly isLocked: boolean
}

async function countLogin(ctx: Context, email: string): Promise<LoginAttempts> {
  // An email address has no space in it, so that no two subjects are the same.
  const network = clientNetwork(ctx.request.ip)
  const known = (await ctx.store.loginAddresses.isKnown(email, network)) ? [`${email} ${network}`] : []
  return inQuietTransaction(ctx, `login:${email}`, async (store) => {
    const everywhere = await store.loginAttempts.count(email, ctx.now(), backOffMs)
    let here: Attempt | undefined
    // Strangers come from any number of networks, which are not counted apart.
    for (const subject of known) here = await store.loginAttempts.count(subject, ctx.now(), backOffMs)
    return { subjects: [email, ...known], everywhere, here, isLocked: everywhere.failures > maxFailures }
  })
}

/**
 * Nobody is locked out for good by somebody who fails on purpose, again and again: networks that the person has signed
 * in from keep tries of their own, as many as everybody else has together.
 */
const isSpared = ({ here }: LoginAttempts) => here !== undefined && here.failures <= maxFailures

async function recordFailure(ctx: Context, account: Account, reason: string): Promise<void> {
  await inPersonTransaction(ctx, account.id, (_ctx, tell) => tell(failureOf(account, reason)))
}

/** Whether there is such a person, and in how many workspaces, must not show in the time: their trails are told later. */
async function recordWrongPassword(ctx: Context, account: Account | undefined): Promise<void> {
  // An address that nobody has is not kept: it may be a password in the wrong field.
  if (!account) return recordStrangeLogin(ctx)
  const event = failureOf(account, 'wrong password')
  await recordAct(ctx, { chain: systemChain, ...event })
  tellWorkspaces(ctx, account.id, event).catch((error) =>
    ctx.log.error('a failed login could not be recorded in the trails of the workspaces', traceOf(error)),
  )
}

/** The lock of an account bounds what is recorded of it; of addresses that nobody has there are any number. */
async function recordStrangeLogin(ctx: Context): Promise<void> {
  const event = ctx.strangers.admit(ctx, 'login')
  if (event) return recordAct(ctx, event)
  // Signing the head anew takes the time of a recorded failure: whether there is such a person must not show.
  await inTransaction(ctx, systemChain, async (ctx) => extendChain(ctx, systemChain, await lockChain(ctx, systemChain)))
}

function failureOf(account: Account, reason: string): PersonEvent {
  return { action: 'LOGIN', entity: personEntity(account), outcome: 'failure', after: { reason } }
}
