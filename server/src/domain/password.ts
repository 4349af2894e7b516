import type { PasswordChange } from '@coffer/contract/me'
import { hashPassword, verifyPassword } from '../crypto/password.ts'
import { Failure } from '../failure.ts'
import { requireSession } from './access.ts'
import { countAttempt, forgiveAttempt } from './back-off.ts'
import type { Context } from './context.ts'
import { inPersonTransaction, personEntity, requireAccount } from './person.ts'
import { endOtherSessions } from './session.ts'

/** Whoever has taken over a session has no more guesses at the password than at the login. */
export async function changePassword(ctx: Context, body: PasswordChange): Promise<void> {
  const { sessionId, userId } = requireSession(ctx)
  const account = await requireAccount(ctx, userId)
  const entity = personEntity(account)
  const subject = `password:${userId}`
  await countAttempt(ctx, subject, 'Too many wrong passwords: wait before you try again.')
  // Where there is no room to compute a hash, nobody has shown a wrong password.
  const forgive = async (error: unknown): Promise<never> => {
    await forgiveAttempt(ctx, subject)
    throw error
  }
  const isRight = await verifyPassword(account.passwordHash, body.currentPassword).catch(forgive)
  if (!isRight) {
    await inPersonTransaction(ctx, userId, (_ctx, tell) =>
      tell({ action: 'UPDATE', entity, outcome: 'failure', after: { reason: 'wrong password' } }),
    )
    throw new Failure('forbidden', 'currentPassword: is wrong.')
  }
  const passwordHash = await hashPassword(body.newPassword).catch(forgive)
  await inPersonTransaction(ctx, userId, async (ctx, tell) => {
    const current = await requireAccount(ctx, userId)
    if (current.passwordHash !== account.passwordHash) {
      throw new Failure('conflict', 'The password has just been changed by another request.')
    }
    await ctx.store.accounts.update({ ...current, passwordHash }, ctx.now())
    await ctx.store.loginAttempts.forget(subject)
    const sessionsEnded = await endOtherSessions(ctx, userId, sessionId)
    await tell({ action: 'UPDATE', entity, after: { password: 'changed', sessionsEnded } })
  })
}
