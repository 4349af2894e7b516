/** Proof that the person is there: for acts that end everything, or outlive the person, and that a stolen session must not allow. */
import type { Confirmation } from '@coffer/contract/field'
import { Failure } from '../../failure.ts'
import { requireSession } from '../access/access.ts'
import type { Context } from '../context.ts'
import { countCodeAttempt, spendCode } from './mfa.ts'
import { requirePassword } from './password.ts'
import { inPersonTransaction, type PersonEvent, requireAccount } from './person.ts'

/**
 * The password, or a code of the second factor; if both are given, the password. Call after authorising and before the
 * transaction of the act: a failure is counted and recorded, whatever becomes of the act.
 */
export async function requireConfirmation(
  ctx: Context,
  { password, code }: Confirmation,
  event: Pick<PersonEvent, 'action' | 'entity'>,
): Promise<void> {
  const { userId } = requireSession(ctx)
  if (password !== undefined || code === undefined) {
    return requirePassword(ctx, await requireAccount(ctx, userId), password, event)
  }
  const subject = await countCodeAttempt(ctx, userId)
  const verdict = await inPersonTransaction(ctx, userId, async (ctx, recordEvent) => {
    const verdict = await spendCode(ctx, await requireAccount(ctx, userId), code)
    if (verdict === 'wrong') await recordEvent({ ...event, outcome: 'failure', after: { reason: 'wrong code' } })
    else if (verdict !== 'not needed') ctx.store.loginAttempts.forget(subject)
    return verdict
  })
  if (verdict === 'wrong') throw new Failure('forbidden', 'code: is wrong or was already used.')
  if (verdict === 'not needed') {
    throw new Failure('forbidden', 'code: your account has no authenticator app: give your password instead.')
  }
}
