/** Confirms the address of an account with a mailed link, and changes it with a link mailed to the new address. */
import type { EmailChange, EmailToken } from '@coffer/contract/email'
import { clientNetwork } from '../../address-range.ts'
import { newId } from '../../crypto/id.ts'
import { bearerKind, createBearer, mailPrefix } from '../../crypto/token.ts'
import { Failure, invalid } from '../../failure.ts'
import type { Mail } from '../../mail.ts'
import type { Account } from '../../store/account/account.ts'
import type { EmailConfirmation } from '../../store/account/email-confirmation.ts'
import { requireBrowserSession, requireSession } from '../access/access.ts'
import { systemChain } from '../audit/event.ts'
import { record } from '../audit/record.ts'
import type { Context, WriteContext } from '../context.ts'
import { dayMs } from '../time.ts'
import { announce } from '../transaction.ts'
import { normaliseEmail } from './email.ts'
import { confirmEmailMail, emailChangedMail } from './mail.ts'
import { countMailFrom, countMailTo } from './mail-limit.ts'
import { requirePassword, requireSamePassword } from './password.ts'
import { inPersonTransaction, personEntity, requireAccount } from './person.ts'

const lifetimeMs = dayMs

export async function verifyEmail(ctx: Context): Promise<void> {
  const { userId } = requireSession(ctx)
  const mail = requireMail(ctx)
  const account = await requireAccount(ctx, userId)
  if (account.emailVerifiedAt !== null) throw new Failure('conflict', 'Your email address is already confirmed.')
  await mailLink(ctx, mail, account, account.email)
}

/** The response does not reveal whether the new address has an account: only someone who reads its mail finds out. */
export async function changeEmail(ctx: Context, body: EmailChange): Promise<void> {
  const { userId } = requireBrowserSession(ctx)
  const mail = requireMail(ctx)
  const email = normaliseEmail(body.email)
  const account = await requireAccount(ctx, userId)
  await requirePassword(ctx, account, body.password, { action: 'UPDATE', entity: personEntity(account) })
  if (email === account.email) throw invalid('email', 'is already your address.')
  await mailLink(ctx, mail, account, email)
}

function requireMail({ mail }: Context): Mail {
  if (mail) return mail
  throw new Failure('conflict', 'No mail server is configured: ask the operator to set COFFER_SMTP_URL.')
}

async function mailLink(ctx: Context, mail: Mail, account: Account, email: string): Promise<void> {
  await countMailFrom(ctx, account.id)
  await countMailTo(ctx, email)
  const value = createBearer(mailPrefix)
  const at = ctx.now()
  const confirmation = { id: newId(), userId: account.id, email, createdAt: at, expiresAt: at + lifetimeMs }
  await inPersonTransaction(ctx, account.id, async (ctx) => {
    const current = await requireSamePassword(ctx, account)
    if (current.email !== account.email) throw new Failure('conflict', 'Your address has just been changed: try again.')
    ctx.store.emailConfirmations.replace(confirmation, value)
    const entity = { type: 'email-confirmation', id: confirmation.id, name: account.email }
    record(ctx, { chain: systemChain, action: 'CREATE', entity, after: { email } })
  })
  // The fragment after # is never sent to a server or proxy.
  const url = `${ctx.config.publicUrl}/me#confirm-email=${value}`
  mail.post(confirmEmailMail({ ...confirmation, url, isChange: email !== account.email }), async () => undefined)
}

export async function confirmEmail(ctx: Context, { token }: EmailToken): Promise<void> {
  const { userId } = requireSession(ctx)
  const found = await findConfirmation(ctx, userId, token)
  if (!found) throw unknownLink()
  const before = await inPersonTransaction(ctx, userId, async (ctx, recordEvent) => {
    const account = await requireAccount(ctx, userId)
    if (!(await ctx.store.emailConfirmations.take(found))) throw unknownLink()
    await recordEvent({
      action: 'UPDATE',
      entity: personEntity(account),
      ...(await setConfirmed(ctx, account, found.email)),
    })
    return account
  })
  if (before.email !== found.email) {
    ctx.mail?.post(emailChangedMail(before.email, found.email), async () => undefined)
  }
}

async function findConfirmation(ctx: Context, userId: string, token: string): Promise<EmailConfirmation | undefined> {
  if (bearerKind(token) !== mailPrefix) return undefined
  const found = await ctx.keys.lookTwice('email', () => ctx.store.emailConfirmations.findByValue(token, userId))
  return found && found.expiresAt > ctx.now() ? found : undefined
}

const unknownLink = () =>
  new Failure('notFound', 'This link has expired, was already used or was replaced by a newer one: request a new one.')

/** Call under the lock of the system chain. Every assignment of an address holds it, so the check cannot race. */
export async function setConfirmed(ctx: WriteContext, account: Account, email: string) {
  if (email !== account.email && (await ctx.store.accounts.findByEmail(email))) {
    throw new Failure('conflict', 'An account with this email address already exists: sign in with it instead.')
  }
  ctx.store.accounts.update({ ...account, email, emailVerifiedAt: ctx.now() }, ctx.now())
  if (email !== account.email) {
    // The network stays known under the new address, so failed logins elsewhere do not lock the person out.
    ctx.store.loginAddresses.remember(email, clientNetwork(ctx.request.ip), ctx.now())
  }
  // Sessions continue under the new address; only their cached copies are dropped.
  announce(ctx, 'user', account.id)
  const emailVerified = account.emailVerifiedAt !== null
  return { before: { email: account.email, emailVerified }, after: { email, emailVerified: true } }
}
