/** Failed logins are limited for everybody, and the limit cannot be used to lock a person out. */
import type { SignedIn } from '@coffer/contract/auth'
import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import {
  type Answer,
  addUser,
  password,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../../test/harness.ts'
import { holdOnce } from '../../../../../test/hold.ts'
import { openRaw } from '../../../../../test/raw-database.ts'
import { cleanUp } from '../../../jobs/cleanup.ts'

let service: TestService
let person: TestUser
let people = 0
const [home, elsewhere] = ['203.0.113.7', '198.51.100.9']

beforeAll(async () => {
  vi.useFakeTimers({ toFake: ['Date'] })
  service = await startService({ COFFER_TRUSTED_PROXIES: '127.0.0.1' })
  await registerOwner(service)
})
afterAll(async () => {
  vi.useRealTimers()
  await service.stop()
})
/** Creates a person who has signed in at home. */
beforeEach(async () => {
  service.clock.offsetMs = 0
  person = await addUser(service, `person${++people}@example.com`)
  expect((await logIn(person.email, password, home)).status).toBe(200)
})

const logIn = (email: string, secret: string, ip: string) =>
  service.call<SignedIn>('POST', '/v1/auth/login', {
    body: { email, password: secret },
    headers: { 'x-forwarded-for': ip },
  })
const visible = ({ status, headers, text }: Answer) => {
  const changing = new Set(['date', 'x-request-id', 'ratelimit-remaining', 'ratelimit-reset'])
  return { status, text, headers: [...headers].filter(([name]) => !changing.has(name)) }
}

async function hammer(email: string, ip = elsewhere): Promise<void> {
  for (let tries = 0; tries < 10; tries++) expect((await logIn(email, `wrong ${tries}`, ip)).status).toBe(401)
  expect((await logIn(email, password, ip)).status).toBe(429)
}

test('a password changed during its check is refused', async () => {
  const looking = holdOnce(service.app.services.store.accounts, 'findByEmail')
  const late = logIn(person.email, password, home)
  await looking.isDone
  const change = { currentPassword: password, newPassword: 'another long password' }
  expect((await service.call('PUT', '/v1/me/password', { token: person.session, body: change })).status).toBe(200)
  looking.release()
  expect((await late).status).toBe(401)
})

test('a person can sign in from a known network while others exhaust the limit of the account', async () => {
  for (let windows = 0; windows < 3; windows++) {
    await hammer(person.email)
    expect((await logIn(person.email, password, home)).status).toBe(200)
    // The others stay locked out.
    expect((await logIn(person.email, password, elsewhere)).status).toBe(429)
    service.clock.offsetMs += 600_000
  }
})

test('a refused attempt does not extend the lock', async () => {
  await hammer(person.email)
  service.clock.offsetMs = 599_999
  for (let tries = 0; tries < 30; tries++) expect((await logIn(person.email, 'wrong', elsewhere)).status).toBe(429)
  service.clock.offsetMs = 600_000
  expect((await logIn(person.email, password, elsewhere)).status).toBe(200)
})

test('a clock that was ahead and is set back extends no lock', async () => {
  service.clock.offsetMs = 24 * 3_600_000
  await hammer(person.email)
  service.clock.offsetMs = 0
  expect((await logIn(person.email, password, elsewhere)).status).toBe(200)
})

test('a node whose clock is slightly behind does not reset the count', async () => {
  await hammer(person.email)
  service.clock.offsetMs = -2_000
  expect((await logIn(person.email, password, elsewhere)).status).toBe(429)
})

test('a locked-out client cannot distinguish an account from a missing one, on any network', async () => {
  const nobody = `nobody${people}@example.com`
  await hammer(person.email)
  await hammer(nobody)
  const refused = visible(await logIn(nobody, password, elsewhere))
  expect(refused.status).toBe(429)
  expect(visible(await logIn(person.email, password, elsewhere))).toEqual(refused)
  for (const email of [person.email, nobody]) expect(visible(await logIn(email, 'wrong', home))).toEqual(refused)
})

test('a known network has its own limit of ten failures', async () => {
  await hammer(person.email)
  for (let tries = 0; tries < 10; tries++) await logIn(person.email, `wrong ${tries}`, home)
  expect((await logIn(person.email, password, home)).status).toBe(429)
})

test('ten failures at home lock the account everywhere, home included', async () => {
  await hammer(person.email, home)
  expect((await logIn(person.email, password, elsewhere)).status).toBe(429)
})

test('the network of one person is not known for another', async () => {
  const other = await addUser(service, `other${people}@example.com`)
  await hammer(other.email)
  expect((await logIn(other.email, password, home)).status).toBe(429)
})

test('all addresses of one IPv6 network count as one', async () => {
  expect((await logIn(person.email, password, '2001:db8:1:2::1')).status).toBe(200)
  await hammer(person.email)
  expect((await logIn(person.email, password, '2001:db8:1:2:3:4:5:6')).status).toBe(200)
  expect((await logIn(person.email, password, '2001:db8:1:3::1')).status).toBe(429)
})

test('a known network is forgotten after 90 days, and stored as a hash until then', async () => {
  const raw = await openRaw(service)
  await cleanUp(service.app.services)
  const rows = await raw.query('select * from login_address')
  expect(rows.length).toBeGreaterThan(0)
  for (const row of rows) expect(row.hash).toHaveLength(32)
  service.clock.offsetMs = 91 * 24 * 3_600_000
  await cleanUp(service.app.services)
  expect(await raw.query('select * from login_address')).toEqual([])
  await raw.close()
  await hammer(person.email)
  expect((await logIn(person.email, password, home)).status).toBe(429)
})
