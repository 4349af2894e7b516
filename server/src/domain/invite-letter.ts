/** The words of the message to an invited person, as plain text and as HTML. */
import type { Letter } from '../mail.ts'
import type { Invite } from '../store/invite.ts'

type Parts = {
  readonly workspaceName: string
  readonly invite: Pick<Invite, 'email' | 'role' | 'expiresAt'>
  readonly inviteUrl: string
  /** The address of the person who invites; undefined where a token did. */
  readonly invitedBy: string | undefined
}

export function inviteLetter({ workspaceName, invite, inviteUrl, invitedBy }: Parts): Letter {
  const { email, role, expiresAt } = invite
  const who = invitedBy === undefined ? 'You are invited' : `${invitedBy} invites you`
  const until = new Date(expiresAt).toUTCString()
  const offer = `${who} to the workspace “${workspaceName}” on Coffer, with the role ${role}.`
  const how = `The link works once, for ${email} only, until ${until}.`
  const ignore = 'If you did not expect this, ignore it: nothing happens.'
  return {
    to: email,
    subject: `Invitation to the workspace “${workspaceName}”`,
    text: [offer, `Accept or decline: ${inviteUrl}`, how, ignore].join('\n\n'),
    html: [
      '<!doctype html><html lang="en"><body>',
      `<p>${asText(offer)}</p>`,
      `<p><a href="${asText(inviteUrl)}">Accept or decline</a></p>`,
      `<p>${asText(how)}</p>`,
      `<p>${asText(ignore)}</p>`,
      '</body></html>',
    ].join('\n'),
  }
}

const entities: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }

/** Names of workspaces and people are their own text: they must not become markup. */
const asText = (text: string) => text.replace(/[&<>"']/g, (character) => entities[character] ?? '')
