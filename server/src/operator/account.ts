/** `account …`: what the operator can see of people's accounts, and do to one, given its email address. */
import type { Config } from '../config.ts'
import { secondFactorResetMail } from '../domain/account/mail.ts'
import { resetSecondFactor } from '../domain/account/mfa.ts'
import { createPasswordReset } from '../domain/account/password-reset.ts'
import { systemChain } from '../domain/audit/event.ts'
import { record } from '../domain/audit/record.ts'
import type { Context } from '../domain/context.ts'
import { iso } from '../domain/time.ts'
import { inTransaction } from '../domain/transaction.ts'
import type { MailMessage } from '../mail.ts'
import type { ListedAccount } from '../store/account/account.ts'
import { type Print, withOperator } from './with-operator.ts'

export async function resetMfa(config: Config, email: string, print: Print): Promise<number> {
  return withOperator(config, 'write', async (ctx) => {
    const account = await resetSecondFactor(ctx, email)
    print(`The second factor of ${account.email} is removed: the password alone signs in. Sessions and tokens stay.\n`)
    const outcome = await send(ctx, secondFactorResetMail(account.email))
    if (outcome === 'off') print('No mail server is set (COFFER_SMTP_URL): tell the person yourself.\n')
    if (outcome === 'failed') print('The mail that tells the person could not be sent: tell them yourself.\n')
    return 0
  })
}

const pageSize = 500

/** Recorded, since it shows the addresses of everybody. */
export async function listAccounts(config: Config, print: Print): Promise<number> {
  return withOperator(config, 'write', async (ctx) => {
    let count = 0
    let page = await ctx.store.accounts.listAfter('', pageSize)
    while (page.length > 0) {
      for (const account of page) print(`${describe(account)}\n`)
      count += page.length
      page = await ctx.store.accounts.listAfter(page.at(-1)?.email ?? '', pageSize)
    }
    if (count === 0) print('There is no account yet.\n')
    const entity = { type: 'account', id: '', name: 'all accounts' }
    await inTransaction(ctx, systemChain, (ctx) =>
      record(ctx, { chain: systemChain, action: 'VIEW', entity, after: { accounts: count } }),
    )
    return 0
  })
}

function describe({ email, createdAt, hasSecondFactor, owned }: ListedAccount): string {
  const factor = hasSecondFactor ? ', second factor' : ''
  return `${email}  since ${iso(createdAt).slice(0, 10)}${factor}${owned.length === 0 ? '' : `, owns ${owned.join(', ')}`}`
}

export async function resetPassword(config: Config, email: string, print: Print): Promise<number> {
  return withOperator(config, 'write', async (ctx) => {
    const { email: address, url, sessionsEnded } = await createPasswordReset(ctx, email)
    print(`${url}\n\nWithin 30 minutes, whoever opens this link sets a new password for ${address}, once.\n`)
    const ended = sessionsEnded === 1 ? '1 session is ended' : `${sessionsEnded} sessions are ended`
    print(`${ended}. The second factor and tokens stay.\n`)
    return 0
  })
}

/** Waits for the mail server, because the process would otherwise exit before the mail is sent. */
function send({ mail }: Context, message: MailMessage): Promise<'sent' | 'failed' | 'off'> {
  return new Promise((resolve) => {
    if (!mail) resolve('off')
    mail?.post(message, async (outcome) => resolve(outcome))
  })
}
