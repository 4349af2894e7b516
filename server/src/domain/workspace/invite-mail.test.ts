import { expect, test } from 'vitest'
import { everything } from '../scope.ts'
import { inviteMail } from './invite-mail.ts'

const parts = {
  workspaceName: 'Acme',
  invite: {
    email: 'ann@example.com',
    grants: [{ role: 'developer', scope: everything }],
    expiresAt: Date.UTC(2030, 0, 2, 3, 4, 5),
  },
  inviteUrl: 'https://coffer.example.com/invite#cof_inv_0',
  invitedBy: 'owner@example.com',
} as const

test('text and HTML name the inviter, the workspace and the expiry, and contain the link', () => {
  const { to, subject, text, html } = inviteMail(parts)
  expect(to).toBe('ann@example.com')
  expect(subject).toBe('Invitation to the workspace “Acme”')
  for (const body of [text, html]) {
    for (const word of ['owner@example.com', 'Acme', 'developer', 'Wed, 02 Jan 2030 03:04:05 GMT', parts.inviteUrl]) {
      expect(body).toContain(word)
    }
  }
})

test('an invite by a token names no person', () => {
  const { text } = inviteMail({ ...parts, invitedBy: undefined })
  expect(text).toMatch(/^You are invited to the workspace “Acme”/)
})

test('names are escaped in HTML', () => {
  const workspaceName = `</p><a href="https://evil.example.com" onclick='x'>click & win</a>`
  const { html } = inviteMail({ ...parts, workspaceName, invitedBy: '<b>@example.com' })
  expect(html.match(/<a /g)).toHaveLength(1)
  expect(html).toContain('click &amp; win')
  expect(html).not.toMatch(/<b>|onclick='/)
})
