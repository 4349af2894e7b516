/**
 * Concurrent changes to one membership: every outcome is one that some order explains. On PostgreSQL the requests
 * alternate between two nodes.
 */
import type { IssuedInvite } from '@coffer/contract/invite'
import type { Member } from '@coffer/contract/member'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  addUser,
  createProject,
  engine,
  openService,
  password,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../../test/harness.ts'
import { createMemberWorkspace, type MemberWorkspace, type Person } from '../../../../../test/member-workspace.ts'
import { times } from '../../../../../test/tier.ts'

const rounds = times(4, 12)

let service: TestService
let nodes: TestService[]
let owner: TestUser
let place: MemberWorkspace

beforeAll(async () => {
  service = await startService()
  nodes = engine === 'postgres' ? [service, await openService(service.settings, service.dataDir)] : [service]
  owner = await registerOwner(service)
  place = await createMemberWorkspace(service, owner)
})
afterAll(async () => {
  for (const node of nodes.slice(1)) await node.stop()
  await service.stop()
})

type Call = readonly [method: string, path: string, token: string, body?: unknown]

/** Sends all calls at once, alternating over the nodes; returns the statuses in the order of the calls. */
async function together(...calls: readonly Call[]): Promise<number[]> {
  // Another node would see the prepared state within a second; clearing the snapshots saves the wait.
  for (const node of nodes) node.app.services.snapshots.clear()
  const answers = await Promise.all(
    calls.map(([method, path, token, body], index) =>
      (nodes[index % nodes.length] ?? service).call(method, path, { token, ...(body !== undefined && { body }) }),
    ),
  )
  return answers.map(({ status }) => status)
}

const acceptPath = '/v1/workspace/invite/accept'
const rowPath = (id: string) => `${place.root}/rbac/${id}`

async function invited(body: Record<string, unknown> = {}): Promise<{ user: TestUser; invite: IssuedInvite }> {
  const email = place.newAddress()
  const user = await addUser(service, email)
  return { user, invite: await place.mustInvite({ email, ...body }) }
}

/** One race per round, each with a new membership or invite. */
async function repeat<Prepared>(prepare: () => Promise<Prepared>, race: (prepared: Prepared) => Promise<void>) {
  for (let round = 0; round < rounds; round++) await race(await prepare())
}

const oneOwner = (rows: readonly Member[]) => {
  const owners = rows.filter(({ isOwner }) => isOwner)
  expect(owners).toMatchObject([{ role: 'admin', scope: { all: true } }])
  return owners[0]?.user.id
}

test('one of 20 concurrent accepts of one invite succeeds', async () => {
  const { user, invite } = await invited()
  const call: Call = ['POST', acceptPath, user.session, { token: invite.inviteToken }]
  const statuses = await together(...Array.from({ length: 20 }, () => call))
  expect(statuses.sort()).toEqual([200, ...Array.from({ length: 19 }, () => 404)])
  const rows = (await place.members()).filter((row) => row.user.email === user.email)
  expect(rows).toMatchObject([{ id: invite.id, status: 'account-created' }])
  expect((await place.trail(invite.id)).map(({ action }) => action)).toEqual(['CREATE', 'ACCEPT'])
})

test('one of 20 concurrent registrations with one invite creates the account and joins', async () => {
  const email = place.newAddress()
  const { id, inviteToken } = await place.mustInvite({ email })
  const body = { email, name: 'New', password: 'correct horse battery staple', inviteToken }
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, index) =>
      (nodes[index % nodes.length] ?? service).call('POST', '/v1/auth/register', { body }),
    ),
  )
  const statuses = answers.map(({ status }) => status).sort()
  expect(statuses).toEqual([201, ...Array.from({ length: 19 }, () => 403)])
  expect((await place.trail(id)).map(({ action }) => action)).toEqual(['CREATE', 'ACCEPT'])
})

test('one of 20 concurrent invites to one address succeeds', async () => {
  const body = { email: place.newAddress(), role: 'member', scope: { all: true } }
  const call: Call = ['POST', `${place.root}/rbac`, owner.session, body]
  const statuses = await together(...Array.from({ length: 20 }, () => call))
  expect(statuses.sort()).toEqual([201, ...Array.from({ length: 19 }, () => 409)])
})

test('an invite that is accepted and removed concurrently leaves no member', () =>
  repeat(invited, async ({ user, invite }) => {
    const [accepted, removed] = await together(
      ['POST', acceptPath, user.session, { token: invite.inviteToken }],
      ['DELETE', rowPath(invite.id), owner.session],
    )
    expect([200, 404]).toContain(accepted)
    expect(removed).toBe(200)
    expect(await place.row(invite.id)).toBeUndefined()
    expect((await service.call('GET', place.root, { token: user.session })).status).toBe(404)
  }))

test('an invite that is accepted and resent concurrently gives a member or a new token, never both', () =>
  repeat(invited, async ({ user, invite }) => {
    const [accepted, resent] = await together(
      ['POST', acceptPath, user.session, { token: invite.inviteToken }],
      ['POST', `${rowPath(invite.id)}/resend`, owner.session],
    )
    expect([
      [200, 409],
      [404, 200],
    ]).toContainEqual([accepted, resent])
    const status = accepted === 200 ? 'account-created' : 'invite-sent'
    expect(await place.row(invite.id)).toMatchObject({ status })
  }))

test('one of a concurrent accept and decline of one invite succeeds', () =>
  repeat(invited, async ({ user, invite }) => {
    const body = { token: invite.inviteToken }
    const statuses = await together(
      ['POST', acceptPath, user.session, body],
      ['POST', '/v1/workspace/invite/decline', user.session, body],
    )
    expect([...statuses].sort()).toEqual([200, 404])
    const status = statuses[0] === 200 ? 'account-created' : 'declined'
    expect(await place.row(invite.id)).toMatchObject({ status })
  }))

test('an invite that is accepted and narrowed concurrently ends with the narrower role', () =>
  repeat(
    () => invited({ role: 'admin' }),
    async ({ user, invite }) => {
      const statuses = await together(
        ['POST', acceptPath, user.session, { token: invite.inviteToken }],
        ['PUT', rowPath(invite.id), owner.session, { role: 'member' }],
      )
      expect(statuses).toEqual([200, 200])
      expect(await place.row(invite.id)).toMatchObject({ status: 'account-created', role: 'member' })
    },
  ))

test('an admin who is demoted cannot promote themselves concurrently', () =>
  repeat(
    () => place.join({ role: 'admin' }),
    async (admin: Person) => {
      const raise: Call = ['PUT', rowPath(admin.memberId), admin.session, { role: 'admin' }]
      const statuses = await together(
        raise,
        ['PUT', rowPath(admin.memberId), owner.session, { role: 'member' }],
        raise,
        raise,
      )
      expect(statuses[1]).toBe(200)
      for (const status of statuses.toSpliced(1, 1)) expect([200, 403]).toContain(status)
      expect(await place.row(admin.memberId)).toMatchObject({ role: 'member' })
    },
  ))

test('an admin who is removed cannot concurrently invite anyone or leave a token or value behind', async () => {
  const { environments } = await createProject(service, owner.session, 'left', { workspace: place.slug })
  const environmentId = environments[0]?.id ?? ''
  await place.ask('PUT', `/project/left/environment/${environmentId}`, { hasPersonalOverrides: true })
  const shared = { environments: [environmentId], secrets: [{ key: 'KEY', value: 'shared' }] }
  expect((await place.ask('POST', '/project/left/secret', shared)).status).toBe(201)
  await repeat(
    () => place.join({ role: 'admin' }),
    async (admin) => {
      const newToken = { name: 'left', permission: 'read', scope: { all: true }, expiresIn: 'never' }
      const value = { environmentId, value: 'own', isPersonal: true }
      const invite = { email: place.newAddress(), role: 'admin', scope: { all: true } }
      const statuses = await together(
        ['POST', `${place.root}/tokens`, admin.session, newToken],
        ['PUT', `${place.root}/project/left/secret/KEY/value`, admin.session, value],
        ['DELETE', rowPath(admin.memberId), owner.session],
        ['POST', `${place.root}/tokens`, admin.session, newToken],
        ['PUT', `${place.root}/project/left/secret/KEY/value`, admin.session, value],
        ['POST', `${place.root}/rbac`, admin.session, invite],
      )
      expect(statuses[2]).toBe(200)
      for (const status of statuses) expect([200, 201, 404]).toContain(status)
      const { inviteToken } = await place.mustInvite({ email: admin.email, role: 'developer' })
      expect((await place.accept(admin.session, inviteToken)).status).toBe(200)
      expect((await place.ask('GET', '/tokens', undefined, admin.session)).body).toEqual([])
      const { text } = await place.ask('GET', '/project/left/secret', undefined, admin.session)
      expect(text).not.toContain('"own"')
    },
  )
})

test('revoking a token concurrently with the removal of its creator succeeds before it, or is 404', () =>
  repeat(
    async () => {
      const person = await place.join({ role: 'developer' })
      const newToken = { name: 'theirs', permission: 'read', scope: { all: true }, expiresIn: 'never' }
      const { body } = await place.ask<{ id: string }>('POST', '/tokens', newToken, person.session)
      return { person, tokenId: body.id }
    },
    async ({ person, tokenId }) => {
      const revoke: Call = ['DELETE', `${place.root}/tokens/${tokenId}`, owner.session]
      const remove: Call = ['DELETE', rowPath(person.memberId), owner.session]
      const [removed, ...revoked] = await together(remove, revoke, revoke)
      expect(removed).toBe(200)
      for (const status of revoked) expect([200, 404]).toContain(status)
      const actions = (await place.trail(tokenId)).map(({ action }) => action)
      expect(actions).toEqual(revoked.includes(200) ? ['CREATE', 'DELETE'] : ['CREATE'])
    },
  ))

test('one of two admins who remove each other concurrently stays', () =>
  repeat(
    async () => [await place.join({ role: 'admin' }), await place.join({ role: 'admin' })] as const,
    async ([one, other]) => {
      const statuses = await together(
        ['DELETE', rowPath(one.memberId), other.session],
        ['DELETE', rowPath(other.memberId), one.session],
      )
      expect([...statuses].sort()).toEqual([200, 404])
      const left = (await place.members()).filter(({ id }) => id === one.memberId || id === other.memberId)
      expect(left.map(({ id }) => id)).toEqual([statuses[0] === 200 ? other.memberId : one.memberId])
    },
  ))

test('one of two concurrent ownership transfers succeeds', async () => {
  let current = owner
  for (let round = 0; round < rounds; round++) {
    const heirs = [await place.join({ role: 'member' }), await place.join({ role: 'admin' })]
    const statuses = await together(
      ...heirs.map(({ memberId }): Call => ['POST', `${place.root}/owner`, current.session, { memberId, password }]),
    )
    expect([...statuses].sort()).toEqual([200, 403])
    const heir = heirs[statuses.indexOf(200)]
    const { body } = await place.ask<Member[]>('GET', '/rbac')
    expect(oneOwner(body)).toBe(heir?.id)
    if (heir) current = heir
  }
  // Back to the owner that the other tests expect.
  const rows = (await place.ask<Member[]>('GET', '/rbac')).body
  const memberId = rows.find(({ user }) => user.id === owner.id)?.id
  expect(await together(['POST', `${place.root}/owner`, current.session, { memberId, password }])).toEqual([200])
})

test('an ownership transfer to someone who is concurrently demoted or removed leaves one owner, who is an admin', async () => {
  for (const removal of [false, true]) {
    for (let round = 0; round < rounds / 2; round++) {
      const there = await createMemberWorkspace(service, owner)
      const [heir, admin] = [await there.join({ role: 'developer' }), await there.join({ role: 'admin' })]
      const path = `${there.root}/rbac/${heir.memberId}`
      const against: Call = removal ? ['DELETE', path, admin.session] : ['PUT', path, admin.session, { role: 'member' }]
      const [handed, other] = await together(
        ['POST', `${there.root}/owner`, owner.session, { memberId: heir.memberId, password }],
        against,
      )
      expect(
        removal
          ? [
              [200, 409],
              [404, 200],
            ]
          : [
              [200, 409],
              [200, 200],
            ],
      ).toContainEqual([handed, other])
      expect(oneOwner(await there.members())).toBe(handed === 200 ? heir.id : owner.id)
    }
  }
})

test('the audit trail of all these races verifies', async () => {
  expect((await place.ask('GET', '/audit/verify')).body).toMatchObject({ ok: true })
})
