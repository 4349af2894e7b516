/** POST /v1/workspace/invite/lookup: what the page behind an invite link shows to a person without a session. */
import type { FoundInvite } from '@coffer/contract/invite'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { describeChanges, readContent } from '../../../../test/content.ts'
import {
  addUser,
  password,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../test/harness.ts'
import { createMemberWorkspace, type MemberWorkspace } from '../../../../test/member-workspace.ts'
import { openRaw } from '../../../../test/raw-database.ts'
import { createBearer, invitePrefix, sessionPrefix } from '../../crypto/token.ts'

const dayMs = 24 * 60 * 60 * 1000

let service: TestService
let owner: TestUser
let place: MemberWorkspace

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
  place = await createMemberWorkspace(service, owner)
})
afterAll(() => service.stop())

const lookUp = (token: unknown, more: Record<string, unknown> = {}, from = service) =>
  from.call<FoundInvite>('POST', '/v1/workspace/invite/lookup', { body: { token, ...more } })

const unknown = createBearer(invitePrefix)

test('shows workspace, address, role and end of an invite, as often as asked, and changes nothing', async () => {
  const { inviteToken, expiresAt } = await place.mustInvite({ email: 'guest@example.com', role: 'member' })
  const before = await readContent(service.app.services)
  for (const _ of [1, 2]) {
    const { status, body } = await lookUp(inviteToken)
    expect(status).toBe(200)
    const workspace = { name: place.slug, slug: place.slug }
    expect(body).toEqual({ workspace, email: 'guest@example.com', role: 'member', expiresAt })
  }
  const after = await readContent(service.app.services)
  expect(describeChanges(before, after)).toEqual([])
  expect(after.trail).toBe(before.trail)
})

test('does not say whether the invited address has an account', async () => {
  const known = await addUser(service, 'known@example.com')
  const [has, hasNot] = [
    await place.mustInvite({ email: known.email }),
    await place.mustInvite({ email: 'never@example.com' }),
  ]
  const [first, second] = [await lookUp(has.inviteToken), await lookUp(hasNot.inviteToken)]
  const { email: _known, expiresAt: _first, ...ofKnown } = first.body
  const { email: _unknown, expiresAt: _second, ...ofUnknown } = second.body
  expect(ofKnown).toEqual(ofUnknown)
  expect([first.status, second.status]).toEqual([200, 200])
})

describe('one and the same 404 for', () => {
  /** Every part of an answer that the caller can see, without the request's own id and count. */
  async function refusalOf(token: unknown) {
    const { status, headers, text } = await lookUp(token)
    const own = ['x-request-id', 'ratelimit-remaining', 'ratelimit-reset', 'date']
    return { status, text, headers: [...headers].filter(([name]) => !own.includes(name)) }
  }

  test.each<[string, () => Promise<string> | string]>([
    ['an empty text', () => ''],
    ['no token at all', () => 'made-up'],
    ['control characters', () => 'cof_inv_\u0000\u0007'],
    ['60,000 characters', () => 'x'.repeat(60_000)],
    ['a wrong checksum', () => `${unknown.slice(0, -1)}${unknown.endsWith('0') ? '1' : '0'}`],
    ['another kind of token', () => createBearer(sessionPrefix)],
    [
      'an expired one',
      async () => {
        service.clock.offsetMs -= 8 * dayMs
        const { session } = await addUser(service, 'early@example.com', { workspaceId: place.id, role: 'admin' })
        const { body } = await place.invite({}, session)
        service.clock.offsetMs += 8 * dayMs
        return body.inviteToken
      },
    ],
    [
      'an accepted one',
      async () => {
        const guest = await addUser(service, 'accepting@example.com')
        const { inviteToken } = await place.mustInvite({ email: guest.email })
        await service.call('POST', '/v1/workspace/invite/accept', {
          token: guest.session,
          body: { token: inviteToken },
        })
        return inviteToken
      },
    ],
    [
      'a declined one',
      async () => {
        const guest = await addUser(service, 'declining@example.com')
        const { inviteToken } = await place.mustInvite({ email: guest.email })
        await service.call('POST', '/v1/workspace/invite/decline', {
          token: guest.session,
          body: { token: inviteToken },
        })
        return inviteToken
      },
    ],
    [
      'a withdrawn one',
      async () => {
        const { id, inviteToken } = await place.mustInvite()
        expect((await place.ask('DELETE', `/rbac/${id}`)).status).toBe(200)
        return inviteToken
      },
    ],
    [
      'a replaced one',
      async () => {
        const { id, inviteToken } = await place.mustInvite()
        expect((await place.ask('POST', `/rbac/${id}/resend`)).status).toBe(200)
        return inviteToken
      },
    ],
    [
      'an invite to a workspace that is gone',
      async () => {
        const other = await createMemberWorkspace(service, owner)
        const { inviteToken } = await other.mustInvite()
        expect((await other.ask('DELETE', '', { password })).status).toBe(200)
        return inviteToken
      },
    ],
    [
      'an invite whose row was changed in the database',
      async () => {
        const { id, inviteToken } = await place.mustInvite({ role: 'member' })
        const raw = await openRaw(service)
        await raw.query("update invite set role = 'admin' where id = ?", [id])
        await raw.close()
        return inviteToken
      },
    ],
  ])('%s', async (_what, make) => {
    const refused = await refusalOf(await make())
    expect(refused).toEqual(await refusalOf(unknown))
    expect(refused.status).toBe(404)
  })
})

test.each<[string, unknown, string]>([
  ['without a token', {}, 'token: is required.'],
  ['with a number', { token: 1 }, 'token: must be a string.'],
  ['with an unknown field', { token: unknown, email: 'a@example.com' }, 'email: is not a known field.'],
])('a body %s is refused with the name of the field', async (_what, body, message) => {
  const answer = await service.call('POST', '/v1/workspace/invite/lookup', { body })
  expect(answer).toMatchObject({ status: 400, body: { message } })
})

test('guesses have the rate limit of public look-ups, and leave the rest of the API alone', async () => {
  const limited = await startService({ COFFER_SHARE_RATE_LIMIT: '5', COFFER_RATE_LIMIT: '100' })
  try {
    const { session } = await registerOwner(limited)
    const statuses: number[] = []
    for (let guess = 0; guess < 7; guess++) {
      const { status, headers } = await lookUp(createBearer(invitePrefix), {}, limited)
      statuses.push(status)
      expect(headers.get('ratelimit-limit')).toBe('5')
    }
    expect(statuses).toEqual([404, 404, 404, 404, 404, 429, 429])
    // Shares and invites share one count: trying both doubles nothing.
    expect((await limited.call('GET', '/v1/share/nobody-has-this/meta')).status).toBe(429)
    expect((await limited.call('GET', '/v1/me', { token: session })).status).toBe(200)
  } finally {
    await limited.stop()
  }
})
