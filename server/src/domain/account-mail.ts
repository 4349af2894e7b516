/** Mails to a person about their own account. */
import type { Letter } from '../mail.ts'
import { composeMail } from './mail-text.ts'

export function secondFactorResetMail(email: string): Letter {
  return composeMail(email, 'Your second factor on Coffer was removed', [
    `The operator of Coffer has removed the authenticator app and the recovery codes of ${email}.`,
    'The next sign-in needs your password alone. Set up an authenticator app again as soon as you have signed in.',
    'If you did not ask for this, change your password and tell the operator.',
  ])
}
