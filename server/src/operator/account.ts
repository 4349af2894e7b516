/** `account …`: what the operator can do to a person's account, given its email address. */
import type { Config } from '../config.ts'
import { secondFactorResetMail } from '../domain/account/mail.ts'
import { resetSecondFactor } from '../domain/account/mfa.ts'
import type { Context } from '../domain/context.ts'
import type { MailMessage } from '../mail.ts'
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

/** Waits for the mail server, because the process would otherwise exit before the mail is sent. */
function send({ mail }: Context, message: MailMessage): Promise<'sent' | 'failed' | 'off'> {
  return new Promise((resolve) => {
    if (!mail) resolve('off')
    mail?.post(message, async (outcome) => resolve(outcome))
  })
}
