/** A token never has more rights than its creator, and ends when it is revoked, rotated or expired. */
import type { SignedIn } from '@coffer/contract/auth'
import type { Me } from '@coffer/contract/me'
import type { IssuedToken, Token } from '@coffer/contract/token'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  addUser,
  createProject,
  createTeam,
  createToken,
  exchange,
  password,
  registerOwner,
  startService,
  type TestProject,
  type TestService,
  type TestUser,
} from '../../../../../test/harness.ts'

let service: TestService
let owner: TestUser
let developer: TestUser
let member: TestUser
let narrow: TestUser
let project: TestProject
let otherTeam: string

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
  project = await createProject(service, owner.session, 'api')
  otherTeam = await createTeam(service, owner.session, 'Other')
  const workspaceId = (await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: owner.session })).body
    .id
  developer = await addUser(service, 'developer@example.com', { workspaceId, role: 'developer' })
  member = await addUser(service, 'member@example.com', { workspaceId, role: 'member' })
  const scope = { all: false, teams: [], projects: [project.id], environments: [] }
  narrow = await addUser(service, 'narrow@example.com', { workspaceId, role: 'admin', scope })
})
afterAll(() => service.stop())

const list = '/v1/workspace/main/tokens'
const as = (user: TestUser, options = {}) => ({ token: user.session, ...options })
const statusOf = async (token: string) => (await service.call('GET', '/v1/workspace/main', { token })).status
const logIn = async ({ email }: TestUser) =>
  (await service.call<SignedIn>('POST', '/v1/auth/login', { body: { email, password } })).body.accessToken
const wish = { name: 'ci', permission: 'read', scope: { all: true }, expiresIn: '24h' }

test('a token has the documented format, is shown once and is listed by its first characters', async () => {
  const issued = await createToken(service, owner.session, { name: 'Deploys' })
  expect(issued.token).toMatch(/^cof_live_[0-9A-Za-z]{36}$/)
  expect(issued.prefix).toBe(issued.token.slice(0, 13))
  const { body, text } = await service.call<Token[]>('GET', list, as(owner))
  expect(text).not.toContain(issued.token)
  expect(body.find(({ id }) => id === issued.id)).toMatchObject({
    name: 'Deploys',
    prefix: issued.prefix,
    permission: 'read-write',
    scope: { all: true, teams: [], projects: [], environments: [] },
    type: 'static',
    isOwner: true,
    createdById: owner.id,
    lastUsedAt: null,
    lastUsedIp: null,
    revokedAt: null,
  })
})

test.each([
  ['24h', 24],
  ['5d', 120],
  ['30d', 720],
  ['60d', 1440],
  ['3m', 91 * 24],
  ['6m', 182 * 24],
  ['1y', 365 * 24],
] as const)('a token with expiresIn %s expires after %i hours', async (expiresIn, hours) => {
  const { expiresAt, token } = await createToken(service, owner.session, { expiresIn })
  const left = Date.parse(expiresAt ?? '') - Date.now()
  expect(Math.abs(left - hours * 3_600_000)).toBeLessThan(60_000)
  service.clock.offsetMs = hours * 3_600_000 - 60_000
  expect(await statusOf(token)).toBe(200)
  service.clock.offsetMs = hours * 3_600_000 + 1_000
  expect(await statusOf(token)).toBe(401)
  service.clock.offsetMs = 0
})

test('the list shows when and from where a token was last used', async () => {
  const { id, token } = await createToken(service, owner.session)
  const before = Date.now()
  await statusOf(token)
  const after = Date.now()
  const { body } = await service.call<Token[]>('GET', list, as(owner))
  const used = body.find((entry) => entry.id === id)
  expect(used?.lastUsedIp).toBe('127.0.0.1')
  expect(Date.parse(used?.lastUsedAt ?? '')).toBeGreaterThanOrEqual(before)
  expect(Date.parse(used?.lastUsedAt ?? '')).toBeLessThanOrEqual(after)
})

test('everyone sees their own tokens, and an admin of the whole workspace sees all of them', async () => {
  const mine = await createToken(service, developer.session, { name: 'mine' })
  const seenBy = async (user: TestUser) => (await service.call<Token[]>('GET', list, as(user))).body
  expect((await seenBy(developer)).map(({ id }) => id)).toContain(mine.id)
  expect((await seenBy(owner)).find(({ id }) => id === mine.id)).toMatchObject({ isOwner: false })
  expect((await seenBy(member)).map(({ id }) => id)).not.toContain(mine.id)
  expect((await seenBy(narrow)).map(({ id }) => id)).not.toContain(mine.id)
})

test('a member can create only read tokens', async () => {
  const refused = await service.call('POST', list, as(member, { body: { ...wish, permission: 'read-write' } }))
  expect(refused.status).toBe(403)
  expect((await createToken(service, member.session, { permission: 'read' })).permission).toBe('read')
})

test('a token loses the rights that its creator loses', async () => {
  const { token } = await createToken(service, developer.session)
  const workspaceId = (await service.call<{ id: string }>('GET', '/v1/workspace/main', { token })).body.id
  const { engine, snapshots, store } = service.app.services
  const { members } = await store.members.list(workspaceId)
  const membership = members.find(({ userId }) => userId === developer.id)
  expect(membership?.grants[0].role).toBe('developer')
  expect(await statusOf(token)).toBe(200)
  await engine.transaction('test', async ({ db }) => {
    const { storeOver } = await import('../../../store/store.ts')
    await storeOver(db, service.app.services.keys).members.remove(membership?.id ?? '', workspaceId)
  })
  snapshots.drop(workspaceId)
  expect(await statusOf(token)).toBe(401)
  expect((await service.call('GET', '/v1/workspace/main', as(developer))).status).toBe(404)
})

test.each([
  [
    'a scope that grants nothing',
    { scope: {} },
    'scope: grants nothing: set "all", or list teams, projects or environments.',
  ],
  ['a scope with unknown ids', { scope: { teams: ['01a1dcf1-b912-73cb-9386-016275561f1a'] } }, /^scope: teams names /],
  ['an unknown lifetime', { expiresIn: '2d' }, 'expiresIn: must be one of: 24h, 5d, 30d, 60d, 3m, 6m, 1y, never.'],
  ['an unknown permission', { permission: 'write' }, 'permission: must be one of: read, read-write.'],
  [
    'an invalid IP address',
    { allowedIps: ['10.0.0.256'] },
    'allowedIps: 10.0.0.256 is not an IP address or CIDR range.',
  ],
  [
    'a CIDR range with host bits',
    { allowedIps: ['10.0.0.1/8'] },
    'allowedIps: 10.0.0.1/8 has host bits set: write 10.0.0.0/8.',
  ],
  ['an empty name', { name: '' }, 'name: must not be empty.'],
])('a token with %s is refused', async (_what, change, message) => {
  const answer = await service.call<{ message: string }>('POST', list, as(owner, { body: { ...wish, ...change } }))
  expect(answer.status).toBe(400)
  expect(answer.body.message).toMatch(message)
})

test('nobody can grant a scope beyond their own', async () => {
  const ask = (scope: unknown) => service.call('POST', list, as(narrow, { body: { ...wish, scope } }))
  expect((await ask({ all: true })).status).toBe(400)
  expect((await ask({ teams: [otherTeam] })).status).toBe(400)
  expect((await ask({ projects: [project.id] })).status).toBe(201)
  expect((await ask({ environments: [project.environments[0]?.id] })).status).toBe(201)
})

test('a token works only from its allowed IP addresses, and so does its JWT', async () => {
  const elsewhere = await createToken(service, owner.session, { allowedIps: ['10.0.0.0/8', '2001:db8::/32'] })
  expect(await statusOf(elsewhere.token)).toBe(401)
  const here = await createToken(service, owner.session, { allowedIps: ['10.0.0.0/8', '127.0.0.1'] })
  expect(await statusOf(here.token)).toBe(200)
  expect(await statusOf(await exchange(service, here.token))).toBe(200)
})

test('revoking a token ends it and its JWTs from the next request on, and can be repeated', async () => {
  const { id, token } = await createToken(service, owner.session)
  const jwt = await exchange(service, token)
  expect([await statusOf(token), await statusOf(jwt)]).toEqual([200, 200])
  expect((await service.call('DELETE', `${list}/${id}`, as(owner))).body).toEqual({ success: true })
  expect([await statusOf(token), await statusOf(jwt)]).toEqual([401, 401])
  expect((await service.call('DELETE', `${list}/${id}`, as(owner))).status).toBe(200)
  expect((await service.call('POST', `${list}/${id}/rotate`, as(owner))).status).toBe(409)
  const { body } = await service.call<Token[]>('GET', list, as(owner))
  expect(body.find((entry) => entry.id === id)?.revokedAt).toEqual(expect.any(String))
})

test('rotation keeps id and settings, and ends the old value and its JWTs at once', async () => {
  const before = await createToken(service, owner.session, { permission: 'read', name: 'rotating' })
  const jwt = await exchange(service, before.token)
  const { body: after } = await service.call<IssuedToken>('POST', `${list}/${before.id}/rotate`, as(owner))
  expect(after).toMatchObject({ id: before.id, name: 'rotating', permission: 'read', expiresAt: before.expiresAt })
  expect(after.token).not.toBe(before.token)
  expect([await statusOf(before.token), await statusOf(jwt), await statusOf(after.token)]).toEqual([401, 401, 200])
})

test('an old value is valid for exactly its grace period, and a second rotation ends it', async () => {
  const first = await createToken(service, owner.session)
  const rotate = async (graceSeconds: number) =>
    (await service.call<IssuedToken>('POST', `${list}/${first.id}/rotate`, as(owner, { body: { graceSeconds } }))).body
  const second = await rotate(60)
  expect([await statusOf(first.token), await statusOf(second.token)]).toEqual([200, 200])
  service.clock.offsetMs = 61_000
  expect([await statusOf(first.token), await statusOf(second.token)]).toEqual([401, 200])
  const third = await rotate(60)
  await rotate(0)
  expect([await statusOf(second.token), await statusOf(third.token)]).toEqual([401, 401])
  service.clock.offsetMs = 0
})

test('an old value in its grace period and a JWT that outlives its token show the actual expiry', async () => {
  const { id, token, expiresAt } = await createToken(service, owner.session, { expiresIn: '24h' })
  service.clock.offsetMs = 24 * 3_600_000 - 600_000
  const session = await logIn(owner)
  const jwt = await exchange(service, token)
  const end = async (value: string) =>
    (await service.call<Me>('GET', '/v1/me', { token: value })).body.credential.expiresAt
  expect([await end(token), await end(jwt)]).toEqual([expiresAt, expiresAt])
  const body = { graceSeconds: 60 }
  const { token: next } = (await service.call<IssuedToken>('POST', `${list}/${id}/rotate`, { token: session, body }))
    .body
  const graceMs = Date.parse((await end(token)) ?? '') - service.app.services.now()
  expect(graceMs).toBeGreaterThan(0)
  expect(graceMs).toBeLessThanOrEqual(60_000)
  expect([await end(jwt), await end(next)]).toEqual([await end(token), expiresAt])
  service.clock.offsetMs = 0
})

test('an expired token cannot be rotated, because its new value would be expired, too', async () => {
  const { id, token } = await createToken(service, owner.session, { expiresIn: '24h' })
  service.clock.offsetMs = 24 * 3_600_000
  const session = await logIn(owner)
  const rotated = await service.call('POST', `${list}/${id}/rotate`, { token: session })
  expect(rotated).toMatchObject({ status: 409, body: { message: 'This token has expired: create a new one.' } })
  expect((await service.call('DELETE', `${list}/${id}`, { token: session })).status).toBe(200)
  expect(await statusOf(token)).toBe(401)
  service.clock.offsetMs = 0
})

test('only the current value of a token can rotate it, not the previous one in its grace period and not a JWT', async () => {
  const { id, token: old } = await createToken(service, owner.session)
  const rotateWith = (token: string) =>
    service.call<IssuedToken>('POST', `${list}/${id}/rotate`, { token, body: { graceSeconds: 600 } })
  const { token } = (await rotateWith(old)).body
  const message = 'A token can rotate itself only with its current value, not with the previous one or a JWT.'
  for (const value of [old, await exchange(service, old), await exchange(service, token)]) {
    expect(await statusOf(value)).toBe(200)
    expect(await rotateWith(value)).toMatchObject({ status: 403, body: { message } })
  }
  expect(await statusOf(token)).toBe(200)
  expect((await rotateWith(token)).status).toBe(200)
  // Revoking is always allowed: the caller gains nothing by it.
  expect((await service.call('DELETE', `${list}/${id}`, { token: await exchange(service, token) })).status).toBe(200)
})

test('only one of many concurrent rotations by the token itself succeeds, even within a grace period', async () => {
  const { id, token } = await createToken(service, owner.session)
  const rotate = () => service.call<IssuedToken>('POST', `${list}/${id}/rotate`, { token, body: { graceSeconds: 600 } })
  const answers = await Promise.all(Array.from({ length: 8 }, rotate))
  expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array.from({ length: 7 }, () => 403)])
  expect(await statusOf(answers.find(({ status }) => status === 200)?.body.token ?? '')).toBe(200)
})

test('a token creates no tokens, and rotates or revokes only itself', async () => {
  const acting = await createToken(service, owner.session)
  const other = await createToken(service, owner.session)
  expect((await service.call('POST', list, { token: acting.token, body: wish })).status).toBe(403)
  expect((await service.call('POST', `${list}/${other.id}/rotate`, { token: acting.token })).status).toBe(403)
  expect((await service.call('DELETE', `${list}/${other.id}`, { token: acting.token })).status).toBe(403)
  const rotated = await service.call<IssuedToken>('POST', `${list}/${acting.id}/rotate`, { token: acting.token })
  expect(rotated.status).toBe(200)
  expect((await service.call('DELETE', `${list}/${acting.id}`, { token: rotated.body.token })).status).toBe(200)
  expect(await statusOf(rotated.body.token)).toBe(401)
})

test('concurrent rotations return different values, and only the last one is valid', async () => {
  const { id } = await createToken(service, owner.session)
  const answers = await Promise.all(
    Array.from({ length: 10 }, () => service.call<IssuedToken>('POST', `${list}/${id}/rotate`, as(owner))),
  )
  expect(answers.every(({ status }) => status === 200)).toBe(true)
  const living = await Promise.all(answers.map(({ body }) => statusOf(body.token)))
  expect(living.filter((status) => status === 200)).toHaveLength(1)
})

test('the audit trail records creation, rotation and revocation, without token values', async () => {
  const { id, token } = await createToken(service, owner.session, { name: 'told' })
  const rotated = await service.call<IssuedToken>(
    'POST',
    `${list}/${id}/rotate`,
    as(owner, { body: { graceSeconds: 5 } }),
  )
  await service.call('DELETE', `${list}/${id}`, as(owner))
  const { body, text } = await service.call('GET', `/v1/workspace/main/audit?entity=${id}`, as(owner))
  expect(body).toMatchObject([
    { action: 'DELETE', entity: { type: 'token', id, name: 'told' } },
    { action: 'ROTATE', after: { graceSeconds: 5 } },
    { action: 'CREATE', after: { permission: 'read-write', prefix: token.slice(0, 13) } },
  ])
  expect(text).not.toContain(token)
  expect(text).not.toContain(rotated.body.token)
})
