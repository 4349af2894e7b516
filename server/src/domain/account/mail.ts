/** Mails to a person about their own account. */
import type { MailMessage } from '../../mail.ts'
import { composeMail } from './mail-text.ts'

/** `by` starts the first sentence: who has removed the factor. */
export function secondFactorResetMail(email: string, by = 'The operator of Coffer'): MailMessage {
  return composeMail(email, 'Your second factor on Coffer was removed', [
    `${by} has removed the authenticator app and the recovery codes of ${email}.`,
    'You can now sign in with your password alone. Set up an authenticator app again once you have signed in.',
    'If you did not ask for this, change your password and tell the operator.',
  ])
}

type Confirmation = {
  readonly email: string
  readonly url: string
  readonly expiresAt: number
  /** True if the account is about to change to this address; false if it has this address already. */
  readonly isChange: boolean
}

export function confirmEmailMail({ email, url, expiresAt, isChange }: Confirmation): MailMessage {
  const until = new Date(expiresAt).toUTCString()
  return composeMail(email, 'Confirm your email address for Coffer', [
    isChange
      ? `Someone wants to use ${email} as the email address of their Coffer account.`
      : `Confirm that ${email}, the email address of your Coffer account, is yours.`,
    { label: 'Confirm the address', url },
    `The link works once, only while signed in to that account, until ${until}.`,
    'If you did not expect this mail, ignore it: nothing will change.',
  ])
}

export function emailChangedMail(oldEmail: string, newEmail: string): MailMessage {
  return composeMail(oldEmail, 'The email address of your Coffer account was changed', [
    `Your Coffer account now has the email address ${newEmail} instead of ${oldEmail}.`,
    'If you did not do this, tell the operator or an admin of your workspace at once.',
  ])
}
