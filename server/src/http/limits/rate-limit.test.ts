/** The limits hold to the request, also when many arrive at once, and nobody gets around them by another spelling. */
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { requirePrograms } from '../../../../test/debian-package.ts'
import {
  type Answer,
  createDatabase,
  createToken,
  type Database,
  exchange,
  openService,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../test/harness.ts'
import { startWatch } from '../../../../test/program.ts'
import { sendRaw } from '../../../../test/raw-socket.ts'
import { startRedis, type TestRedis } from '../../../../test/redis.ts'
import { times } from '../../../../test/tier.ts'
import { clientNetwork } from '../../address-range.ts'
import { createLocalLimiter, type Hit, nearerToExhaustion } from './rate-limit.ts'

await requirePrograms('redis-server')

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

describe('the limit per address', () => {
  let service: TestService

  // An empty setting is none: these are the defaults.
  beforeAll(async () => {
    service = await startService({ COFFER_RATE_LIMIT: '' })
  })
  afterAll(() => service.stop())

  test('of 230 requests at once exactly 200 pass, and the headers count them down', async () => {
    const answers = await many(230, () => service.call('GET', '/v1/me'))
    expect(passed(answers)).toHaveLength(200)
    const left = passed(answers)
      .map(remainingOf)
      .sort((a, b) => b - a)
    expect(left).toEqual(countingDown(200))
    for (const answer of answers) {
      expect(limitOf(answer)).toBe(200)
      expect(Number(answer.headers.get('ratelimit-reset'))).toBeLessThanOrEqual(60)
      if (answer.status === 429) expectRefusal(answer)
    }
  })

  test.each([
    ['another address in X-Forwarded-For', { 'x-forwarded-for': '203.0.113.1' }],
    ['another address in X-Real-IP', { 'x-real-ip': '203.0.113.1' }],
    ['another address in Forwarded', { forwarded: 'for=203.0.113.1' }],
    ['another credential', { authorization: 'Bearer x' }],
  ])('%s does not get around it', async (_what, headers) => {
    for (const path of ['/v1/me', '/v1/unknown', '/v1/auth/login?again']) {
      expectRefusal(await service.call('GET', path, { headers }))
    }
  })

  test.each([
    ['percent signs', '/%76%31/me'],
    ['the host in it', 'http://localhost/v1/me'],
    ['what cannot be decoded', '/v1/%zz'],
    ['a query', '/v1?me'],
  ])('a path with %s is counted too', async (_what, path) => {
    const [answer] = await sendRaw(service.url, `GET ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`)
    expect(answer?.status).toBe(429)
  })

  test('what lies outside of /v1 is answered all the same', async () => {
    for (const [path, status] of [
      ['/healthz', 200],
      ['/readyz', 200],
      ['/openapi.json', 200],
      ['/docs', 200],
      ['/metrics', 404],
      ['/unknown', 404],
    ] as const) {
      const answer = await service.call('GET', path)
      expect(answer.status, path).toBe(status)
      expect(answer.headers.has('ratelimit-limit'), path).toBe(false)
    }
  })

  test('addresses in X-Forwarded-For that change with every request move the limit by nothing', async () => {
    const fresh = await startService({ COFFER_RATE_LIMIT: '' })
    try {
      const answers = await many(230, (at) =>
        fresh.call('GET', '/v1/me', { headers: { 'x-forwarded-for': `203.0.113.${at}, 198.51.100.${at}` } }),
      )
      expect(passed(answers)).toHaveLength(200)
    } finally {
      await fresh.stop()
    }
  })
})

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

  test('each client has its own count, exact when many ask at once', async () => {
    const [first, second] = [newClient(), newClient()]
    const answers = await many(60, (at) => ask(at % 2 ? first : second))
    expect(passed(answers.filter((_, at) => at % 2))).toHaveLength(limit)
    expect(passed(answers)).toHaveLength(2 * limit)
  })

  test('every answer under /v1 counts, whatever it says', async () => {
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

  test('the right-most address that no trusted proxy has is the client', async () => {
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

  test('what stands left of an entry that is no address is not believed', async () => {
    const client = newClient()
    for (const entry of ['garbage', 'unknown', '999.1.1.1', '_hidden', '::1::']) await ask(`${client}, ${entry}`)
    expect(await left(client)).toBe(limit - 1)
  })

  test('a port behind the address does not make another client', async () => {
    const client = newClient()
    expect(await left(client)).toBe(limit - 1)
    expect(await left(`${client}:40001`)).toBe(limit - 2)
    expect(await left(`${client}:40002`)).toBe(limit - 3)
    expect(await left('[2001:db8:7:7::1]:40001')).toBe(limit - 1)
    expect(await left('2001:db8:7:7::1')).toBe(limit - 2)
  })

  test('a client with IPv6 has one count for its /64', async () => {
    expect(await left('2001:db8:1:1::1')).toBe(limit - 1)
    expect(await left('2001:db8:1:1:ffff:ffff:ffff:ffff')).toBe(limit - 2)
    expect(await left('2001:0DB8:0001:0001:0000::2')).toBe(limit - 3)
    expect(await left('2001:db8:1:2::1')).toBe(limit - 1)
  })

  test('an IPv4 address is the same client in the form of IPv6', async () => {
    expect(await left('198.51.100.200')).toBe(limit - 1)
    expect(await left('::ffff:198.51.100.200')).toBe(limit - 2)
    expect(await left('::FFFF:198.51.100.200')).toBe(limit - 3)
    expect(await left('::ffff:c633:64c8')).toBe(limit - 4)
  })

  test('the audit trail holds the address that was counted', async () => {
    const headers = { 'x-forwarded-for': '198.51.100.9, 203.0.113.250, 10.1.2.3' }
    await service.call('POST', '/v1/workspace/main/team', { token: owner.session, headers, body: { name: 'Seen' } })
    const other = { token: owner.session, headers: { 'x-forwarded-for': newClient() } }
    const { body } = await service.call<{ ip: string }[]>('GET', '/v1/workspace/main/audit?entity=Seen', other)
    expect(body.map(({ ip }) => ip)).toEqual(['203.0.113.250'])
  })

  test('on the exchange the headers describe whichever limit is nearer', async () => {
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

describe('the limit of exchanges', () => {
  let service: TestService
  let owner: TestUser

  beforeAll(async () => {
    service = await startService({ COFFER_EXCHANGE_RATE_LIMIT: '' })
    owner = await registerOwner(service)
  })
  afterAll(() => service.stop())

  const exchangeWith = (token: string) => service.call('POST', '/v1/auth/exchange', { token })

  test('of 30 at once with one token exactly 10 succeed, and another token has its own 10', async () => {
    const [first, second] = [await createToken(service, owner.session), await createToken(service, owner.session)]
    const answers = await many(60, (at) => exchangeWith(at % 2 ? first.token : second.token))
    for (const half of [answers.filter((_, at) => at % 2), answers.filter((_, at) => at % 2 === 0)]) {
      expect(half.filter(({ status }) => status === 200)).toHaveLength(10)
      for (const refused of half.filter(({ status }) => status !== 200)) expectRefusal(refused)
      expect(
        passed(half)
          .map(remainingOf)
          .sort((a, b) => b - a),
      ).toEqual(countingDown(10))
    }
    expect((await service.call('GET', '/v1/me', { token: first.token })).status).toBe(200)
  })

  test('what cannot be exchanged uses up nothing', async () => {
    const { token } = await createToken(service, owner.session)
    const jwt = await exchange(service, token)
    const refused = await many(45, (at) => exchangeWith([jwt, owner.session, `${token.slice(0, -1)}_`][at % 3] ?? ''))
    // A JWT and a session are valid, but no API tokens; the third has a wrong checksum.
    expect(refused.map(({ status }) => status)).toEqual(refused.map((_, at) => [403, 403, 401][at % 3]))
    const answers = await many(20, () => exchangeWith(token))
    expect(passed(answers)).toHaveLength(9)
  })

  test('a rotated token keeps its count, and the exchange of a revoked one is refused', async () => {
    const made = await createToken(service, owner.session)
    expect(passed(await many(12, () => exchangeWith(made.token)))).toHaveLength(10)
    const path = `/v1/workspace/main/tokens/${made.id}`
    const rotated = await service.call<{ token: string }>('POST', `${path}/rotate`, { token: owner.session })
    expectRefusal(await exchangeWith(rotated.body.token))
    await service.call('DELETE', path, { token: owner.session })
    expect((await exchangeWith(rotated.body.token)).status).toBe(401)
  })
})

describe('limits shared by way of Redis', () => {
  const limit = 20
  let redis: TestRedis
  let database: Database
  let nodes: TestService[]
  let owner: TestUser
  let spare: string
  let clients = 0

  beforeAll(async () => {
    redis = await startRedis()
    database = await createDatabase()
    const settings = {
      ...database.settings,
      COFFER_RATE_LIMIT: String(limit),
      COFFER_EXCHANGE_RATE_LIMIT: '',
      COFFER_TRUSTED_PROXIES: '127.0.0.0/8',
      COFFER_REDIS_URL: redis.url,
    }
    nodes = [await openService(settings, database.dataDir), await openService(settings, database.dataDir)]
    owner = await registerOwner(nodeAt(0))
    spare = (await createToken(nodeAt(0), owner.session)).token
  })
  afterAll(async () => {
    for (const node of nodes) await node.stop()
    await redis.kill()
    await database.drop()
  })

  const newClient = () => {
    clients++
    return `198.51.${clients >> 8}.${clients & 255}`
  }
  function nodeAt(at: number): TestService {
    const node = nodes[at % nodes.length]
    if (!node) throw new Error('no node')
    return node
  }
  const ask = (at: number, client: string) =>
    nodeAt(at).call('GET', '/v1/me', { headers: { 'x-forwarded-for': client } })
  const exchangeAt = (at: number, token: string) =>
    nodeAt(at).call('POST', '/v1/auth/exchange', { token, headers: { 'x-forwarded-for': newClient() } })
  /** What a node has said last about sharing. */
  const lastWord = (node: TestService) => node.logs.findLast((line) => /rate limits are/.test(line)) ?? ''
  const timesSaid = ({ logs }: TestService, words: string) => logs.filter((line) => line.includes(words)).length
  const timesAlone = () => nodes.map((node) => timesSaid(node, 'counted on each node alone'))
  const timesShared = () => nodes.map((node) => timesSaid(node, 'rate limits are shared again'))

  /** Asks until no node counts any limit alone: how soon it sees that Redis is back is its own affair. */
  const untilShared = () =>
    vi.waitFor(
      async () => {
        for (const at of nodes.keys()) await exchangeAt(at, spare)
        expect(timesShared()).toEqual(timesAlone())
      },
      { timeout: 20_000, interval: 100 },
    )

  /** Once more where a node has counted alone meanwhile: it does so as soon as Redis is slow, or the machine. */
  async function whileShared(askAll: () => Promise<Answer[]>): Promise<Answer[]> {
    for (;;) {
      await untilShared()
      const before = timesAlone()
      const answers = await askAll()
      if (timesAlone().join() === before.join()) return answers
    }
  }

  async function expectShared(): Promise<void> {
    const answers = await whileShared(() => {
      const client = newClient()
      return many(60, (at) => ask(at, client))
    })
    expect(passed(answers)).toHaveLength(limit)
    for (const answer of answers.filter(({ status }) => status === 429)) expectRefusal(answer)
  }

  test('are exact over both nodes', async () => {
    await expectShared()
    const answers = await whileShared(async () => {
      const { token } = await createToken(nodeAt(0), owner.session)
      return many(30, (at) => exchangeAt(at, token))
    })
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(10)
    expect(passed(answers)).toHaveLength(10)
  })

  test('are counted by each node alone while Redis is away, and shared again when it is back', async () => {
    const before = timesAlone()
    await redis.kill()
    try {
      const client = newClient()
      const watch = startWatch()
      const answers = await many(60, (at) => ask(at, client))
      expect(watch.stop()).toBeLessThan(10_000)
      expect(passed(answers.filter((_, at) => at % 2 === 0))).toHaveLength(limit)
      expect(passed(answers.filter((_, at) => at % 2 === 1))).toHaveLength(limit)
      expect(timesAlone()).toEqual(before.map((times) => times + 1))
      for (const node of nodes) expect(JSON.parse(lastWord(node)).code).toMatch(/^ECONN(REFUSED|RESET)$/)
      // Only now and then may somebody wait to see whether it is back.
      const later = startWatch()
      for (let at = 0; at < 20; at++) await ask(at, newClient())
      expect(later.stop()).toBeLessThan(5_000)
    } finally {
      await redis.start()
    }
    await expectShared()
  })

  test('hold also while Redis takes connections and answers nothing', async () => {
    redis.freeze()
    try {
      const client = newClient()
      const watch = startWatch()
      const answers = await many(60, (at) => ask(at, client))
      expect(watch.stop()).toBeLessThan(10_000)
      expect(passed(answers)).toHaveLength(2 * limit)
      for (const node of nodes) expect(JSON.parse(lastWord(node)).code).toBe('ETIMEDOUT')
    } finally {
      redis.thaw()
    }
    await expectShared()
  })

  test('no address or token stands in Redis for longer than a window', async () => {
    const { Redis } = await import('ioredis')
    const connection = new Redis(redis.url, { maxRetriesPerRequest: 1 })
    connection.on('error', () => undefined)
    try {
      const keys = await connection.keys('*')
      expect(keys.length).toBeGreaterThan(0)
      for (const key of keys) {
        expect(key).toMatch(/^coffer:limit:/)
        expect(await connection.pttl(key)).toBeGreaterThan(0)
        expect(await connection.pttl(key)).toBeLessThanOrEqual(60_000)
      }
    } finally {
      connection.disconnect()
    }
  })
})

describe('a window', () => {
  test('lasts 60 seconds from its first request', () => {
    let now = 1_000_000
    const limiter = createLocalLimiter(3, () => now)
    const hitAt = (at: number) => {
      now = 1_000_000 + at
      return limiter.hit('a')
    }
    expect(hitAt(0)).toEqual({ limit: 3, remaining: 2, resetSeconds: 60, exceeded: false })
    expect(hitAt(1)).toEqual({ limit: 3, remaining: 1, resetSeconds: 60, exceeded: false })
    expect(hitAt(30_000)).toEqual({ limit: 3, remaining: 0, resetSeconds: 30, exceeded: false })
    expect(hitAt(59_001)).toEqual({ limit: 3, remaining: 0, resetSeconds: 1, exceeded: true })
    expect(hitAt(59_999)).toEqual({ limit: 3, remaining: 0, resetSeconds: 1, exceeded: true })
    expect(hitAt(60_000)).toEqual({ limit: 3, remaining: 2, resetSeconds: 60, exceeded: false })
    expect(hitAt(119_999)).toEqual({ limit: 3, remaining: 1, resetSeconds: 1, exceeded: false })
    expect(hitAt(120_000)).toMatchObject({ remaining: 2 })
  })

  test('does not freeze when the clock jumps back', () => {
    let now = 10_000_000
    const limiter = createLocalLimiter(1, () => now)
    limiter.hit('a')
    expect(limiter.hit('a')).toMatchObject({ exceeded: true })
    now -= 3_600_000
    expect(limiter.hit('a')).toMatchObject({ exceeded: false, resetSeconds: 60 })
  })

  test('lets the same pass as a count by hand, whoever asks when', () => {
    const events = fc.array(
      fc.record({ key: fc.constantFrom('a', 'b', 'c'), waitMs: fc.oneof(fc.nat(500), fc.nat(70_000)) }),
      { maxLength: 60 },
    )
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 5 }), events, (limit, asked) => {
        let now = 0
        const limiter = createLocalLimiter(limit, () => now)
        const started = new Map<string, { at: number; count: number }>()
        for (const { key, waitMs } of asked) {
          now += waitMs
          const known = started.get(key)
          const window = known && now < known.at + 60_000 ? known : { at: now, count: 0 }
          window.count++
          started.set(key, window)
          expect(limiter.hit(key)).toEqual({
            limit,
            remaining: Math.max(0, limit - window.count),
            resetSeconds: Math.ceil((window.at + 60_000 - now) / 1_000),
            exceeded: window.count > limit,
          })
        }
      }),
      { numRuns: times(200, 2_000) },
    )
  })

  test('0 switches the limit off and leaves the headers', () => {
    const limiter = createLocalLimiter(0, () => 0)
    for (let at = 0; at < 1_000; at++) limiter.hit('a')
    expect(limiter.hit('a')).toEqual({ limit: 1e9, remaining: 1e9 - 1_001, resetSeconds: 60, exceeded: false })
  })

  test('of more clients than there is room for, the oldest are forgotten and the newest counted', () => {
    const limiter = createLocalLimiter(1, () => 0)
    for (let at = 0; at <= 200_000; at++) limiter.hit(`client ${at}`)
    expect(limiter.hit('client 200000')).toMatchObject({ exceeded: true })
    expect(limiter.hit('client 0')).toMatchObject({ exceeded: false })
  })
})

describe('a client', () => {
  test.each([
    ['203.0.113.1', '203.0.113.1'],
    ['2001:db8::1', '2001:db8::2'],
    ['2001:db8:0:0:1::', '2001:db8::ffff:ffff:ffff:ffff'],
    ['2001:DB8::1', '2001:db8:0000::1'],
    ['::ffff:203.0.113.1', '203.0.113.1'],
    ['::ffff:cb00:7101', '203.0.113.1'],
  ])('is the same at %s and %s', (one, other) => {
    expect(clientNetwork(one)).toBe(clientNetwork(other))
  })

  test.each([
    ['203.0.113.1', '203.0.113.2'],
    ['2001:db8:0:1::1', '2001:db8:0:2::1'],
    ['::1', '2001:db8::1'],
    ['::ffff:203.0.113.1', '::ffff:203.0.113.2'],
    ['::203.0.113.1', '2001:db8::203.0.113.1'],
  ])('is another at %s and %s', (one, other) => {
    expect(clientNetwork(one)).not.toBe(clientNetwork(other))
  })
})

test('of two limits the one that is exceeded, or else leaves less, is the nearer', () => {
  const hit = (remaining: number, exceeded = false): Hit => ({ limit: 10, remaining, resetSeconds: 1, exceeded })
  const [few, more, none, over] = [hit(1), hit(5), hit(0), hit(0, true)]
  for (const [a, b, nearer] of [
    [few, more, few],
    [more, none, none],
    [none, over, over],
    [more, over, over],
  ] as const) {
    expect(nearerToExhaustion(a, b)).toBe(nearer)
    expect(nearerToExhaustion(b, a)).toBe(nearer)
  }
})
