/** Rate limits behind trusted proxies. */
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import {
  type Answer,
  createToken,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../test/harness.ts'

const many = <Result>(count: number, make: (at: number) => Promise<Result>) =>
  Promise.all(Array.from({ length: count }, (_, at) => make(at)))

const passed = (answers: readonly Answer[]) => answers.filter(({ status }) => status !== 429)
const limitOf = ({ headers }: Answer) => Number(headers.get('ratelimit-limit'))
const remainingOf = ({ headers }: Answer) => Number(headers.get('ratelimit-remaining'))
const countingDown = (from: number) => Array.from({ length: from }, (_, at) => from - 1 - at)

function expectRefusal(answer: Answer): void {
  const wait = Number(answer.headers.get('retry-after'))
  expect(answer.status).toBe(429)
  expect(wait).toBeGreaterThan(0)
  expect(wait).toBeLessThanOrEqual(60)
  expect(answer.headers.get('ratelimit-reset')).toBe(String(wait))
  expect(remainingOf(answer)).toBe(0)
  expect(answer.body).toEqual({ message: `Rate limit exceeded, retry in ${wait} seconds.` })
}

// The windows of the limits do not end during a test, however slow the machine is.
beforeAll(() => void vi.useFakeTimers({ toFake: ['Date'] }))
afterAll(() => void vi.useRealTimers())

describe('behind trusted proxies', () => {
  const limit = 8
  let service: TestService
  let owner: TestUser
  let clients = 0

  beforeAll(async () => {
    service = await startService({
      COFFER_RATE_LIMIT: String(limit),
      COFFER_EXCHANGE_RATE_LIMIT: '',
      COFFER_TRUSTED_PROXIES: '127.0.0.0/8, 10.0.0.0/8, 2001:db8:aaaa::/48',
    })
    owner = await registerOwner(service)
  })
  afterAll(() => service.stop())

  /** An address that no other test has used. */
  const newClient = () => `203.0.113.${++clients}`
  const ask = (forwarded: string, path = '/v1/me', method = 'GET') =>
    service.call(method, path, { headers: { 'x-forwarded-for': forwarded } })
  const left = async (forwarded: string) => remainingOf(await ask(forwarded))

  test('each client has its own count, exact under concurrent requests', async () => {
    const [first, second] = [newClient(), newClient()]
    const answers = await many(60, (at) => ask(at % 2 ? first : second))
    expect(passed(answers.filter((_, at) => at % 2))).toHaveLength(limit)
    expect(passed(answers)).toHaveLength(2 * limit)
  })

  test('every response under /v1 counts, for any status', async () => {
    const client = newClient()
    const headers = { 'x-forwarded-for': client }
    const counted = [
      await ask(client, '/v1/me'),
      await ask(client, '/v1/unknown'),
      await ask(client, '/v1/%zz'),
      await ask(client, '/v1/workspace/NOT-A-SLUG'),
      await ask(client, '/v1/me', 'OPTIONS'),
      await service.call('POST', '/v1/auth/login', { headers, body: '{' }),
      await service.call('POST', '/v1/auth/login', {
        headers: { ...headers, 'content-type': 'text/plain' },
        body: 'x',
      }),
      await service.call('GET', '/v1/me', { headers, token: owner.session }),
    ]
    expect(counted.map(({ status }) => status)).toEqual([401, 404, 400, 401, 404, 400, 415, 200])
    expect(counted.map(remainingOf)).toEqual(countingDown(limit))
    expectRefusal(await ask(client))
    expectRefusal(await ask(client, '/v1/unknown'))
    expectRefusal(await ask(client, '/v1/%zz'))
    expect((await ask(client, '/healthz')).status).toBe(200)
  })

  test('the client is the right-most address that is not a trusted proxy', async () => {
    const client = newClient()
    const spellings = [
      client,
      `198.51.100.1, ${client}`,
      `198.51.100.2,198.51.100.3 ,  ${client}`,
      `${client}, 10.0.0.1`,
      `198.51.100.4, ${client}, 10.0.0.1, 127.0.0.2, 2001:db8:aaaa::1`,
      `127.0.0.1, ${client}`,
      `garbage, <script>, , ${client}`,
    ]
    for (const [at, forwarded] of spellings.entries()) expect(await left(forwarded), forwarded).toBe(limit - 1 - at)
  })

  test('addresses to the left of an invalid entry are ignored', async () => {
    const client = newClient()
    for (const entry of ['garbage', 'unknown', '999.1.1.1', '_hidden', '::1::']) await ask(`${client}, ${entry}`)
    expect(await left(client)).toBe(limit - 1)
  })

  test('a port after the address does not make another client', async () => {
    const client = newClient()
    expect(await left(client)).toBe(limit - 1)
    expect(await left(`${client}:40001`)).toBe(limit - 2)
    expect(await left(`${client}:40002`)).toBe(limit - 3)
    expect(await left('[2001:db8:7:7::1]:40001')).toBe(limit - 1)
    expect(await left('2001:db8:7:7::1')).toBe(limit - 2)
  })

  test('an IPv6 client has one count for its /64', async () => {
    expect(await left('2001:db8:1:1::1')).toBe(limit - 1)
    expect(await left('2001:db8:1:1:ffff:ffff:ffff:ffff')).toBe(limit - 2)
    expect(await left('2001:0DB8:0001:0001:0000::2')).toBe(limit - 3)
    expect(await left('2001:db8:1:2::1')).toBe(limit - 1)
  })

  test('an IPv4-mapped IPv6 address is the same client as the IPv4 address', async () => {
    expect(await left('198.51.100.200')).toBe(limit - 1)
    expect(await left('::ffff:198.51.100.200')).toBe(limit - 2)
    expect(await left('::FFFF:198.51.100.200')).toBe(limit - 3)
    expect(await left('::ffff:c633:64c8')).toBe(limit - 4)
  })

  test('the audit trail has the address that was rate-limited', async () => {
    const headers = { 'x-forwarded-for': '198.51.100.9, 203.0.113.250, 10.1.2.3' }
    await service.call('POST', '/v1/workspace/main/team', { token: owner.session, headers, body: { name: 'Seen' } })
    const other = { token: owner.session, headers: { 'x-forwarded-for': newClient() } }
    const { body } = await service.call<{ ip: string }[]>('GET', '/v1/workspace/main/audit?entity=Seen', other)
    expect(body.map(({ ip }) => ip)).toEqual(['203.0.113.250'])
  })

  test('the headers of a token exchange describe the limit nearer to exhaustion', async () => {
    const { token } = await createToken(service, owner.session)
    const exchangeFrom = (client: string) =>
      service.call('POST', '/v1/auth/exchange', { token, headers: { 'x-forwarded-for': client } })
    const first = newClient()
    const answers = [await exchangeFrom(first), await exchangeFrom(first), await exchangeFrom(first)]
    expect(answers.map((answer) => [limitOf(answer), remainingOf(answer)])).toEqual([
      [limit, 7],
      [limit, 6],
      [limit, 5],
    ])
    for (let spent = 3; spent < 10; spent++) {
      const answer = await exchangeFrom(newClient())
      const nearer = 10 - spent - 1 <= limit - 1 ? [10, 10 - spent - 1] : [limit, limit - 1]
      expect([answer.status, limitOf(answer), remainingOf(answer)]).toEqual([200, ...nearer])
    }
    const refused = await exchangeFrom(newClient())
    expectRefusal(refused)
    expect(limitOf(refused)).toBe(10)
  })
})
