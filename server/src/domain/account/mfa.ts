/** The second factor: an authenticator app, with ten recovery codes in case it is lost. Every code works once. */
import type { MfaCode, RecoveryCodes, TotpEnrolment, TotpRemoval, TotpStart } from '@coffer/contract/mfa'
import { newId } from '../../crypto/id.ts'
import { base32, findTotpStep, newTotpSecret, otpauthUri } from '../../crypto/totp.ts'
import { newTypedCode, normaliseTypedCode } from '../../crypto/typed-code.ts'
import { Failure, invalid } from '../../failure.ts'
import type { Account } from '../../store/account/account.ts'
import type { Totp } from '../../store/account/mfa.ts'
import { requireBrowserSession } from '../access/access.ts'
import type { Context, WriteContext } from '../context.ts'
import { announce } from '../transaction.ts'
import { countAttempt } from './attempt-limit.ts'
import { requirePassword, requireSamePassword } from './password.ts'
import { inPersonTransaction, type RecordPersonEvent, requireAccount, requireAddressee } from './person.ts'
import { endOtherSessions } from './session.ts'

const issuer = 'Coffer'
const recoveryCodeCount = 10
/** Three groups of four letters are 52 bits, and guesses are limited to ten in ten minutes. */
const recoveryCodeGroups = 3

const entity = (account: Account, id: string) => ({ type: 'second-factor', id, name: account.email })
const isSetUp = () =>
  new Failure('conflict', 'An authenticator app is already set up: remove it before you set up another.')

export async function enrolTotp(ctx: Context, { password }: TotpStart): Promise<TotpEnrolment> {
  const { userId } = requireBrowserSession(ctx)
  const known = await requireAccount(ctx, userId)
  await requirePassword(ctx, known, password, { action: 'CREATE', entity: entity(known, '') })
  const secret = newTotpSecret()
  return inPersonTransaction(ctx, userId, async (ctx, recordEvent) => {
    const account = await requireSamePassword(ctx, known)
    if (account.totpId !== null) throw isSetUp()
    const id = newId()
    // Replaces an enrolment that was started but never confirmed.
    ctx.store.mfa.remove(userId)
    ctx.store.mfa.insert({ id, userId, createdAt: ctx.now() }, secret)
    await recordEvent({ action: 'CREATE', entity: entity(account, id), after: { isConfirmed: false } })
    return { secret: base32(secret), otpauthUri: otpauthUri(issuer, account.email, secret) }
  })
}

/** Ends the other sessions, which were opened without the factor. This one has used it by now. */
export async function confirmTotp(ctx: Context, body: MfaCode): Promise<RecoveryCodes> {
  const { userId, sessionId } = requireBrowserSession(ctx)
  await requireWaitingTotp(ctx, userId)
  // A guessed code would give the recovery codes, so guesses are counted here too.
  const subject = await countCodeAttempt(ctx, userId)
  const recoveryCodes = await inPersonTransaction(ctx, userId, async (ctx, recordEvent) => {
    const { account, totp } = await requireWaitingTotp(ctx, userId)
    const event = { action: 'UPDATE', entity: entity(account, totp.id) } as const
    if (!(await spendTotpCode(ctx, totp, body.code))) {
      await recordEvent({ ...event, outcome: 'failure', after: { reason: 'wrong code' } })
      return undefined
    }
    ctx.store.loginAttempts.forget(subject)
    const recoveryCodes = Array.from({ length: recoveryCodeCount }, () => newTypedCode(recoveryCodeGroups))
    ctx.store.mfa.insertRecoveryCodes(totp, recoveryCodes)
    ctx.store.accounts.update({ ...account, totpId: totp.id }, ctx.now())
    const sessionsEnded = await endOtherSessions(ctx, userId, sessionId)
    ctx.store.sessionFactors.save(sessionId, userId, totp.id)
    await recordEvent({ ...event, after: { isConfirmed: true, sessionsEnded } })
    return recoveryCodes
  })
  if (!recoveryCodes) throw invalid('code', 'is not the one that the app shows now; check the clock of its device.')
  return { recoveryCodes }
}

async function requireWaitingTotp(ctx: Context, userId: string): Promise<{ account: Account; totp: Totp }> {
  const account = await requireAccount(ctx, userId)
  if (account.totpId !== null) throw isSetUp()
  const totp = await ctx.store.mfa.find(userId)
  if (totp) return { account, totp }
  throw new Failure('conflict', 'No authenticator app is waiting to be confirmed: start with POST /v1/me/mfa/totp.')
}

/** Returns the subject of the count, to be forgotten after a right code. */
export async function countCodeAttempt(ctx: Context, userId: string): Promise<string> {
  const subject = `code:${userId}`
  await countAttempt(ctx, subject, 'Too many wrong codes: wait before you try again.')
  return subject
}

export async function removeTotp(ctx: Context, body: TotpRemoval): Promise<void> {
  const { userId } = requireBrowserSession(ctx)
  const known = await requireAccount(ctx, userId)
  await requirePassword(ctx, known, body.password, { action: 'DELETE', entity: entity(known, known.totpId ?? '') })
  if (known.totpId === null) throw new Failure('notFound')
  const subject = await countCodeAttempt(ctx, userId)
  const isRight = await inPersonTransaction(ctx, userId, async (ctx, recordEvent) => {
    const account = await requireSamePassword(ctx, known)
    if (account.totpId === null) throw new Failure('notFound')
    const event = { action: 'DELETE', entity: entity(account, account.totpId) } as const
    const verdict = await spendCode(ctx, account, body.code)
    if (verdict === 'wrong') {
      await recordEvent({ ...event, outcome: 'failure', after: { reason: 'wrong code' } })
      return false
    }
    ctx.store.loginAttempts.forget(subject)
    ctx.store.mfa.remove(userId)
    ctx.store.accounts.update({ ...account, totpId: null }, ctx.now())
    announce(ctx, 'user', userId)
    await recordEvent({ ...event, before: { secondFactor: verdict } })
    return true
  })
  if (!isRight) throw new Failure('forbidden', 'code: is wrong or was already used.')
}

/** For the operator, when app and recovery codes are lost. Changes nothing else about the account. */
export async function resetSecondFactor(ctx: Context, email: string): Promise<Account> {
  const { id } = await requireAddressee(ctx, email)
  return inPersonTransaction(ctx, id, (ctx, recordEvent) => removeLostFactor(ctx, id, recordEvent))
}

/** Sessions and tokens stay. Call inside the transaction of the person, after checking who may do this. */
export async function removeLostFactor(
  ctx: WriteContext,
  userId: string,
  recordEvent: RecordPersonEvent,
): Promise<Account> {
  const account = await requireAccount(ctx, userId)
  if (account.totpId === null) throw new Failure('conflict', 'This account has no second factor: nothing was changed.')
  ctx.store.mfa.remove(userId)
  ctx.store.accounts.update({ ...account, totpId: null }, ctx.now())
  announce(ctx, 'user', userId)
  await recordEvent({ action: 'DELETE', entity: entity(account, account.totpId) })
  return account
}

export type CodeVerdict = 'not needed' | 'authenticator app' | 'recovery code' | 'wrong' | 'missing'

/** Marks the code as used. Call inside the transaction of the action that the code allows. */
export async function spendCode(ctx: WriteContext, account: Account, code: string | undefined): Promise<CodeVerdict> {
  if (account.totpId === null) return 'not needed'
  if (code === undefined) return 'missing'
  const totp = await ctx.store.mfa.find(account.id)
  // The signed account row requires the factor, so deleting or replacing its row in the database cannot disable it.
  if (!totp || totp.id !== account.totpId || totp.confirmedAt === null) throw new Failure('integrity')
  if (await spendTotpCode(ctx, totp, code)) return 'authenticator app'
  return (await ctx.store.mfa.spendRecoveryCode(totp, normaliseTypedCode(code))) ? 'recovery code' : 'wrong'
}

async function spendTotpCode(ctx: WriteContext, totp: Totp, code: string): Promise<boolean> {
  const step = findTotpStep(totp.secret, code.replace(/\s/g, ''), ctx.now(), totp.lastStep)
  return step !== undefined && ctx.store.mfa.advance(totp, step, totp.confirmedAt ?? ctx.now())
}
