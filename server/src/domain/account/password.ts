import type { PasswordChange } from '@coffer/contract/me'
import { hashPassword, verifyPassword } from '../../crypto/password.ts'
import { Failure } from '../../failure.ts'
import type { Account } from '../../store/account/account.ts'
import { requireSession } from '../access/access.ts'
import type { Context, WriteContext } from '../context.ts'
import { inPasswordSlot } from '../slot.ts'
import { countAttempt, forgetAttempts, forgiveAttempt } from './attempt-limit.ts'
import { inPersonTransaction, type PersonEvent, personEntity, requireAccount } from './person.ts'
import { endOtherSessions } from './session.ts'

/**
 * For actions that a session alone must not allow. A wrong or missing password is counted and recorded like a failed
 * login, so a stolen session allows no more guesses than the login page.
 */
export async function requirePassword(
  ctx: Context,
  account: Account,
  given: string | undefined,
  event: Pick<PersonEvent, 'action' | 'entity'>,
  field = 'password',
): Promise<void> {
  const subject = `password:${account.id}`
  await countAttempt(ctx, subject, 'Too many wrong passwords: wait before you try again.')
  if (given !== undefined && (await isPassword(ctx, subject, account, given))) return forgetAttempts(ctx, subject)
  const reason = given === undefined ? 'missing password' : 'wrong password'
  await inPersonTransaction(ctx, account.id, (_ctx, recordEvent) =>
    recordEvent({ ...event, outcome: 'failure', after: { reason } }),
  )
  throw new Failure(
    'forbidden',
    `${field}: ${given === undefined ? 'is required to confirm that it is you' : 'is wrong'}.`,
  )
}

async function isPassword(ctx: Context, subject: string, account: Account, given: string): Promise<boolean> {
  try {
    return await inPasswordSlot(ctx, (slot) => verifyPassword(slot, account.passwordHash, given))
  } catch (error) {
    // No slot for hashing was free, so the password was never checked.
    await forgiveAttempt(ctx, subject)
    throw error
  }
}

/** Reloads the account under the lock, and fails if the password has changed since it was checked. */
export async function requireSamePassword(ctx: WriteContext, { id, passwordHash }: Account): Promise<Account> {
  const current = await requireAccount(ctx, id)
  if (current.passwordHash === passwordHash) return current
  throw new Failure('conflict', 'The password has just been changed by another request: try again.')
}

export async function changePassword(ctx: Context, body: PasswordChange): Promise<void> {
  const { sessionId, userId } = requireSession(ctx)
  const account = await requireAccount(ctx, userId)
  const event = { action: 'UPDATE', entity: personEntity(account) } as const
  await requirePassword(ctx, account, body.currentPassword, event, 'currentPassword')
  const passwordHash = await inPasswordSlot(ctx, (slot) => hashPassword(slot, body.newPassword))
  await inPersonTransaction(ctx, userId, async (ctx, recordEvent) => {
    const current = await requireSamePassword(ctx, account)
    ctx.store.accounts.update({ ...current, passwordHash }, ctx.now())
    // Cancels a pending address change, which someone may have started with the old password.
    ctx.store.emailConfirmations.removeOf(userId)
    // Somebody else may have read the link of the operator.
    ctx.store.passwordResets.removeOf(userId)
    const sessionsEnded = await endOtherSessions(ctx, userId, sessionId)
    await recordEvent({ ...event, after: { password: 'changed', sessionsEnded } })
  })
}
