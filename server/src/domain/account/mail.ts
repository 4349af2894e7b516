/** Mails to a person about their own account. */
import type { Letter } from '../../mail.ts'
import { composeMail } from './mail-text.ts'

export function secondFactorResetMail(email: string): Letter {
  return composeMail(email, 'Your second factor on Coffer was removed', [
    `The operator of Coffer has removed the authenticator app and the recovery codes of ${email}.`,
    'The next sign-in needs your password alone. Set up an authenticator app again as soon as you have signed in.',
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

export function confirmEmailMail({ email, url, expiresAt, isChange }: Confirmation): Letter {
  const until = new Date(expiresAt).toUTCString()
  return composeMail(email, 'Confirm your email address for Coffer', [
    isChange
      ? `Somebody wants to use ${email} as the address of their account on Coffer.`
      : `Confirm that ${email}, the address of your account on Coffer, is yours.`,
    { label: 'Confirm the address', url },
    `The link works once, for the person who is signed in to that account, until ${until}.`,
    'If you did not expect this, ignore it: nothing happens.',
  ])
}

export function emailChangedMail(oldEmail: string, newEmail: string): Letter {
  return composeMail(oldEmail, 'The address of your account on Coffer was changed', [
    `Your account on Coffer now has the address ${newEmail} instead of ${oldEmail}.`,
    'If you did not do this, tell the operator or an admin of your workspace at once.',
  ])
}
