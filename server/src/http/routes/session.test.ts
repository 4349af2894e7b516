import type { SignedIn } from '@coffer/contract/auth'
import type { Session } from '@coffer/contract/me'
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest'
import {
  addUser,
  createToken,
  password,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../test/harness.ts'
import { holdOnce } from '../../../../test/hold.ts'

let service: TestService
let owner: TestUser
let workspaceId: string
let people = 0

beforeAll(async () => {
  vi.useFakeTimers({ toFake: ['Date'] })
  service = await startService()
  owner = await registerOwner(service)
  const { body } = await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: owner.session })
  workspaceId = body.id
})
afterAll(async () => {
  vi.useRealTimers()
  await service.stop()
})
afterEach(() => {
  service.clock.offsetMs = 0
})

const hourMs = 3_600_000
const newPerson = () => addUser(service, `person${++people}@example.com`, { workspaceId, role: 'member' })
const logIn = async (user: TestUser, headers: Record<string, string> = {}, secret = password) =>
  service.call<SignedIn>('POST', '/v1/auth/login', { body: { email: user.email, password: secret }, headers })
const newSession = async (user: TestUser) => (await logIn(user)).body.accessToken
const list = async (token: string) => (await service.call<Session[]>('GET', '/v1/me/session', { token })).body
const revoke = (token: string, id: string) => service.call('DELETE', `/v1/me/session/${id}`, { token })
const statusOf = async (token: string) => (await service.call('GET', '/v1/me', { token })).status
const currentId = async (token: string) => (await list(token)).find(({ current }) => current)?.id ?? ''

test('the list has every active session with device and address, newest first, and marks the current one', async () => {
  const person = await newPerson()
  service.clock.offsetMs = 60_000
  const { body } = await logIn(person, { 'user-agent': 'Browser of the office' })
  service.clock.offsetMs = 120_000
  const now = new Date(service.app.services.now()).toISOString()
  const at = (offsetMs: number) => new Date(Date.now() + offsetMs).toISOString()
  expect(await list(body.accessToken)).toEqual([
    {
      id: expect.any(String),
      type: 'browser',
      ip: '127.0.0.1',
      userAgent: 'Browser of the office',
      createdAt: at(60_000),
      lastSeenAt: now,
      expiresAt: at(120_000 + 12 * hourMs),
      current: true,
    },
    expect.objectContaining({ type: 'browser', createdAt: at(0), lastSeenAt: at(0), current: false }),
  ])
})

test('a session expires after 12 hours without use and after 30 days at most', async () => {
  const person = await newPerson()
  const used = await newSession(person)
  service.clock.offsetMs = 12 * hourMs - 1
  expect(await statusOf(used)).toBe(200)
  service.clock.offsetMs = 12 * hourMs
  expect([await statusOf(person.session), await statusOf(used)]).toEqual([401, 200])
  expect(await list(used)).toHaveLength(1)
  for (let hours = 20; hours < 30 * 24; hours += 10) {
    service.clock.offsetMs = hours * hourMs
    expect(await statusOf(used), `after ${hours} hours`).toBe(200)
  }
  service.clock.offsetMs = 30 * 24 * hourMs - 1
  const [last] = await list(used)
  expect(Date.parse(last?.expiresAt ?? '')).toBe(Date.now() + 30 * 24 * hourMs)
  service.clock.offsetMs = 30 * 24 * hourMs
  expect(await statusOf(used)).toBe(401)
})

test('a recently used session stays valid when another session of the person is revoked', async () => {
  const person = await newPerson()
  const used = await newSession(person)
  service.clock.offsetMs = 12 * hourMs - 1
  const ending = await currentId(await newSession(person))
  expect((await revoke(used, ending)).status).toBe(200)
  service.clock.offsetMs = 12 * hourMs
  expect(await statusOf(used)).toBe(200)
})

test('a revoked session is refused from the next request on, and no other session is', async () => {
  const person = await newPerson()
  const [ending, staying] = [await newSession(person), await newSession(person)]
  const id = await currentId(ending)
  expect((await revoke(person.session, id.toUpperCase())).body).toEqual({ success: true })
  expect([await statusOf(ending), await statusOf(staying), await statusOf(person.session)]).toEqual([401, 200, 200])
  expect((await revoke(person.session, id)).status).toBe(404)
  expect((await list(person.session)).map((session) => session.id)).not.toContain(id)
})

test('a session that is revoked during its lookup is not cached', async () => {
  const person = await newPerson()
  const other = await newSession(person)
  const looking = holdOnce(service.app.services.store.accounts, 'find')
  const asked = statusOf(other)
  await looking.isDone
  expect((await service.call('DELETE', '/v1/me/session', { token: person.session })).status).toBe(200)
  looking.release()
  await asked
  expect(await statusOf(other)).toBe(401)
})

test('the current session may revoke itself', async () => {
  const person = await newPerson()
  expect((await revoke(person.session, await currentId(person.session))).status).toBe(200)
  expect(await statusOf(person.session)).toBe(401)
})

test('revoking a session of someone else is 404, like an unknown one', async () => {
  const [mallory, victim] = [await newPerson(), await newPerson()]
  const [theirs, nobodys] = [
    await revoke(mallory.session, await currentId(victim.session)),
    await revoke(mallory.session, '01890000-0000-7000-8000-00000000dead'),
  ]
  expect([theirs.status, theirs.text]).toEqual([nobodys.status, nobodys.text])
  expect(theirs.status).toBe(404)
  expect(await statusOf(victim.session)).toBe(200)
})

test('all other sessions are revoked at once, also by concurrent requests', async () => {
  const person = await newPerson()
  const others = await Promise.all(Array.from({ length: 4 }, () => newSession(person)))
  const answers = await Promise.all(
    Array.from({ length: 5 }, () => service.call('DELETE', '/v1/me/session', { token: person.session })),
  )
  expect(answers.map(({ body }) => body)).toEqual(answers.map(() => ({ success: true })))
  for (const other of others) expect(await statusOf(other)).toBe(401)
  expect(await statusOf(person.session)).toBe(200)
  expect(await list(person.session)).toHaveLength(1)
})

const change = (token: string, body: Record<string, unknown>) => service.call('PUT', '/v1/me/password', { token, body })
const next = 'another long password'

test('a password change ends all other sessions and invalidates the old password', async () => {
  const person = await newPerson()
  const other = await newSession(person)
  const { token } = await createToken(service, person.session, { permission: 'read' })
  expect((await change(person.session, { currentPassword: password, newPassword: next })).body).toEqual({
    success: true,
  })
  expect([await statusOf(person.session), await statusOf(other), await statusOf(token)]).toEqual([200, 401, 200])
  expect((await logIn(person)).status).toBe(401)
  expect((await logIn(person, {}, next)).status).toBe(200)
})

test('a wrong current password changes nothing, and the 11th attempt is 429, also with the right one', async () => {
  const person = await newPerson()
  for (let tries = 0; tries < 10; tries++) {
    expect(await change(person.session, { currentPassword: `wrong ${tries}`, newPassword: next })).toMatchObject({
      status: 403,
      body: { message: 'currentPassword: is wrong.' },
    })
  }
  const right = { currentPassword: password, newPassword: next }
  const locked = await change(person.session, right)
  expect(locked).toMatchObject({
    status: 429,
    body: { message: 'Too many wrong passwords: wait before you try again.' },
  })
  expect(locked.headers.get('retry-after')).toBe('600')
  // The thief of a session cannot lock the person out of the login.
  expect((await logIn(person)).status).toBe(200)
  service.clock.offsetMs = 600_000
  expect((await change(person.session, right)).status).toBe(200)
})

test('one of many concurrent password changes with the same current password succeeds', async () => {
  const person = await newPerson()
  const answers = await Promise.all(
    Array.from({ length: 6 }, (_, at) =>
      change(person.session, { currentPassword: password, newPassword: `password number ${at}` }),
    ),
  )
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
  expect(answers.filter(({ status }) => status !== 200).map(({ status }) => status)).toEqual(
    expect.arrayContaining([expect.toBeOneOf([403, 409])]),
  )
  const winner = answers.findIndex(({ status }) => status === 200)
  expect((await logIn(person, {}, `password number ${winner}`)).status).toBe(200)
})

test.each([
  ['a short new password', { newPassword: 'eleven char' }, 'newPassword: must have 12 characters or more.'],
  [
    'a new password of 257 characters',
    { newPassword: 'x'.repeat(257) },
    'newPassword: must have 256 characters or fewer.',
  ],
  ['no new password', { newPassword: undefined }, 'newPassword: is required.'],
  ['no current password', { currentPassword: undefined }, 'currentPassword: is required.'],
  ['an unknown field', { email: 'x@example.com' }, 'email: is not a known field.'],
])('a password change with %s is refused', async (_what, body, message) => {
  const person = await newPerson()
  const answer = await change(person.session, { currentPassword: password, newPassword: next, ...body })
  expect(answer).toMatchObject({ status: 400, body: { message } })
  expect((await logIn(person)).status).toBe(200)
})

test('a token cannot manage sessions or the password', async () => {
  const { token } = await createToken(service, owner.session)
  const id = await currentId(owner.session)
  const answers = [
    await service.call('GET', '/v1/me/session', { token }),
    await service.call('DELETE', '/v1/me/session', { token }),
    await revoke(token, id),
    await change(token, { currentPassword: password, newPassword: next }),
  ]
  for (const { status } of answers) expect(status).toBe(403)
  expect(await statusOf(owner.session)).toBe(200)
})

test('the audit trail records revoked sessions and password changes, and no password', async () => {
  const person = await newPerson()
  const id = await currentId(await newSession(person))
  await revoke(person.session, id)
  await newSession(person)
  await service.call('DELETE', '/v1/me/session', { token: person.session })
  await change(person.session, { currentPassword: 'a wrong password', newPassword: next })
  await change(person.session, { currentPassword: password, newPassword: next })
  const { body, text } = await service.call('GET', `/v1/workspace/main/audit?actor=${person.id}`, {
    token: owner.session,
  })
  expect(body).toMatchObject([
    { action: 'UPDATE', entity: { id: person.id }, after: { password: 'changed', sessionsEnded: 0 } },
    { action: 'UPDATE', entity: { id: person.id }, outcome: 'failure', after: { reason: 'wrong password' } },
    { action: 'DELETE', entity: { type: 'session', name: 'all others' }, after: { revoked: 1 } },
    { action: 'LOGIN' },
    { action: 'DELETE', entity: { type: 'session', id, name: 'browser' }, ip: '127.0.0.1' },
    { action: 'LOGIN', ip: '127.0.0.1', entity: { id: person.id, name: person.email } },
  ])
  for (const secret of [password, next, 'a wrong password', person.session]) expect(text).not.toContain(secret)
})

test('one of many concurrent logouts of one session succeeds and is recorded', async () => {
  const person = await newPerson()
  const out = () => service.call('POST', '/v1/auth/logout', { token: person.session })
  const statuses = (await Promise.all(Array.from({ length: 8 }, out))).map(({ status }) => status)
  expect(statuses.sort()).toEqual([200, ...Array.from({ length: 7 }, () => 401)])
  const trail = await service.call('GET', `/v1/workspace/main/audit?entity=${person.id}&action=LOGOUT`, {
    token: owner.session,
  })
  expect(trail.body).toHaveLength(1)
})
