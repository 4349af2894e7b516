/** The second factor of an account: each code works once and for its own account, and wrong codes lock the login. */
import type { SignedIn } from '@coffer/contract/auth'
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest'
import { type Authenticator, beginTotp, setUpTotp } from '../../../../test/authenticator.ts'
import {
  addUser,
  createToken,
  password,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../test/harness.ts'
import { openRaw, type RawDatabase } from '../../../../test/raw-database.ts'

let service: TestService
let owner: TestUser
let workspaceId: string
let raw: RawDatabase
let people = 0

beforeAll(async () => {
  // Start in the middle of a TOTP step, so that a code does not expire between reading and sending it.
  vi.useFakeTimers({ toFake: ['Date'], now: Math.floor(Date.now() / 30_000) * 30_000 + 15_000 })
  service = await startService()
  owner = await registerOwner(service)
  const { body } = await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: owner.session })
  workspaceId = body.id
  raw = await openRaw(service)
})
afterAll(async () => {
  vi.useRealTimers()
  await raw.close()
  await service.stop()
})
afterEach(() => {
  service.clock.offsetMs = 0
})

const newPerson = () => addUser(service, `person${++people}@example.com`, { workspaceId, role: 'member' })
const login = (email: string, more: Record<string, unknown> = {}) =>
  service.call<SignedIn & { message?: string }>('POST', '/v1/auth/login', { body: { email, password, ...more } })
const statusOf = async (email: string, more: Record<string, unknown> = {}) => (await login(email, more)).status
const confirm = (user: TestUser, code: string) =>
  service.call<{ message: string }>('POST', '/v1/me/mfa/totp/confirm', { token: user.session, body: { code } })
const remove = (user: TestUser, code: string) =>
  service.call<{ message: string }>('DELETE', '/v1/me/mfa/totp', { token: user.session, body: { code, password } })
const hasMfa = async (user: TestUser) =>
  (await service.call<{ mfa: boolean }>('GET', '/v1/me', { token: user.session })).body.mfa

async function withApp(): Promise<{ person: TestUser; app: Authenticator }> {
  const person = await newPerson()
  return { person, app: await setUpTotp(service, person.session) }
}

const needed =
  'code: is required. The password is right, but this account also needs a code from its authenticator app.'
const wrong = 'code: is wrong or was already used.'

test('a login needs a code once the authenticator app is confirmed, and not before', async () => {
  const person = await newPerson()
  const app = await beginTotp(service, person.session)
  expect(await hasMfa(person)).toBe(false)
  expect(await statusOf(person.email)).toBe(200)
  const { body } = await confirm(person, app.code())
  expect(body).toEqual({ recoveryCodes: expect.any(Array) })
  expect(await hasMfa(person)).toBe(true)
  expect(await login(person.email)).toMatchObject({ status: 401, body: { message: needed } })
  expect(await login(person.email, { code: app.freshCode() })).toMatchObject({
    status: 200,
    body: { user: { id: person.id } },
  })
})

test('the otpauth URI contains the secret', async () => {
  const person = await newPerson()
  const { body } = await service.call<{ secret: string; otpauthUri: string }>('POST', '/v1/me/mfa/totp', {
    token: person.session,
    body: { password },
  })
  expect(body.secret).toMatch(/^[A-Z2-7]{32}$/)
  const query = `secret=${body.secret}&issuer=Coffer&algorithm=SHA1&digits=6&period=30`
  expect(body.otpauthUri).toBe(`otpauth://totp/Coffer:${encodeURIComponent(person.email)}?${query}`)
})

test('a login reveals that a code is needed only after the right password', async () => {
  const { person, app } = await withApp()
  for (const more of [{}, { code: app.freshCode() }, { code: '000000' }, { code: app.recoveryCodes[0] }]) {
    const refused = await login(person.email, { password: 'a wrong password', ...more })
    expect(refused).toMatchObject({ status: 401, body: { message: 'The email address or the password is wrong.' } })
  }
  // The failed logins consumed none of the codes.
  expect(await statusOf(person.email, { code: app.code() })).toBe(200)
  expect(await statusOf(person.email, { code: app.recoveryCodes[0] })).toBe(200)
})

test('a code works once, including the one that confirmed the set-up', async () => {
  const person = await newPerson()
  const app = await beginTotp(service, person.session)
  const first = app.code()
  expect((await confirm(person, first)).status).toBe(200)
  expect(await login(person.email, { code: first })).toMatchObject({ status: 401, body: { message: wrong } })
  const code = app.freshCode()
  expect(await statusOf(person.email, { code })).toBe(200)
  expect(await statusOf(person.email, { code })).toBe(401)
  expect((await remove(person, code)).status).toBe(403)
  // A code of an earlier step than the last used one is refused too.
  expect(await statusOf(person.email, { code: app.code(-1) })).toBe(401)
  expect(await statusOf(person.email, { code: app.code(1) })).toBe(200)
})

test.each([
  [-2, 401],
  [-1, 200],
  [0, 200],
  [1, 200],
  [2, 401],
])('a clock that is %i steps off gets %i', async (drift, status) => {
  const { person, app } = await withApp()
  service.clock.offsetMs += 120_000
  expect(await statusOf(person.email, { code: app.code(drift) })).toBe(status)
})

test('a code may contain a space', async () => {
  const { person, app } = await withApp()
  const code = app.freshCode()
  expect(await statusOf(person.email, { code: `${code.slice(0, 3)} ${code.slice(3)}` })).toBe(200)
})

test('each of the ten recovery codes works for one login, in any spelling', async () => {
  const { person, app } = await withApp()
  expect(app.recoveryCodes).toHaveLength(10)
  expect(new Set(app.recoveryCodes).size).toBe(10)
  for (const [index, code] of app.recoveryCodes.entries()) {
    expect(code).toMatch(/^[B-DF-HJ-NP-TV-XZ]{4}-[B-DF-HJ-NP-TV-XZ]{4}-[B-DF-HJ-NP-TV-XZ]{4}$/)
    const spellings = [code, code.toLowerCase(), code.replaceAll('-', ''), ` ${code.replaceAll('-', ' ')} `]
    expect(await statusOf(person.email, { code: spellings[index % spellings.length] }), code).toBe(200)
    expect(await statusOf(person.email, { code }), code).toBe(401)
  }
})

test('the codes of one person do not work for another', async () => {
  const [one, other] = [await withApp(), await withApp()]
  service.clock.offsetMs += 60_000
  expect(await statusOf(one.person.email, { code: other.app.code() })).toBe(401)
  expect(await statusOf(one.person.email, { code: other.app.recoveryCodes[0] })).toBe(401)
  expect(await statusOf(other.person.email, { code: other.app.code() })).toBe(200)
})

test('10 wrong codes lock the login with 429, also for the right code; missing codes are not counted', async () => {
  const { person, app } = await withApp()
  for (let tries = 0; tries < 15; tries++) expect(await statusOf(person.email)).toBe(401)
  for (let tries = 0; tries < 10; tries++) expect(await statusOf(person.email, { code: 'guess' })).toBe(401)
  expect(await statusOf(person.email, { code: app.freshCode() })).toBe(429)
  service.clock.offsetMs += 600_000
  expect(await statusOf(person.email, { code: app.code() })).toBe(200)
})

test('a code is ignored for an account without a second factor', async () => {
  const person = await newPerson()
  expect(await statusOf(person.email, { code: '123456' })).toBe(200)
})

test('the second factor is removed with a code of the app or a recovery code, which invalidates all its codes', async () => {
  const { person, app } = await withApp()
  expect(await remove(person, '000000')).toMatchObject({ status: 403, body: { message: wrong } })
  expect(await hasMfa(person)).toBe(true)
  expect((await remove(person, app.freshCode())).body).toEqual({ success: true })
  expect(await hasMfa(person)).toBe(false)
  expect(await statusOf(person.email)).toBe(200)
  expect((await remove(person, app.freshCode())).status).toBe(404)

  const next = await setUpTotp(service, person.session)
  expect(await statusOf(person.email, { code: app.recoveryCodes[0] })).toBe(401)
  expect(await statusOf(person.email, { code: app.freshCode() })).toBe(401)
  expect((await remove(person, next.recoveryCodes[0] ?? '')).status).toBe(200)
  expect(await raw.query('select * from recovery_code where totp_id not in (select id from totp)')).toEqual([])
})

test('10 wrong codes lock the removal with 429, but not the login', async () => {
  const { person, app } = await withApp()
  for (let tries = 0; tries < 10; tries++) expect((await remove(person, 'guess')).status).toBe(403)
  expect((await remove(person, app.recoveryCodes[0] ?? '')).status).toBe(429)
  expect(await statusOf(person.email, { code: app.recoveryCodes[0] })).toBe(200)
})

test('10 wrong codes lock the confirmation with 429, also for the right code; each is recorded', async () => {
  const person = await newPerson()
  for (let tries = 0; tries < 11; tries++) expect((await confirm(person, '123456')).status).toBe(409)
  const app = await beginTotp(service, person.session)
  for (let tries = 0; tries < 10; tries++) expect((await confirm(person, 'guess')).status).toBe(400)
  expect(await confirm(person, app.code())).toMatchObject({
    status: 429,
    body: { message: 'Too many wrong codes: wait before you try again.' },
  })
  expect(await hasMfa(person)).toBe(false)
  const { body: entries } = await service.call<object[]>(
    'GET',
    `/v1/workspace/main/audit?entity=second-factor&actor=${person.id}&action=UPDATE`,
    { token: owner.session },
  )
  const failure = { outcome: 'failure', after: { reason: 'wrong code' } }
  expect(entries).toMatchObject(Array.from({ length: 10 }, () => failure))
  service.clock.offsetMs += 600_000
  expect((await confirm(person, app.code())).status).toBe(200)
})

test('an unconfirmed set-up is replaced by the next one; a confirmed one is not', async () => {
  const person = await newPerson()
  const abandoned = await beginTotp(service, person.session)
  const app = await beginTotp(service, person.session)
  expect(await confirm(person, abandoned.code())).toMatchObject({
    status: 400,
    body: { message: expect.stringMatching(/^code: is not the one that the app shows now/) },
  })
  expect((await confirm(person, app.code())).status).toBe(200)
  expect((await confirm(person, app.freshCode())).status).toBe(409)
  const again = { token: person.session, body: { password } }
  expect((await service.call('POST', '/v1/me/mfa/totp', again)).status).toBe(409)
})

test('confirming and removing are refused without a set-up', async () => {
  const person = await newPerson()
  expect((await confirm(person, '123456')).status).toBe(409)
  expect((await remove(person, '123456')).status).toBe(404)
})

test.each([
  ['no code', {}, 'code: is required.'],
  ['an empty code', { code: '' }, 'code: must not be empty.'],
  ['a number', { code: 123456 }, 'code: must be a string.'],
  ['a long code', { code: '1'.repeat(65) }, 'code: must have 64 characters or fewer.'],
  ['an unknown field', { code: '123456', force: true }, 'force: is not a known field.'],
])('refuses %s', async (_what, body, message) => {
  const { person, app } = await withApp()
  const answers = [
    await service.call('POST', '/v1/me/mfa/totp/confirm', { token: person.session, body }),
    await service.call('DELETE', '/v1/me/mfa/totp', { token: person.session, body }),
  ]
  for (const answer of answers) expect(answer).toMatchObject({ status: 400, body: { message } })
  expect(await statusOf(person.email, { code: app.recoveryCodes[0] })).toBe(200)
})

test('a token cannot change the second factor of its creator', async () => {
  const { token } = await createToken(service, owner.session)
  const message = 'Only a signed-in person can do this, not a token.'
  const refused = { status: 403, body: { message } }
  const body = { code: '123456' }
  expect(await service.call('POST', '/v1/me/mfa/totp', { token })).toMatchObject(refused)
  expect(await service.call('POST', '/v1/me/mfa/totp/confirm', { token, body })).toMatchObject(refused)
  expect(await service.call('DELETE', '/v1/me/mfa/totp', { token, body })).toMatchObject(refused)
})

test('the audit trail records set-up, use and removal of a second factor, and none of the codes', async () => {
  const { person, app } = await withApp()
  const code = app.freshCode()
  await login(person.email)
  await login(person.email, { code: '000000' })
  await login(person.email, { code })
  await login(person.email, { code: app.recoveryCodes[0] })
  await remove(person, '000000')
  await remove(person, app.recoveryCodes[1] ?? '')
  const { body, text } = await service.call<{ action: string; entity: { type: string } }[]>(
    'GET',
    `/v1/workspace/main/audit?q=${person.email}`,
    { token: owner.session },
  )
  const actor = { type: 'user', id: person.id }
  const entity = { type: 'second-factor', name: person.email }
  expect(body).toMatchObject([
    { action: 'DELETE', entity, actor, outcome: 'success', before: { secondFactor: 'recovery code' } },
    { action: 'DELETE', entity, actor, outcome: 'failure', after: { reason: 'wrong code' } },
    { action: 'LOGIN', actor, after: { secondFactor: 'recovery code' }, ip: '127.0.0.1' },
    { action: 'LOGIN', actor, after: { secondFactor: 'authenticator app' } },
    { action: 'LOGIN', actor: { type: 'anonymous' }, outcome: 'failure', after: { reason: 'wrong code' } },
    { action: 'LOGIN', actor: { type: 'anonymous' }, outcome: 'failure', after: { reason: 'missing code' } },
    { action: 'UPDATE', entity, actor, after: { isConfirmed: true } },
    { action: 'CREATE', entity, actor, after: { isConfirmed: false } },
  ])
  // A six-digit code may occur in an id or a hash by chance.
  const trail = text.replace(/\b[0-9a-f]{64}\b|\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/g, '')
  for (const secret of [app.secret, code, ...app.recoveryCodes]) expect(trail).not.toContain(secret)
})
