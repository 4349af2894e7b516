/** Requests without a credential create a bounded number of rows, however many clients send them. */
import type { DeviceCode } from '@coffer/contract/device'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { addUser, password, registerOwner, startService, type TestService } from '../../../../../test/harness.ts'
import { openRaw, type RawDatabase } from '../../../../../test/raw-database.ts'
import { systemChain } from '../../../domain/audit/event.ts'
import { cleanUp } from '../../../jobs/cleanup.ts'

let service: TestService
let raw: RawDatabase
beforeAll(async () => {
  service = await startService({ COFFER_TRUSTED_PROXIES: '127.0.0.1' })
  raw = await openRaw(service)
  await registerOwner(service)
})
afterAll(async () => {
  await raw.close()
  await service.stop()
})
// Starts a new rate window for each test.
beforeEach(async () => {
  service.clock.offsetMs += 3_600_000
  await cleanUp(service.app.services)
})

const addressOf = (index: number) => `198.${18 + (index >> 16)}.${(index >> 8) & 255}.${index & 255}`
const post = <Body>(path: string, body: object, address: string) =>
  service.call<Body>('POST', path, { body, headers: { 'x-forwarded-for': address } })
const logIn = (email: string, address: string, typed = 'wrong password here') =>
  post('/v1/auth/login', { email, password: typed }, address)
const askForCode = (address: string) => post<DeviceCode>('/v1/auth/device/code', { clientId: 'cli' }, address)

const count = async (text: string, ...values: string[]) => Number((await raw.query(text, values))[0]?.n)
const countRows = (table: string) => count(`select count(*) as n from ${table}`)
const countEntries = () =>
  count(
    `select (select count(*) from audit_entry where chain_id = ?)
       + (select coalesce(sum(last_sequence - first_sequence + 1), 0) from audit_batch where chain_id = ?) as n`,
    systemChain,
    systemChain,
  )
/** The counts of events without an entry of their own. */
async function listUnrecorded(): Promise<number[]> {
  const rows = await raw.query(
    `select details from audit_entry where chain_id = ? and details like '%unrecorded%' order by sequence`,
    [systemChain],
  )
  return rows.map(({ details }) => JSON.parse(String(details)).after.unrecorded)
}

test('failed logins to unknown addresses leave 50 entries, then only a count', async () => {
  const before = await countEntries()
  const attempts = Array.from({ length: 80 }, (_, index) => index)
  for (let at = 0; at < attempts.length; at += 8) {
    const answers = await Promise.all(
      attempts.slice(at, at + 8).map((index) => logIn(`nobody${index}@example.com`, addressOf(index))),
    )
    for (const { status } of answers) expect(status).toBe(401)
  }
  expect((await countEntries()) - before).toBe(50)
  service.clock.offsetMs += 600_000
  await cleanUp(service.app.services)
  expect((await countEntries()) - before).toBe(51)
  expect((await listUnrecorded()).at(-1)).toBe(30)
  expect(await countRows('login_attempt')).toBe(0)
})

test('failed logins from one network leave five entries', async () => {
  const before = await countEntries()
  for (let index = 0; index < 12; index++) await logIn(`one${index}@example.com`, '203.0.113.7')
  expect((await countEntries()) - before).toBe(5)
})

test('failed logins to an account are recorded up to its lock, whatever other clients do', async () => {
  await addUser(service, 'person@example.com')
  for (let index = 0; index < 8; index++) await logIn(`two${index}@example.com`, '203.0.113.8')
  const before = await countEntries()
  for (let index = 0; index < 14; index++) await logIn('person@example.com', '203.0.113.8')
  expect((await countEntries()) - before).toBe(10)
})

test('a failed login from a new network leaves one row', async () => {
  const before = await countRows('login_attempt')
  await logIn('somebody@example.com', '203.0.113.9')
  expect((await countRows('login_attempt')) - before).toBe(1)
})

test('counters of failed logins are bounded, and eviction never removes a lock', async () => {
  for (let index = 0; index < 10; index++) await logIn('owner@example.com', '203.0.113.10')
  const hashes = Array.from({ length: 11_500 }, (_, index) => Buffer.from(`made up ${index}`.padEnd(32)))
  const startedAt = service.app.services.now()
  await raw.query('begin')
  for (const hash of hashes) {
    await raw.query('insert into login_attempt (address_hash, window_started_at, failures) values (?, ?, 1)', [
      hash,
      startedAt,
    ])
  }
  await raw.query('commit')
  for (const index of [1, 2]) await logIn(`three${index}@example.com`, '203.0.113.10')
  expect(await countRows('login_attempt')).toBeLessThanOrEqual(11_000)
  expect((await logIn('owner@example.com', '203.0.113.10', password)).status).toBe(429)
})

test('pending device codes are limited to 50 per network and 1,000 overall, and the network with most is evicted first', async () => {
  const before = await countEntries()
  const own = await askForCode('203.0.113.20')
  for (let index = 0; index < 55; index++) {
    const { status, headers } = await askForCode('203.0.113.21')
    expect(status).toBe(index < 50 ? 200 : 429)
    if (status === 429) expect(Number(headers.get('retry-after'))).toBeGreaterThan(0)
  }
  for (let index = 0; index < 1_100; index += 50) {
    await Promise.all(Array.from({ length: 50 }, (_, at) => askForCode(addressOf(Math.floor((index + at) / 40)))))
  }
  expect(await countRows('device_login')).toBe(1_000)
  expect((await countEntries()) - before).toBe(50)
  const { deviceCode } = own.body
  const poll = await post<{ error: string }>('/v1/auth/device/token', { clientId: 'cli', deviceCode }, '203.0.113.20')
  expect(poll.body.error).toBe('authorization_pending')
})
