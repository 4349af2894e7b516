/** Combinations of members, sessions, tokens and identities: two of them together grant no more than each alone. */
import type { AuditEntry } from '@coffer/contract/audit'
import type { DeviceCode } from '@coffer/contract/device'
import type { Identity } from '@coffer/contract/oidc'
import type { IssuedShare } from '@coffer/contract/share'
import type { IssuedToken, Token } from '@coffer/contract/token'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  createProject,
  createTeam,
  createToken,
  engine,
  openService,
  password,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../test/harness.ts'
import { createIdentity, federate, loopbackAllowed, startIssuer, type TestIssuer } from '../../../test/issuer.ts'
import { createMemberWorkspace, type MemberWorkspace } from '../../../test/member-workspace.ts'
import { openRaw } from '../../../test/raw-database.ts'
import { newId } from '../crypto/id.ts'

const rounds = 6

let service: TestService
let nodes: TestService[]
let issuer: TestIssuer
let owner: TestUser
let place: MemberWorkspace
let environmentId: string

beforeAll(async () => {
  service = await startService(loopbackAllowed)
  nodes = engine === 'postgres' ? [service, await openService(service.settings, service.dataDir)] : [service]
  issuer = await startIssuer(() => service.app.services.now())
  owner = await registerOwner(service)
  place = await createMemberWorkspace(service, owner)
  const { environments } = await createProject(service, owner.session, 'api', { workspace: place.slug })
  environmentId = environments[0]?.id ?? ''
  await place.ask('PUT', `/project/api/environment/${environmentId}`, { hasPersonalOverrides: true })
  const body = { environments: [environmentId], secrets: [{ key: 'KEY', value: 'shared' }] }
  expect((await place.ask('POST', '/project/api/secret', body)).status).toBe(201)
})
afterAll(async () => {
  for (const node of nodes.slice(1)) await node.stop()
  await service.stop()
  await issuer.stop()
})

const logIn = async ({ email }: { email: string }) => {
  const { body } = await service.call<{ accessToken: string }>('POST', '/v1/auth/login', { body: { email, password } })
  return body.accessToken
}

/** Runs the first call concurrently with the others; on PostgreSQL, the others use another node. */
async function runConcurrently(
  first: () => Promise<{ status: number }>,
  others: ((node: TestService) => Promise<unknown>)[],
) {
  const other = nodes.at(-1) ?? service
  const running = first()
  await Promise.all(others.map((call) => call(other)))
  expect((await running).status).toBe(200)
}

test('an admin cannot rotate a token that grants personal values or the permissions of the owner', async () => {
  const member = await place.join({ role: 'member' })
  const admin = await place.join({ role: 'admin' })
  const own = { environmentId, value: 'mine alone', isPersonal: true }
  expect((await place.ask('PUT', '/project/api/secret/KEY/value', own, member.session)).status).toBe(200)
  expect((await place.ask('POST', '/tokens/cli', { environmentId }, member.session)).status).toBe(201)
  const ofOwner = await createToken(service, owner.session, { permission: 'read-write' }, place.slug)
  const { body: tokens } = await place.ask<Token[]>('GET', '/tokens', undefined, admin.session)
  const cli = tokens.find(({ createdById }) => createdById === member.id)?.id
  for (const id of [cli, ofOwner.id]) {
    const { status, text } = await place.ask<IssuedToken>('POST', `/tokens/${id}/rotate`, {}, admin.session)
    expect([status, text]).toEqual([403, expect.stringContaining('Only the creator of this token can rotate it')])
    expect(
      (await place.ask('POST', `/tokens/${id}/rotate`, {}, id === cli ? member.session : owner.session)).status,
    ).toBe(200)
    expect((await place.ask('DELETE', `/tokens/${id}`, undefined, admin.session)).status).toBe(200)
  }
  const plain = await createToken(service, member.session, { permission: 'read' }, place.slug)
  expect((await place.ask('POST', `/tokens/${plain.id}/rotate`, {}, admin.session)).status).toBe(200)
})

test('an identity cannot create shares, because no person would be accountable', async () => {
  await createIdentity(
    service,
    owner.session,
    { issuer: issuer.url, subject: 's', permission: 'read-write' },
    place.slug,
  )
  const token = await federate(service, await issuer.sign({ sub: 's' }), place.slug)
  const body = { content: 'text', expiresIn: 300 }
  const answer = await place.ask<IssuedShare>('POST', '/project/api/secret-share', body, token)
  expect(answer.status, answer.text).toBe(403)
  expect((await place.ask('GET', '/project/api/secret-share', undefined, token)).body).toEqual([])
})

test('a removed or demoted admin cannot concurrently add an issuer or rotate a token', async () => {
  const body = {
    name: 'left',
    issuer: issuer.url,
    audience: 'a',
    subject: 's',
    permission: 'read',
    scope: { all: true },
  }
  const token = await createToken(service, owner.session, { permission: 'read' }, place.slug)
  for (let round = 0; round < rounds; round++) {
    const admin = await place.join({ role: 'admin' })
    await nodes.at(-1)?.call('GET', place.root, { token: admin.session })
    const made: number[] = []
    const path = `${place.root}/rbac/${admin.memberId}`
    await runConcurrently(
      () =>
        round % 2 === 0
          ? service.call('DELETE', path, { token: owner.session })
          : service.call('PUT', path, { token: owner.session, body: { role: 'developer' } }),
      Array.from({ length: 6 }, (_, index) => async (node: TestService) => {
        const [at, sent] =
          index % 2 === 0 ? [`${place.root}/oidc`, body] : [`${place.root}/tokens/${token.id}/rotate`, {}]
        made.push((await node.call('POST', at, { token: admin.session, body: sent })).status)
      }),
    )
    for (const status of made) expect([200, 201, 403, 404]).toContain(status)
    const { body: trail } = await place.ask<{ entity: { id: string }; actor: { id: string }; sequence: number }[]>(
      'GET',
      '/audit?limit=50',
    )
    const end = trail.find(({ entity }) => entity.id === admin.memberId)?.sequence ?? 0
    expect(end).toBeGreaterThan(0)
    expect(trail.filter(({ actor, sequence }) => actor.id === admin.id && sequence > end)).toEqual([])
  }
  expect((await place.ask<Identity[]>('GET', '/oidc')).status).toBe(200)
})

test('an ended session cannot concurrently approve a device or create a token', async () => {
  const clientId = 'cli'
  for (let round = 0; round < rounds; round++) {
    const person = await place.join({ role: 'developer' })
    const taken = await logIn(person)
    const devices: DeviceCode[] = []
    for (let index = 0; index < 4; index++) {
      devices.push((await service.call<DeviceCode>('POST', '/v1/auth/device/code', { body: { clientId } })).body)
    }
    await nodes.at(-1)?.call('GET', place.root, { token: taken })
    const newToken = { name: 'left', permission: 'read', scope: { all: true }, expiresIn: 'never' }
    const tokens: number[] = []
    await runConcurrently(
      () => service.call('DELETE', '/v1/me/session', { token: person.session }),
      [
        ...devices.map(
          ({ userCode }) =>
            (node: TestService) =>
              node.call('POST', '/v1/auth/device/approve', { token: taken, body: { userCode, approve: true } }),
        ),
        ...devices.map(() => async (node: TestService) => {
          tokens.push((await node.call('POST', `${place.root}/tokens`, { token: taken, body: newToken })).status)
        }),
      ],
    )
    for (const { deviceCode } of devices) {
      const { status } = await service.call('POST', '/v1/auth/device/token', { body: { clientId, deviceCode } })
      expect(status).toBe(400)
    }
    const { body: trail } = await place.ask<{ action: string; actor: { id: string }; entity: { type: string } }[]>(
      'GET',
      `/audit?limit=50&actor=${person.id}`,
    )
    const end = trail.findIndex(({ action, entity }) => action === 'DELETE' && entity.type === 'session')
    expect(trail.slice(0, end).filter(({ entity }) => entity.type === 'token')).toEqual([])
  }
})

/** Invites with a token while its value ends: every invite precedes the end in the audit trail. */
async function expectNoInvites(
  token: IssuedToken,
  action: 'DELETE' | 'ROTATE',
  end: () => Promise<{ status: number }>,
) {
  for (const node of nodes) node.app.services.snapshots.clear()
  await nodes.at(-1)?.call('GET', place.root, { token: token.token })
  const body = () => ({ email: place.newAddress(), role: 'admin', scope: { all: true } })
  const invite = (node: TestService) => node.call('POST', `${place.root}/rbac`, { token: token.token, body: body() })
  await runConcurrently(end, [invite, invite, invite, invite])
  type Entry = { action: string; actor: { id: string }; entity: { id: string } }
  const { body: trail } = await place.ask<Entry[]>('GET', '/audit?limit=50')
  const at = trail.findIndex((entry) => entry.action === action && entry.entity.id === token.id)
  expect(trail.slice(0, at).filter(({ actor }) => actor.id === token.id)).toEqual([])
}

test('a revoked token cannot concurrently invite', async () => {
  for (let round = 0; round < rounds; round++) {
    const token = await createToken(service, owner.session, { permission: 'read-write' }, place.slug)
    const path = `${place.root}/tokens/${token.id}`
    await expectNoInvites(token, 'DELETE', () => service.call('DELETE', path, { token: owner.session }))
  }
})

test('a value ended by a second rotation cannot concurrently invite, even with a new grace period', async () => {
  for (let round = 0; round < rounds; round++) {
    const token = await createToken(service, owner.session, { permission: 'read-write' }, place.slug)
    const options = { token: owner.session, body: { graceSeconds: 3_600 } }
    const rotate = () => service.call('POST', `${place.root}/tokens/${token.id}/rotate`, options)
    expect((await rotate()).status).toBe(200)
    await expectNoInvites(token, 'ROTATE', rotate)
  }
})

test('the response to a wrong password does not depend on the workspaces of the person', async () => {
  const person = await place.join()
  const raw = await openRaw(service)
  const [last] = await raw.query('select * from audit_entry where chain_id = ? order by sequence desc limit 1', [
    place.id,
  ])
  // The place of the next entry in this trail is already taken, so that recording there would fail.
  const next = { ...last, sequence: Number(last?.sequence) + 1, id: newId() }
  const columns = Object.keys(next)
  await raw.query(
    `insert into audit_entry (${columns.join(', ')}) values (${columns.map(() => '?').join(', ')})`,
    Object.values(next),
  )
  const logInWrong = (email: string) =>
    service.call('POST', '/v1/auth/login', { body: { email, password: 'a wrong password' } })
  const refused = [await logInWrong('nobody@example.com'), await logInWrong(person.email)]
  await raw.query('delete from audit_entry where id = ?', [next.id])
  await raw.close()
  expect(refused.map(({ status }) => status)).toEqual([401, 401])
  expect(refused[1]?.text).toBe(refused[0]?.text)
})

test('concurrent changes of the name and the slug of a workspace both apply', async () => {
  for (let round = 0; round < rounds; round++) {
    const { root, slug, id } = await createMemberWorkspace(service, owner)
    const other = nodes.at(-1) ?? service
    await other.call('GET', root, { token: owner.session })
    const answers = await Promise.all([
      service.call('PUT', root, { token: owner.session, body: { slug: `${slug}-new` } }),
      other.call('PUT', `/v1/workspace/${id}`, { token: owner.session, body: { name: 'New' } }),
    ])
    expect(answers.map(({ status }) => status)).toEqual([200, 200])
    const { body } = await service.call('GET', `/v1/workspace/${id}`, { token: owner.session })
    expect(body).toMatchObject({ name: 'New', slug: `${slug}-new` })
  }
})

test('an admin with access through a team cannot keep a project that is moved away', async () => {
  const [theirs, ours] = [
    await createTeam(service, owner.session, 'theirs', place.slug),
    await createTeam(service, owner.session, 'ours', place.slug),
  ]
  const admin = await place.join({ role: 'admin', scope: { teams: [theirs] } })
  for (let round = 0; round < rounds; round++) {
    const slug = `moved-${round}`
    await createProject(service, owner.session, slug, { teamId: theirs, workspace: place.slug })
    const path = `${place.root}/project/${slug}`
    for (const node of nodes) node.app.services.snapshots.clear()
    await nodes.at(-1)?.call('GET', path, { token: admin.session })
    await runConcurrently(
      () => service.call('PUT', path, { token: owner.session, body: { teamId: ours } }),
      ['a', 'b', 'c'].map(
        (name) => (node: TestService) => node.call('PUT', path, { token: admin.session, body: { name } }),
      ),
    )
    expect((await service.call('GET', path, { token: admin.session })).status).toBe(404)
    expect((await service.call('GET', path, { token: owner.session })).body).toMatchObject({ teamId: ours })
  }
})

test('an admin who loses a team cannot concurrently move a project of it to a team that they keep', async () => {
  const [lost, kept] = [
    await createTeam(service, owner.session, 'lost', place.slug),
    await createTeam(service, owner.session, 'kept', place.slug),
  ]
  const admin = await place.join({ role: 'admin', scope: { teams: [lost, kept] } })
  for (let round = 0; round < rounds; round++) {
    const slug = `taken-${round}`
    await createProject(service, owner.session, slug, { teamId: lost, workspace: place.slug })
    const path = `${place.root}/project/${slug}`
    const narrow = (teams: string[]) =>
      service.call('PUT', `${place.root}/rbac/${admin.memberId}`, { token: owner.session, body: { scope: { teams } } })
    expect((await narrow([lost, kept])).status).toBe(200)
    for (const node of nodes) node.app.services.snapshots.clear()
    await nodes.at(-1)?.call('GET', path, { token: admin.session })
    await runConcurrently(
      () => narrow([kept]),
      ['a', 'b', 'c'].map(
        () => (node: TestService) => node.call('PUT', path, { token: admin.session, body: { teamId: kept } }),
      ),
    )
    const { body: trail } = await place.ask<AuditEntry[]>('GET', '/audit?limit=50')
    const end = trail.findIndex(({ entity }) => entity.id === admin.memberId)
    const later = trail.slice(0, end).filter(({ actor, entity }) => actor.id === admin.id && entity.type === 'project')
    // A project moved before the loss stays theirs, so a later change that moves nothing is allowed.
    expect(later.filter(({ before, after }) => before?.teamId !== after?.teamId)).toEqual([])
  }
})
