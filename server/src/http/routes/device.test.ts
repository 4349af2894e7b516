/** The login of a device: its codes, polling, the session it gets, and what is stored about it. */
import type { DeviceCode } from '@coffer/contract/device'
import type { Session } from '@coffer/contract/me'
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest'
import {
  type Answer,
  addUser,
  createDatabase,
  engine,
  openService,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../test/harness.ts'
import { openRaw, type RawDatabase } from '../../../../test/raw-database.ts'
import { cleanUp } from '../../jobs/cleanup.ts'
import { countTampered } from '../../store/integrity.ts'

let service: TestService
let owner: TestUser
let workspaceId: string
let raw: RawDatabase
let people = 0

beforeAll(async () => {
  vi.useFakeTimers({ toFake: ['Date'] })
  service = await startService({ COFFER_PUBLIC_URL: 'https://coffer.example.com' })
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
  delete service.clock.fixedAt
})

const clientId = 'coffer-cli'
const newPerson = () => addUser(service, `person${++people}@example.com`, { workspaceId, role: 'member' })
const begin = async (node = service) =>
  (await node.call<DeviceCode>('POST', '/v1/auth/device/code', { body: { clientId } })).body
type Polled = { accessToken: string; error?: string }
const poll = (deviceCode: string, node = service, client = clientId) =>
  node.call<Polled>('POST', '/v1/auth/device/token', { body: { clientId: client, deviceCode } })
const answer = (user: { session: string }, userCode: string, approve = true) =>
  service.call('POST', '/v1/auth/device/approve', { token: user.session, body: { userCode, approve } })
const statusOf = async (token: string) => (await service.call('GET', '/v1/me', { token })).status
const refusal = ({ status, text }: Answer) => [status, text]
const refused = (word: string) => [400, `{"error":"${word}"}`]

test('the device code and the user code have the documented format', async () => {
  const codes = await begin()
  expect(codes).toEqual({
    deviceCode: expect.stringMatching(/^[\w-]{43}$/),
    userCode: expect.stringMatching(/^[B-DF-HJ-NP-TV-XZ]{4}-[B-DF-HJ-NP-TV-XZ]{4}$/),
    verificationUri: 'https://coffer.example.com/device',
    verificationUriComplete: `https://coffer.example.com/device#code=${codes.userCode}`,
    expiresIn: 300,
    interval: 5,
  })
})

test('an approved device gets a command-line session of the person who approved it', async () => {
  const person = await newPerson()
  const { deviceCode, userCode } = await begin()
  expect(refusal(await poll(deviceCode))).toEqual(refused('authorization_pending'))
  expect((await answer(person, userCode)).body).toEqual({ success: true })
  const { status, body } = await poll(deviceCode)
  expect(status).toBe(200)
  expect(body).toEqual({
    accessToken: expect.stringMatching(/^cof_sess_[0-9A-Za-z]{36}$/),
    tokenType: 'Bearer',
    expiresIn: 28_800,
  })
  const me = await service.call('GET', '/v1/me', { token: body.accessToken })
  expect(me.body).toMatchObject({ id: person.id, credential: { type: 'cli', permission: 'read-write' } })
  const { body: sessions } = await service.call<Session[]>('GET', '/v1/me/session', { token: body.accessToken })
  expect(sessions.map(({ type, current }) => [type, current])).toEqual([
    ['cli', true],
    ['browser', false],
  ])
  expect((await service.call('POST', '/v1/auth/cli/logout', { token: body.accessToken, body: {} })).status).toBe(200)
  expect(await statusOf(body.accessToken)).toBe(401)
  expect(await statusOf(person.session)).toBe(200)
})

test('a command-line session expires after 8 hours without use and after 30 days at most', async () => {
  const [idle, used] = [await signIn(owner), await signIn(owner)]
  const hourMs = 3_600_000
  service.clock.offsetMs = 8 * hourMs - 60_000
  expect(await statusOf(used)).toBe(200)
  service.clock.offsetMs = 8 * hourMs + 60_000
  expect([await statusOf(idle), await statusOf(used)]).toEqual([401, 200])
  for (let hours = 12; hours < 30 * 24; hours += 6) {
    service.clock.offsetMs = hours * hourMs
    expect(await statusOf(used), `after ${hours} hours`).toBe(200)
  }
  service.clock.offsetMs = 30 * 24 * hourMs + 1_000
  expect(await statusOf(used)).toBe(401)
})

async function signIn(user: { session: string }): Promise<string> {
  const { deviceCode, userCode } = await begin()
  await answer(user, userCode)
  return (await poll(deviceCode)).body.accessToken
}

test.each([
  (code: string) => code.toLowerCase(),
  (code: string) => code.replace('-', ''),
  (code: string) => ` ${code} `,
])('the user code is accepted in another spelling: %o', async (spell) => {
  const { deviceCode, userCode } = await begin()
  expect((await answer(owner, spell(userCode))).status).toBe(200)
  expect((await poll(deviceCode)).status).toBe(200)
})

test('polling faster than the interval gets slow_down, without a lasting penalty', async () => {
  service.clock.fixedAt = Date.now()
  const { deviceCode, userCode } = await begin()
  const words = async () => (await poll(deviceCode)).body.error
  expect([await words(), await words()]).toEqual(['authorization_pending', 'slow_down'])
  // The interval is five seconds, one of them leeway.
  service.clock.offsetMs = 3_999
  expect(await words()).toBe('slow_down')
  service.clock.offsetMs = 4_000
  expect([await words(), await words()]).toEqual(['authorization_pending', 'slow_down'])
  // An approved device need not wait for the interval.
  await answer(owner, userCode)
  expect((await poll(deviceCode)).status).toBe(200)
})

test('one of 20 concurrent polls of a pending code gets authorization_pending and 19 get slow_down', async () => {
  const { deviceCode } = await begin()
  const answers = await Promise.all(Array.from({ length: 20 }, () => poll(deviceCode)))
  const words = answers.map(({ body }) => body.error)
  expect(words.filter((word) => word === 'authorization_pending')).toHaveLength(1)
  expect(words.filter((word) => word === 'slow_down')).toHaveLength(19)
})

test('a denied device gets access_denied, also on later polls', async () => {
  const { deviceCode, userCode } = await begin()
  expect((await answer(owner, userCode, false)).status).toBe(200)
  expect(refusal(await poll(deviceCode))).toEqual(refused('access_denied'))
  expect((await answer(owner, userCode)).status).toBe(404)
  expect(refusal(await poll(deviceCode))).toEqual(refused('access_denied'))
})

test('a code is collected once, approved or denied once, and only by its own client', async () => {
  const { deviceCode, userCode } = await begin()
  await answer(owner, userCode)
  expect(refusal(await poll(deviceCode, service, 'another-client'))).toEqual(refused('expired_token'))
  expect((await answer(owner, userCode, false)).status).toBe(404)
  expect((await poll(deviceCode)).status).toBe(200)
  expect(refusal(await poll(deviceCode))).toEqual(refused('expired_token'))
  expect((await answer(owner, userCode)).status).toBe(404)
})

test('one of 20 concurrent polls of one approved code wins (on two nodes with PostgreSQL)', async () => {
  const database = await createDatabase()
  const here = await openService(database.settings, database.dataDir)
  // SQLite serves a single process, so both names are the same node.
  const there = engine === 'postgres' ? await openService(database.settings, database.dataDir) : here
  try {
    const { session } = await registerOwner(here)
    const { deviceCode, userCode } = await begin(here)
    const body = { userCode, approve: true }
    const approvals = await Promise.all(
      Array.from({ length: 6 }, (_, at) =>
        (at % 2 ? here : there).call('POST', '/v1/auth/device/approve', { token: session, body }),
      ),
    )
    expect(approvals.filter(({ status }) => status === 200)).toHaveLength(1)
    const answers = await Promise.all(Array.from({ length: 20 }, (_, at) => poll(deviceCode, at % 2 ? here : there)))
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
    const others = answers.filter(({ status }) => status !== 200)
    expect(new Set(others.map(({ text }) => text))).toEqual(new Set(['{"error":"expired_token"}']))
    const { body: sessions } = await here.call<Session[]>('GET', '/v1/me/session', { token: session })
    expect(sessions.filter(({ type }) => type === 'cli')).toHaveLength(1)
  } finally {
    if (there !== here) await there.stop()
    await here.stop()
    await database.drop()
  }
})

/** Everything by which a caller could tell two responses apart. */
const visible = ({ status, headers, text }: Answer) => {
  const changing = new Set(['date', 'x-request-id', 'ratelimit-remaining', 'ratelimit-reset'])
  return { status, text, headers: [...headers].filter(([name]) => !changing.has(name)) }
}

test('a code that expired after 300 seconds gets the same responses as an unknown one', async () => {
  const [waiting, approved] = [await begin(), await begin()]
  await answer(owner, approved.userCode)
  service.clock.offsetMs = 299_000
  expect((await poll(waiting.deviceCode)).body.error).toBe('authorization_pending')
  service.clock.offsetMs = 301_000
  const unknown = await poll('a'.repeat(43))
  expect(refusal(unknown)).toEqual(refused('expired_token'))
  for (const { deviceCode } of [waiting, approved]) expect(visible(await poll(deviceCode))).toEqual(visible(unknown))
  const nobodys = await answer(owner, 'BCDF-GHJK')
  expect(nobodys).toMatchObject({
    status: 404,
    body: { message: 'This code is unknown or has expired: get a new one on the device.' },
  })
  for (const { userCode } of [waiting, approved]) {
    expect(visible(await answer(owner, userCode))).toEqual(visible(nobodys))
  }
})

test('the cleanup removes expired rows and no others', async () => {
  await begin()
  service.clock.offsetMs = 301_000
  const { userCode } = await begin()
  await cleanUp(service.app.services)
  expect(await raw.query('select id from device_login')).toHaveLength(1)
  expect((await answer(owner, userCode)).status).toBe(200)
})

test.each([
  ['/v1/auth/device/code', {}, 'clientId: is required.'],
  ['/v1/auth/device/code', { clientId: '' }, 'clientId: must not be empty.'],
  ['/v1/auth/device/code', { clientId: 'x'.repeat(65) }, 'clientId: must have 64 characters or fewer.'],
  ['/v1/auth/device/code', { clientId, scope: 'all' }, 'scope: is not a known field.'],
  ['/v1/auth/device/token', { clientId }, 'deviceCode: is required.'],
  ['/v1/auth/device/token', { deviceCode: 'x' }, 'clientId: is required.'],
  ['/v1/auth/device/approve', { userCode: 'BCDF-GHJK' }, 'approve: is required.'],
  ['/v1/auth/device/approve', { userCode: 'BCDF-GHJK', approve: 'yes' }, 'approve: must be a boolean.'],
  [
    '/v1/auth/device/approve',
    { userCode: 'x'.repeat(41), approve: true },
    'userCode: must have 40 characters or fewer.',
  ],
])('%s refuses %o', async (path, body, message) => {
  const refusedBody = await service.call('POST', path, { token: owner.session, body })
  expect(refusedBody).toMatchObject({ status: 400, body: { message } })
})

test('the audit trail says who approved which client; neither code is in the database, the log or the trail', async () => {
  const person = await newPerson()
  const { deviceCode, userCode } = await begin()
  await answer(person, userCode)
  const { body } = await poll(deviceCode)
  let dump = ''
  for (const table of await raw.tables()) {
    for (const row of await raw.query(`select * from ${table}`)) {
      for (const cell of Object.values(row)) {
        dump += cell instanceof Uint8Array ? Buffer.from(cell).toString('latin1') : String(cell)
      }
    }
  }
  for (const secret of [deviceCode, userCode, userCode.replace('-', ''), body.accessToken]) {
    expect(dump).not.toContain(secret)
    expect(service.logs.join()).not.toContain(secret)
  }
  const { body: trail } = await service.call('GET', `/v1/workspace/main/audit?actor=${person.id}`, {
    token: owner.session,
  })
  expect(trail).toMatchObject([
    { action: 'LOGIN', entity: { id: person.id }, after: { type: 'cli', clientId }, ip: '127.0.0.1' },
    {
      action: 'UPDATE',
      entity: { type: 'device-login', name: clientId },
      after: { state: 'approved', ip: '127.0.0.1' },
    },
  ])
})

test.each<[string, string, (victim: TestUser) => (string | number)[]]>([
  ['approved directly', "state = 'approved', user_id = ?", (victim) => [victim.id]],
  ['approved for another user', 'user_id = ?', (victim) => [victim.id]],
  ['moved to another session', 'session_id = (select min(id) from session)', () => []],
  ['prolonged', 'expires_at = ?', () => [Date.now() + 10 ** 9]],
  ['moved to another client', 'client_id = ?', () => ['other']],
])('a row that was changed directly in the database signs nobody in: %s', async (what, change, values) => {
  const { deviceCode, userCode } = await begin()
  if (what !== 'approved directly') await answer(await newPerson(), userCode)
  await raw.query(`update device_login set ${change}`, values(owner))
  expect(await countTampered(service.app.services.engine, service.app.services.keys)).not.toEqual([])
  for (const client of [clientId, 'other']) {
    expect(refusal(await poll(deviceCode, service, client))).toEqual(refused('expired_token'))
  }
  await raw.query('delete from device_login')
})
