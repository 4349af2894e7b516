/** The approval of a device: only from a browser session, with few guesses, and it ends with the session. */
import type { SignedIn } from '@coffer/contract/auth'
import type { DeviceCode } from '@coffer/contract/device'
import type { Session } from '@coffer/contract/me'
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest'
import { setUpTotp } from '../../../../test/authenticator.ts'
import {
  type Answer,
  addUser,
  createToken,
  exchange,
  password,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../test/harness.ts'
import { openRaw, type RawDatabase } from '../../../../test/raw-database.ts'
import { inQuietTransaction } from '../../domain/transaction.ts'

let service: TestService
let owner: TestUser
let workspaceId: string
let raw: RawDatabase
let people = 0

beforeAll(async () => {
  vi.useFakeTimers({ toFake: ['Date'] })
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

const clientId = 'coffer-cli'
const newPerson = () => addUser(service, `person${++people}@example.com`, { workspaceId, role: 'member' })
const begin = async () => (await service.call<DeviceCode>('POST', '/v1/auth/device/code', { body: { clientId } })).body
type Polled = { accessToken: string; error?: string }
const poll = (deviceCode: string) =>
  service.call<Polled>('POST', '/v1/auth/device/token', { body: { clientId, deviceCode } })
const answer = (user: { session: string }, userCode: string, approve = true) =>
  service.call('POST', '/v1/auth/device/approve', { token: user.session, body: { userCode, approve } })
const statusOf = async (token: string) => (await service.call('GET', '/v1/me', { token })).status
const refusal = ({ status, text }: Answer) => [status, text]
const refused = (word: string) => [400, `{"error":"${word}"}`]

async function signIn(user: { session: string }): Promise<string> {
  const { deviceCode, userCode } = await begin()
  await answer(user, userCode)
  return (await poll(deviceCode)).body.accessToken
}

test('a person sees the client, its address and its user agent before approving', async () => {
  const { userCode } = await begin()
  const look = (token: string, code: string) =>
    service.call('POST', '/v1/auth/device/lookup', { token, body: { userCode: code } })
  const { status, body } = await look(owner.session, userCode.toLowerCase())
  expect(status).toBe(200)
  expect(body).toMatchObject({ clientId, ip: '127.0.0.1', userAgent: expect.any(String) })
  expect((await look(owner.session, 'BCDF-GHJK')).status).toBe(404)
  await answer(owner, userCode)
  expect((await look(owner.session, userCode)).status).toBe(404)
})

test('a person may enter 10 wrong codes in 10 minutes; right codes do not count, and other people are not locked', async () => {
  const [guesser, other] = [await newPerson(), await newPerson()]
  for (let tries = 0; tries < 15; tries++) expect((await answer(guesser, (await begin()).userCode)).status).toBe(200)
  const guesses = await Promise.all(Array.from({ length: 30 }, () => answer(guesser, 'BCDF-GHJK')))
  expect(guesses.filter(({ status }) => status === 404)).toHaveLength(10)
  expect(guesses.filter(({ status }) => status === 429)).toHaveLength(20)
  const { userCode } = await begin()
  const locked = await answer(guesser, userCode)
  expect(locked.status).toBe(429)
  expect(Number(locked.headers.get('retry-after'))).toBeGreaterThan(500)
  const look = { token: guesser.session, body: { userCode } }
  expect((await service.call('POST', '/v1/auth/device/lookup', look)).status).toBe(429)
  expect((await answer(other, userCode)).status).toBe(200)
  service.clock.offsetMs = 601_000
  expect((await answer(guesser, (await begin()).userCode)).status).toBe(200)
})

test('only a browser session approves: no command-line session, no token, no JWT', async () => {
  const { deviceCode, userCode } = await begin()
  const { token } = await createToken(service, owner.session)
  const cli = await signIn(owner)
  for (const session of [cli, token, await exchange(service, token)]) {
    expect((await answer({ session }, userCode)).status).toBe(403)
  }
  expect((await answer({ session: 'junk' }, userCode)).status).toBe(401)
  expect((await poll(deviceCode)).body.error).toBe('authorization_pending')
})

test('an approved code that was not collected ends with a password change and with "all other sessions"', async () => {
  const person = await newPerson()
  const [first, second] = [await begin(), await begin()]
  await answer(person, first.userCode)
  expect((await service.call('DELETE', '/v1/me/session', { token: person.session })).status).toBe(200)
  expect(refusal(await poll(first.deviceCode))).toEqual(refused('expired_token'))
  await answer(person, second.userCode)
  const body = { currentPassword: password, newPassword: 'another long password' }
  expect((await service.call('PUT', '/v1/me/password', { token: person.session, body })).status).toBe(200)
  expect(refusal(await poll(second.deviceCode))).toEqual(refused('expired_token'))
})

type Ending = (session: string, other: string) => Promise<unknown>
const idOf = async (token: string) =>
  (await service.call<Session[]>('GET', '/v1/me/session', { token })).body.find(({ current }) => current)?.id

test.each<[string, Ending]>([
  ['logout', (token) => service.call('POST', '/v1/auth/logout', { token })],
  [
    'its removal from the list of sessions',
    async (session, token) => service.call('DELETE', `/v1/me/session/${await idOf(session)}`, { token }),
  ],
  ['a revocation of all other sessions', (_session, token) => service.call('DELETE', '/v1/me/session', { token })],
  [
    'a password change in another session',
    (_session, token) => {
      const body = { currentPassword: password, newPassword: 'another long password' }
      return service.call('PUT', '/v1/me/password', { token, body })
    },
  ],
  ['its maximum lifetime', async (session) => endsAfter(session, 60_000)],
])('a session that ends takes its approved, uncollected codes along: by %s', async (_what, end) => {
  const person = await newPerson()
  const { body } = await service.call<SignedIn>('POST', '/v1/auth/login', { body: { email: person.email, password } })
  const [mine, kept] = [await begin(), await begin()]
  expect((await answer({ session: body.accessToken }, mine.userCode)).status).toBe(200)
  await end(body.accessToken, person.session)
  expect(await statusOf(body.accessToken)).toBe(401)
  expect(refusal(await poll(mine.deviceCode))).toEqual(refused('expired_token'))
  // Another session of the same person can still approve.
  expect((await answer(person, kept.userCode)).status).toBe(200)
  expect((await poll(kept.deviceCode)).status).toBe(200)
})

/** Shortens the lifetime of the session with a valid signature, and moves the clock past it. */
async function endsAfter(session: string, ms: number): Promise<void> {
  const { sessions } = service.app.services.store
  const found = await sessions.findByValue(session)
  if (!found) throw new Error('the session is missing')
  const expiresAt = service.app.services.now() + ms
  await inQuietTransaction(service.app.services, 'test', ({ sessions }) =>
    sessions.rehash({ ...found, expiresAt }, session),
  )
  await raw.query('update session set expires_at = ? where id = ?', [expiresAt, found.id])
  service.app.services.credentials.clear()
  service.clock.offsetMs += ms + 1_000
}

test('with a second factor, the password alone is refused, but an approval signs the device in', async () => {
  const person = await newPerson()
  await setUpTotp(service, person.session)
  const body = { email: person.email, password }
  expect((await service.call<SignedIn>('POST', '/v1/auth/login', { body })).status).toBe(401)
  expect(await statusOf(await signIn(person))).toBe(200)
})
