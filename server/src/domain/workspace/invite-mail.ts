/** The mail to an invited person. */
import type { MailMessage } from '../../mail.ts'
import type { Invite } from '../../store/workspace/invite.ts'
import { composeMail } from '../account/mail-text.ts'

type Parts = {
  readonly workspaceName: string
  readonly invite: Pick<Invite, 'email' | 'grants' | 'expiresAt'>
  readonly inviteUrl: string
  /** The address of the inviting person; undefined if a token created the invite. */
  readonly invitedBy: string | undefined
}

export function inviteMail({ workspaceName, invite, inviteUrl, invitedBy }: Parts): MailMessage {
  const { email, grants, expiresAt } = invite
  const who = invitedBy === undefined ? 'You are invited' : `${invitedBy} invites you`
  const until = new Date(expiresAt).toUTCString()
  const roles = new Set(grants.map(({ role }) => role))
  const offer = `${who} to the workspace “${workspaceName}” on Coffer, with the role ${[...roles].join(' or ')}.`
  const how = `The link works once, for ${email} only, until ${until}.`
  const ignore = 'If you did not expect this mail, ignore it: nothing will change.'
  return composeMail(email, `Invitation to the workspace “${workspaceName}”`, [
    offer,
    { label: 'Accept or decline', url: inviteUrl },
    how,
    ignore,
  ])
}
