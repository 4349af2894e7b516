/** A link of the operator, for one use, with which a person who has forgotten the password sets a new one. */
import type { PasswordReset } from '@coffer/contract/auth'
import { newId } from '../../crypto/id.ts'
import { hashPassword } from '../../crypto/password.ts'
import { bearerKind, createBearer, resetPrefix } from '../../crypto/token.ts'
import { Failure } from '../../failure.ts'
import type { Context } from '../context.ts'
import { inPasswordSlot } from '../slot.ts'
import { iso, minuteMs } from '../time.ts'
import { asUser, inPersonTransaction, personEntity, requireAccount, requireAddressee } from './person.ts'
import { endSessions } from './session.ts'

const lifetimeMs = 30 * minuteMs

type PasswordResetLink = { readonly email: string; readonly url: string; readonly sessionsEnded: number }

/** Ends the sessions at once: whoever else knows the password must not stay signed in until the link is used. */
export async function createPasswordReset(ctx: Context, email: string): Promise<PasswordResetLink> {
  const { id: userId } = await requireAddressee(ctx, email)
  const value = createBearer(resetPrefix)
  return inPersonTransaction(ctx, userId, async (ctx, recordEvent) => {
    const account = await requireAccount(ctx, userId)
    const reset = { id: newId(), userId, expiresAt: ctx.now() + lifetimeMs }
    await ctx.store.passwordResets.replace(reset, value)
    const sessionsEnded = await endSessions(ctx, userId)
    const entity = { type: 'password-reset', id: reset.id, name: account.email }
    await recordEvent({ action: 'CREATE', entity, after: { expiresAt: iso(reset.expiresAt), sessionsEnded } })
    // The fragment after # is never sent to a server or proxy.
    return { email: account.email, url: `${ctx.config.publicUrl}/reset#${value}`, sessionsEnded }
  })
}

/** The second factor stays, and nobody is signed in: the new password alone opens nothing that the old one did not. */
export async function resetPassword(ctx: Context, { token, password }: PasswordReset): Promise<void> {
  const found = await findReset(ctx, token)
  const account = await requireAccount(ctx, found.userId)
  const passwordHash = await inPasswordSlot(ctx, (slot) => hashPassword(slot, password))
  await inPersonTransaction(asUser(ctx, account), account.id, async (ctx, recordEvent) => {
    const current = await requireAccount(ctx, account.id)
    if (found.expiresAt <= ctx.now() || !(await ctx.store.passwordResets.take(found))) throw unknownLink()
    ctx.store.accounts.update({ ...current, passwordHash }, ctx.now())
    // Cancels a pending address change, which someone may have started with the old password.
    ctx.store.emailConfirmations.removeOf(current.id)
    ctx.store.loginAttempts.forget(current.email)
    const sessionsEnded = await endSessions(ctx, current.id)
    await recordEvent({
      action: 'UPDATE',
      entity: personEntity(current),
      after: { password: 'reset', resetId: found.id, sessionsEnded },
    })
  })
}

async function findReset(ctx: Context, token: string) {
  const found =
    bearerKind(token) === resetPrefix
      ? await ctx.keys.lookTwice('reset', () => ctx.store.passwordResets.findByValue(token))
      : undefined
  if (!found || found.expiresAt <= ctx.now()) throw unknownLink()
  return found
}

const unknownLink = () =>
  new Failure('notFound', 'This link has expired, was already used or was replaced by a newer one: ask for a new one.')
