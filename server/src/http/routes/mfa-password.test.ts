/** Setting up and removing a second factor needs the password: a session alone is not enough. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { setUpTotp } from '../../../../test/authenticator.ts'
import {
  addUser,
  password,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../test/harness.ts'

let service: TestService
let owner: TestUser
let workspaceId: string
let people = 0

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
  workspaceId = (await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: owner.session })).body.id
})
afterAll(() => service.stop())

const newPerson = () => addUser(service, `person${++people}@example.com`, { workspaceId, role: 'member' })
const enrol = (user: TestUser, body = {}) => service.call('POST', '/v1/me/mfa/totp', { token: user.session, body })
const remove = (user: TestUser, body = {}) => service.call('DELETE', '/v1/me/mfa/totp', { token: user.session, body })
const statusOf = async (email: string, more = {}) =>
  (await service.call('POST', '/v1/auth/login', { body: { email, password, ...more } })).status

const missing = { status: 403, body: { message: 'password: is required to confirm that it is you.' } }
const wrong = { status: 403, body: { message: 'password: is wrong.' } }

test('a stolen session cannot set up an authenticator app, and the login still works without a code', async () => {
  const person = await newPerson()
  expect(await enrol(person)).toMatchObject(missing)
  expect(await enrol(person, { password: 'a wrong password' })).toMatchObject(wrong)
  expect(await enrol(person, { password: '' })).toMatchObject(wrong)
  const confirm = { token: person.session, body: { code: '123456' } }
  expect((await service.call('POST', '/v1/me/mfa/totp/confirm', confirm)).status).toBe(409)
  expect(await statusOf(person.email)).toBe(200)
})

test('a stolen session and a valid code cannot remove an authenticator app', async () => {
  const person = await newPerson()
  const { recoveryCodes } = await setUpTotp(service, person.session)
  const code = recoveryCodes[0] ?? ''
  expect(await remove(person, { code })).toMatchObject(missing)
  expect(await remove(person, { code, password: 'a wrong password' })).toMatchObject(wrong)
  expect(await statusOf(person.email)).toBe(401)
  // The refused removals did not consume the code.
  expect((await remove(person, { code, password })).status).toBe(200)
})

test('missing and wrong passwords share one limit across all routes, and the login is not locked', async () => {
  const person = await newPerson()
  for (let tries = 0; tries < 5; tries++) {
    expect((await enrol(person)).status).toBe(403)
    const body = { currentPassword: 'a wrong password', newPassword: 'another long password' }
    expect((await service.call('PUT', '/v1/me/password', { token: person.session, body })).status).toBe(403)
  }
  const locked = await enrol(person, { password })
  expect(locked).toMatchObject({
    status: 429,
    body: { message: 'Too many wrong passwords: wait before you try again.' },
  })
  expect(Number(locked.headers.get('retry-after'))).toBeGreaterThan(0)
  expect((await remove(person, { code: '123456', password })).status).toBe(429)
  expect(await statusOf(person.email)).toBe(200)
  service.clock.offsetMs += 600_000
  expect((await enrol(person, { password })).status).toBe(200)
  service.clock.offsetMs = 0
})

test('a refused attempt is recorded in the audit trail without the password that was entered', async () => {
  const person = await newPerson()
  await enrol(person, { password: 'a guess that is wrong' })
  await enrol(person)
  const { body, text } = await service.call('GET', `/v1/workspace/main/audit?actor=${person.id}`, {
    token: owner.session,
  })
  const entity = { type: 'second-factor', name: person.email }
  expect(body).toMatchObject([
    { action: 'CREATE', entity, outcome: 'failure', after: { reason: 'missing password' } },
    { action: 'CREATE', entity, outcome: 'failure', after: { reason: 'wrong password' } },
  ])
  expect(text).not.toContain('a guess')
})
