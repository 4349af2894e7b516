import type { SignedIn } from '@coffer/contract/auth'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import {
  addUser,
  createToken,
  exchange,
  password,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../../test/harness.ts'
import { setupCode } from '../../../../../test/setup-code.ts'

let service: TestService
let owner: TestUser

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service, 'Owner@Example.com')
})
afterAll(() => service.stop())

const login = (body: Record<string, unknown>) => service.call<SignedIn>('POST', '/v1/auth/login', { body })
const me = (headers: Record<string, string>) => service.call('GET', '/v1/me', { headers })

/** The cookie that a sign-in set, as a browser would send it back. */
function cookieOf(headers: Headers): string {
  return (headers.get('set-cookie') ?? '').split(';')[0] ?? ''
}

test('the email address is stored in lower case and compared case-insensitively', async () => {
  const { body, status } = await login({ email: 'OWNER@example.COM', password })
  expect(status).toBe(200)
  expect(body).toMatchObject({
    expiresIn: 43_200,
    tokenType: 'Bearer',
    user: { id: owner.id, email: 'owner@example.com' },
  })
})

test('a second account is refused while sign-up is by invite, even with an unknown invite', async () => {
  const body = { email: 'second@example.com', name: 'Second', password }
  expect((await service.call('POST', '/v1/auth/register', { body })).status).toBe(403)
  const invited = await service.call('POST', '/v1/auth/register', { body: { ...body, inviteToken: 'made-up' } })
  expect(invited.status).toBe(403)
})

test('with open sign-up, several concurrent first accounts are all created and one owns the first workspace', async () => {
  const open = await startService({ COFFER_SIGNUP: 'open' })
  const made = await Promise.all(
    ['a', 'b', 'c', 'd'].map((name) =>
      open.call<SignedIn>('POST', '/v1/auth/register', {
        body: { email: `${name}@example.com`, name, password, setupCode },
      }),
    ),
  )
  expect(made.map(({ status }) => status)).toEqual([201, 201, 201, 201])
  const workspaces = await Promise.all(
    made.map(async ({ body }) => (await open.call('GET', '/v1/workspace', { token: body.accessToken })).body),
  )
  expect(workspaces.flat()).toMatchObject([{ slug: 'main', isOwner: true }])
  await open.stop()
})

test('with open sign-up, anyone gets an account, with a workspace on request', async () => {
  const open = await startService({ COFFER_SIGNUP: 'open' })
  const register = (body: Record<string, unknown>) =>
    open.call<SignedIn>('POST', '/v1/auth/register', { body: { name: 'N', password, ...body } })
  await registerOwner(open)
  const plain = await register({ email: 'plain@example.com' })
  expect(plain.status).toBe(201)
  expect((await open.call('GET', '/v1/workspace', { token: plain.body.accessToken })).body).toEqual([])
  const founder = await register({ email: 'founder@example.com', workspace: { name: 'Mine', slug: 'mine' } })
  const { body } = await open.call('GET', '/v1/workspace', { token: founder.body.accessToken })
  expect(body).toMatchObject([{ slug: 'mine', isOwner: true }])
  expect((await register({ email: 'PLAIN@example.com' })).status).toBe(409)
  const taken = await register({ email: 'late@example.com', workspace: { name: 'Mine', slug: 'mine' } })
  expect(taken).toMatchObject({ status: 409, body: { message: 'The slug "mine" is taken.' } })
  expect((await open.call('POST', '/v1/auth/login', { body: { email: 'late@example.com', password } })).status).toBe(
    401,
  )
  await open.stop()
})

test.each([
  ['a short password', { password: 'eleven char' }, 'password: must have 12 characters or more.'],
  ['a password of 257 characters', { password: 'x'.repeat(257) }, 'password: must have 256 characters or fewer.'],
  ['no email address', { email: undefined }, 'email: is required.'],
  ['an email address without @', { email: 'owner' }, 'email: has characters or a format that is not allowed.'],
  ...['\u200b', '\u202e', '\u00ad', '\u2066', '\u0085'].map((unseen): [string, object, string] => [
    `an email address with ${JSON.stringify(unseen)}`,
    { email: `owner@example.com${unseen}` },
    'email: has characters or a format that is not allowed.',
  ]),
  [
    'a reserved workspace slug',
    { workspace: { name: 'x', slug: 'team' } },
    'workspace.slug: "team" is a reserved word.',
  ],
  ['an unknown field', { admin: true }, 'admin: is not a known field.'],
])('registration refuses %s', async (_what, change, message) => {
  const body = { email: 'new@example.com', name: 'New', password, ...change }
  expect(await service.call('POST', '/v1/auth/register', { body })).toMatchObject({ status: 400, body: { message } })
})

test('the session cookie is HttpOnly, SameSite=Strict and bound to this host', async () => {
  const { headers } = await login({ email: owner.email, password })
  const cookie = headers.get('set-cookie')
  expect(cookie).toMatch(
    /^__Host-coffer_session=cof_sess_\w+; Path=\/; Max-Age=2592000; HttpOnly; SameSite=Strict; Secure$/,
  )
})

test('a session cookie is accepted only from the same origin, and never beside an Authorization header', async () => {
  const { headers } = await login({ email: owner.email, password })
  const cookie = cookieOf(headers)
  const sameOrigin = { cookie, 'sec-fetch-site': 'same-origin' }
  expect((await me(sameOrigin)).status).toBe(200)
  expect((await me({ cookie, origin: 'http://localhost:8080' })).status).toBe(200)
  expect((await me({ cookie })).status).toBe(401)
  expect((await me({ cookie, origin: 'https://evil.example.com' })).status).toBe(401)
  for (const site of ['cross-site', 'same-site', 'none']) {
    expect((await me({ cookie, 'sec-fetch-site': site, origin: 'http://localhost:8080' })).status).toBe(401)
  }
  expect((await me({ ...sameOrigin, authorization: 'Bearer junk' })).status).toBe(401)
  expect(
    (await me({ cookie: 'coffer_session=x; __Host-coffer_session=junk', 'sec-fetch-site': 'same-origin' })).status,
  ).toBe(401)
})

test('an API token in a cookie is not a session', async () => {
  const { token } = await createToken(service, owner.session)
  const headers = { cookie: `__Host-coffer_session=${token}`, 'sec-fetch-site': 'same-origin' }
  expect((await me(headers)).status).toBe(401)
})

test('logout ends only this session at once, as bearer token and as cookie', async () => {
  const [ending, staying] = [
    await login({ email: owner.email, password }),
    await login({ email: owner.email, password }),
  ]
  const token = ending.body.accessToken
  const answer = await service.call('POST', '/v1/auth/logout', { token, body: {} })
  expect(answer.body).toEqual({ success: true })
  expect(answer.headers.get('set-cookie')).toMatch(/Max-Age=0/)
  expect((await service.call('GET', '/v1/me', { token })).status).toBe(401)
  expect((await me({ cookie: cookieOf(ending.headers), 'sec-fetch-site': 'same-origin' })).status).toBe(401)
  expect((await service.call('GET', '/v1/me', { token: staying.body.accessToken })).status).toBe(200)
  expect((await service.call('POST', '/v1/auth/cli/logout', { token: staying.body.accessToken })).status).toBe(200)
  expect((await service.call('GET', '/v1/me', { token: staying.body.accessToken })).status).toBe(401)
})

test('the exchange returns a JWT for 900 seconds with the rights of its token', async () => {
  const { token, id } = await createToken(service, owner.session, { permission: 'read' })
  const { body, status } = await service.call('POST', '/v1/auth/exchange', { token })
  expect(status).toBe(200)
  expect(body).toEqual({
    accessToken: expect.stringMatching(/^ey[\w-]+\.[\w-]+\.[\w-]{86}$/),
    expiresIn: 900,
    tokenType: 'Bearer',
  })
  const jwt = await exchange(service, token)
  const who = await service.call('GET', '/v1/me', { token: jwt })
  expect(who.body).toMatchObject({ id: owner.id, credential: { type: 'jwt', permission: 'read' } })
  const write = await service.call('POST', '/v1/workspace/main/team', { token: jwt, body: { name: 'x' } })
  expect(write).toMatchObject({ status: 403, body: { message: 'This credential is read-only.' } })
  const { body: audit } = await service.call('GET', `/v1/workspace/main/audit?entity=${id}&action=exchange`, {
    token: owner.session,
  })
  expect(audit).toMatchObject([{ action: 'EXCHANGE' }, { action: 'EXCHANGE' }])
})

test('a valid session or JWT cannot be exchanged and gets a 403, an invalid one gets a 401', async () => {
  const { id, token } = await createToken(service, owner.session)
  const jwt = await exchange(service, token)
  const ask = (value: string) => service.call('POST', '/v1/auth/exchange', { token: value })
  const refusal = { message: 'Only an API token can be exchanged: use a JWT or a session as it is.' }
  for (const value of [jwt, owner.session]) expect(await ask(value)).toMatchObject({ status: 403, body: refusal })
  for (const value of [`${jwt.slice(0, -4)}AAAA`, `${owner.session.slice(0, -1)}!`, 'eyJ']) {
    expect((await ask(value)).status).toBe(401)
  }
  await service.call('DELETE', `/v1/workspace/main/tokens/${id}`, { token: owner.session })
  for (const value of [jwt, token]) expect((await ask(value)).status).toBe(401)
})

test('the audit trail of each workspace of a person records successful and failed sign-ins, without the password', async () => {
  const [main] = (await service.call<{ id: string }[]>('GET', '/v1/workspace', { token: owner.session })).body
  const person = await addUser(service, 'told@example.com', { workspaceId: main?.id ?? '', role: 'member' })
  await login({ email: person.email, password })
  await login({ email: person.email, password: 'a wrong password' })
  // The response to a wrong password does not wait for the audit entry.
  await vi.waitFor(async () => {
    const path = `/v1/workspace/main/audit?entity=${person.id}`
    const { body, text } = await service.call('GET', path, { token: owner.session })
    expect(body).toMatchObject([
      { action: 'LOGIN', outcome: 'failure', actor: { type: 'anonymous' }, ip: '127.0.0.1' },
      { action: 'LOGIN', outcome: 'success', actor: { type: 'user', id: person.id } },
    ])
    expect(text).not.toContain('a wrong password')
  }, 120_000)
})
