import type { Member } from '@coffer/contract/member'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { describeChanges, readContent } from '../../../../test/content.ts'
import {
  addUser,
  createToken,
  exchange,
  password,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../test/harness.ts'
import { createMemberWorkspace, type MemberWorkspace } from '../../../../test/member-workspace.ts'
import { openRaw, type RawDatabase } from '../../../../test/raw-database.ts'
import { createBearer, invitePrefix } from '../../crypto/token.ts'
import { everything } from '../../domain/scope.ts'

const dayMs = 24 * 60 * 60 * 1000

let service: TestService
let owner: TestUser
let raw: RawDatabase
let place: MemberWorkspace

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
  raw = await openRaw(service)
  place = await createMemberWorkspace(service, owner)
})
afterAll(async () => {
  await raw.close()
  await service.stop()
})

/** Moves the clock forward for the duration of `work`; the owner logs in again, as their session expires meanwhile. */
async function after(ms: number, work: () => Promise<void>): Promise<void> {
  service.clock.offsetMs += ms
  const { body } = await service.call<{ accessToken: string }>('POST', '/v1/auth/login', {
    body: { email: owner.email, password: 'correct horse battery staple' },
  })
  const before = owner
  owner = { ...owner, session: body.accessToken }
  try {
    await work()
  } finally {
    service.clock.offsetMs -= ms
    owner = before
  }
}

const nothingChanged = async (work: () => Promise<unknown>) => {
  const before = await readContent(service.app.services)
  await work()
  const now = await readContent(service.app.services)
  expect(describeChanges(before, now)).toEqual([])
  expect(now.trail).toBe(before.trail)
}

describe('an invite', () => {
  test('returns its link once and is listed with the members', async () => {
    const email = 'Ann.Lee@Example.com'
    const scope = { all: true, teams: [], projects: [], environments: [] }
    const { status, body } = await place.invite({ email, role: 'member' })
    expect(status).toBe(201)
    expect(body).toEqual({
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      inviteToken: expect.stringMatching(/^cof_inv_[0-9A-Za-z]{36}$/),
      inviteUrl: `http://localhost:8080/invite#${body.inviteToken}`,
      expiresAt: expect.stringMatching(/\.\d{3}Z$/),
      mail: 'off',
    })
    const row = await place.row(body.id)
    expect(row).toEqual({
      id: body.id,
      workspaceId: place.id,
      user: { id: '', email: 'ann.lee@example.com', emailVerified: false, name: '' },
      role: 'member',
      status: 'invite-sent',
      isOwner: false,
      scope,
      grants: [{ role: 'member', scope }],
      invitedAt: expect.any(String),
      expiresAt: body.expiresAt,
      mail: 'off',
    })
    expect(Date.parse(body.expiresAt) - Date.parse(row?.invitedAt ?? '')).toBe(7 * dayMs)
    const { text } = await place.ask('GET', '/rbac')
    expect(text).not.toContain(body.inviteToken)
    expect(JSON.stringify(await place.trail(body.id))).not.toContain(body.inviteToken)
  })

  test('becomes a membership with its id, date, role and scope when accepted', async () => {
    const email = place.newAddress()
    const user = await addUser(service, email)
    const { id, inviteToken } = await place.mustInvite({ email, role: 'developer' })
    const invited = await place.row(id)
    expect((await service.call('GET', place.root, { token: user.session })).status).toBe(404)
    const accepted = await place.accept(user.session, inviteToken)
    expect(accepted).toMatchObject({ status: 200, body: { slug: place.slug } })
    expect(await place.row(id)).toEqual({
      id,
      workspaceId: place.id,
      user: { id: user.id, email, emailVerified: false, name: email },
      role: 'developer',
      status: 'account-created',
      isOwner: false,
      scope: everything,
      grants: [{ role: 'developer', scope: everything }],
      invitedAt: invited?.invitedAt,
    })
    const seen = await service.call('GET', place.root, { token: user.session })
    expect(seen.body).toMatchObject({ role: 'developer', isOwner: false })
  })

  test('works once', async () => {
    const { memberId, session } = await place.join()
    const { inviteToken } = await place.mustInvite()
    expect((await place.accept(session, inviteToken)).status).toBe(403)
    const email = place.newAddress()
    const user = await addUser(service, email)
    const used = await place.mustInvite({ email })
    expect((await place.accept(user.session, used.inviteToken)).status).toBe(200)
    const again = await place.accept(user.session, used.inviteToken)
    expect(again).toMatchObject({ status: 404, body: { message: 'Not found.' } })
    expect((await place.decline(user.session, used.inviteToken)).text).toBe(again.text)
    expect(await place.row(memberId)).toMatchObject({ status: 'account-created' })
  })

  test('works only for the address it names', async () => {
    const stranger = await addUser(service, place.newAddress())
    const { id, inviteToken } = await place.mustInvite()
    await nothingChanged(async () => {
      for (const answer of [
        await place.accept(stranger.session, inviteToken),
        await place.decline(stranger.session, inviteToken),
        await place.accept(owner.session, inviteToken),
      ]) {
        expect(answer).toMatchObject({ status: 403, body: { message: expect.stringContaining('another address') } })
      }
    })
    expect(await place.row(id)).toMatchObject({ status: 'invite-sent' })
  })

  test('is accepted or declined by people, not by tokens', async () => {
    const email = place.newAddress()
    const user = await addUser(service, email)
    await service.call('POST', '/v1/workspace', { token: user.session, body: { name: 'Own', slug: 'own-place' } })
    const { token } = await createToken(service, user.session, {}, 'own-place')
    const { inviteToken } = await place.mustInvite({ email })
    for (const credential of [token, await exchange(service, token)]) {
      expect((await place.accept(credential, inviteToken)).status).toBe(403)
      expect((await place.decline(credential, inviteToken)).status).toBe(403)
    }
    expect((await place.accept(user.session, inviteToken)).status).toBe(200)
  })

  test('is 404 with identical bytes if its token is unknown, mistyped or of another kind', async () => {
    const user = await addUser(service, place.newAddress())
    const { inviteToken } = await place.mustInvite()
    const { token } = await createToken(service, owner.session)
    const texts = new Set<string>()
    for (const value of [
      createBearer(invitePrefix),
      `${inviteToken.slice(0, -1)}${inviteToken.endsWith('0') ? '1' : '0'}`,
      inviteToken.toLowerCase(),
      inviteToken.slice(0, -1),
      token,
      user.session,
      'x',
    ]) {
      for (const answer of [await place.accept(user.session, value), await place.decline(user.session, value)]) {
        expect(answer.status, value).toBe(404)
        texts.add(answer.text)
      }
    }
    expect([...texts]).toEqual(['{"message":"Not found."}'])
  })

  test('is not a credential', async () => {
    const { inviteToken } = await place.mustInvite()
    expect((await service.call('GET', '/v1/me', { token: inviteToken })).status).toBe(401)
  })

  test.each([
    ['no address', { email: undefined }, 'email: is required.'],
    ['an address without @', { email: 'ann' }, 'email: has characters or a format that is not allowed.'],
    [
      'an address with an invisible character',
      { email: 'an\u200bn@example.com' },
      'email: has characters or a format that is not allowed.',
    ],
    ['an unknown role', { role: 'owner' }, 'role: must be one of: member, developer, admin.'],
    ['no role', { role: undefined }, 'role: is required: send role and scope, or grants.'],
    ['no scope', { scope: undefined }, 'scope: is required: send role and scope, or grants.'],
    ['an empty scope', { scope: {} }, 'scope: grants nothing: set "all", or list teams, projects or environments.'],
    ['an unknown field', { isOwner: true }, 'isOwner: is not a known field.'],
    [
      'a scope with an unknown project',
      { scope: { projects: ['01890000-0000-7000-8000-00000000dead'] } },
      'scope: projects names 01890000-0000-7000-8000-00000000dead, which you cannot access.',
    ],
  ])('is refused with %s', async (_what, change, message) => {
    await nothingChanged(async () => {
      expect(await place.invite(change)).toMatchObject({ status: 400, body: { message } })
    })
  })

  test('is refused for a member or an invited address, and says why', async () => {
    const email = place.newAddress()
    const { id } = await place.mustInvite({ email })
    await nothingChanged(async () => {
      for (const spelling of [email, email.toUpperCase()]) {
        const again = await place.invite({ email: spelling })
        expect(again).toMatchObject({ status: 409, body: { message: expect.stringContaining(id) } })
      }
      const member = await place.invite({ email: owner.email })
      expect(member).toMatchObject({
        status: 409,
        body: { message: expect.stringContaining('already belongs to a member') },
      })
    })
  })

  test('to one workspace is not valid for another', async () => {
    const other = await createMemberWorkspace(service, owner)
    const email = place.newAddress()
    const [here, there] = [await place.mustInvite({ email }), await other.mustInvite({ email, role: 'member' })]
    const user = await addUser(service, email)
    expect((await place.accept(user.session, there.inviteToken)).body).toEqual({ slug: other.slug })
    expect((await service.call('GET', place.root, { token: user.session })).status).toBe(404)
    expect((await place.accept(user.session, here.inviteToken)).body).toEqual({ slug: place.slug })
  })

  test('ends with its workspace', async () => {
    const brief = await createMemberWorkspace(service, owner)
    const email = brief.newAddress()
    const user = await addUser(service, email)
    const { inviteToken } = await brief.mustInvite({ email })
    expect((await brief.ask('DELETE', '', { password })).status).toBe(200)
    expect((await brief.accept(user.session, inviteToken)).status).toBe(404)
  })
})

describe('a declined invite', () => {
  test('is invalid, stays listed, and can be resent', async () => {
    const email = place.newAddress()
    const user = await addUser(service, email)
    const { id, inviteToken } = await place.mustInvite({ email })
    expect((await place.decline(user.session, inviteToken)).body).toEqual({ success: true })
    expect(await place.row(id)).toMatchObject({ status: 'declined', user: { id: '', email } })
    expect((await place.accept(user.session, inviteToken)).status).toBe(404)
    expect((await place.decline(user.session, inviteToken)).status).toBe(404)
    expect((await place.invite({ email })).status).toBe(409)
    const resent = await place.ask<{ inviteToken: string }>('POST', `/rbac/${id}/resend`)
    expect(await place.row(id)).toMatchObject({ status: 'invite-sent' })
    expect((await place.accept(user.session, resent.body.inviteToken)).status).toBe(200)
    const actions = (await place.trail(id)).map(({ action }) => action)
    expect(actions).toEqual(['CREATE', 'DECLINE', 'ROTATE', 'ACCEPT'])
  })
})

describe('an expired invite', () => {
  test('expires after exactly 7 days, and can be resent', async () => {
    const email = place.newAddress()
    const { id, inviteToken } = await place.mustInvite({ email })
    await after(7 * dayMs, async () => {
      const user = await addUser(service, email)
      const rows = await service.call<Member[]>('GET', `${place.root}/rbac`, { token: owner.session })
      expect(rows.body.find((row) => row.id === id)).toMatchObject({ status: 'expired' })
      expect((await place.accept(user.session, inviteToken)).status).toBe(404)
      expect((await place.decline(user.session, inviteToken)).status).toBe(404)
      expect((await place.register('else@example.com', inviteToken)).status).toBe(403)
      const path = `${place.root}/rbac/${id}/resend`
      const { body } = await service.call<{ inviteToken: string }>('POST', path, { token: owner.session })
      expect((await place.accept(user.session, body.inviteToken)).status).toBe(200)
    })
  })

  test('is still valid a minute before it expires', async () => {
    const email = place.newAddress()
    const { inviteToken } = await place.mustInvite({ email })
    await after(7 * dayMs - 60_000, async () => {
      const user = await addUser(service, email)
      expect((await place.accept(user.session, inviteToken)).status).toBe(200)
    })
  })
})

describe('a resent invite', () => {
  test('has a new token, and the old one is invalid', async () => {
    const email = place.newAddress()
    const user = await addUser(service, email)
    const { id, inviteToken } = await place.mustInvite({ email })
    const resent = await place.ask<{ id: string; inviteToken: string }>('POST', `/rbac/${id}/resend`)
    expect(resent).toMatchObject({ status: 200, body: { id, mail: 'off' } })
    expect(resent.body.inviteToken).not.toBe(inviteToken)
    expect((await place.accept(user.session, inviteToken)).status).toBe(404)
    expect((await place.accept(user.session, resent.body.inviteToken)).status).toBe(200)
    const late = await place.ask('POST', `/rbac/${id}/resend`)
    expect(late).toMatchObject({
      status: 409,
      body: { message: 'This invite was accepted: there is nothing to send.' },
    })
  })

  test('must exist', async () => {
    expect((await place.ask('POST', '/rbac/01890000-0000-7000-8000-00000000dead/resend')).status).toBe(404)
    expect((await place.ask('POST', '/rbac/nothing/resend')).status).toBe(400)
  })
})

describe('an invite that is updated or revoked', () => {
  test('grants its updated role and scope, with the same token', async () => {
    const email = place.newAddress()
    const user = await addUser(service, email)
    const { id, inviteToken } = await place.mustInvite({ email, role: 'admin' })
    const [team] = (await place.ask<{ id: string }[]>('GET', '/team')).body
    const scope = { all: false, teams: [team?.id], projects: [], environments: [] }
    const changed = await place.ask('PUT', `/rbac/${id}`, { role: 'member', scope: { teams: [team?.id] } })
    expect(changed).toMatchObject({
      status: 200,
      body: { success: true, id, role: 'member', scope, status: 'invite-sent' },
    })
    expect((await place.accept(user.session, inviteToken)).status).toBe(200)
    expect(await place.row(id)).toMatchObject({ role: 'member', scope })
  })

  test('is invalid once revoked, and the address can be invited again', async () => {
    const email = place.newAddress()
    const user = await addUser(service, email)
    const { id, inviteToken } = await place.mustInvite({ email })
    expect((await place.ask('DELETE', `/rbac/${id}`)).body).toMatchObject({ success: true })
    expect(await place.row(id)).toBeUndefined()
    expect((await place.accept(user.session, inviteToken)).status).toBe(404)
    expect((await place.ask('DELETE', `/rbac/${id}`)).status).toBe(404)
    await place.mustInvite({ email })
  })
})
