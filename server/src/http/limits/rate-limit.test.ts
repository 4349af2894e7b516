/** Rate limits are exact, also under concurrent requests, and no other spelling of a request evades them. */
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import {
  type Answer,
  createToken,
  exchange,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../test/harness.ts'
import { sendRaw } from '../../../../test/raw-socket.ts'
import { times } from '../../../../test/tier.ts'
import { clientNetwork } from '../../address-range.ts'
import { createLocalLimiter, type Hit, nearerToExhaustion } from './rate-limit.ts'

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

describe('the limit per address', () => {
  let service: TestService

  // An empty setting counts as unset, so these are the defaults.
  beforeAll(async () => {
    service = await startService({ COFFER_RATE_LIMIT: '' })
  })
  afterAll(() => service.stop())

  test('exactly 200 of 230 concurrent requests pass, and the headers count down', async () => {
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
  ])('%s does not evade the limit', async (_what, headers) => {
    for (const path of ['/v1/me', '/v1/unknown', '/v1/auth/login?again']) {
      expectRefusal(await service.call('GET', path, { headers }))
    }
  })

  test.each([
    ['percent-encoded characters', '/%76%31/me'],
    ['a host', 'http://localhost/v1/me'],
    ['invalid percent-encoding', '/v1/%zz'],
    ['a query', '/v1?me'],
  ])('a path with %s is counted too', async (_what, path) => {
    const [answer] = await sendRaw(service.url, `GET ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`)
    expect(answer?.status).toBe(429)
  })

  test('paths outside /v1 are not limited by it', async () => {
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

  test('changing X-Forwarded-For with every request does not evade the limit', async () => {
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

describe('the limit on token exchanges', () => {
  let service: TestService
  let owner: TestUser

  beforeAll(async () => {
    service = await startService({ COFFER_EXCHANGE_RATE_LIMIT: '' })
    owner = await registerOwner(service)
  })
  afterAll(() => service.stop())

  const exchangeWith = (token: string) => service.call('POST', '/v1/auth/exchange', { token })

  test('exactly 10 of 30 concurrent exchanges of one token succeed, and another token has its own 10', async () => {
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

  test('failed exchanges do not count', async () => {
    const { token } = await createToken(service, owner.session)
    const jwt = await exchange(service, token)
    const refused = await many(45, (at) => exchangeWith([jwt, owner.session, `${token.slice(0, -1)}_`][at % 3] ?? ''))
    // A JWT and a session are valid but not API tokens; the third has a wrong checksum.
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

  test('restarts when the clock jumps back', () => {
    let now = 10_000_000
    const limiter = createLocalLimiter(1, () => now)
    limiter.hit('a')
    expect(limiter.hit('a')).toMatchObject({ exceeded: true })
    now -= 3_600_000
    expect(limiter.hit('a')).toMatchObject({ exceeded: false, resetSeconds: 60 })
  })

  test('agrees with a reference count for any sequence of requests', () => {
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

  test('0 disables the limit and keeps the headers', () => {
    const limiter = createLocalLimiter(0, () => 0)
    for (let at = 0; at < 1_000; at++) limiter.hit('a')
    expect(limiter.hit('a')).toEqual({ limit: 1e9, remaining: 1e9 - 1_001, resetSeconds: 60, exceeded: false })
  })

  test('with too many clients, the oldest counts are evicted and the newest kept', () => {
    const limiter = createLocalLimiter(1, () => 0)
    for (let at = 0; at <= 200_000; at++) limiter.hit(`client ${at}`)
    expect(limiter.hit('client 200000')).toMatchObject({ exceeded: true })
    expect(limiter.hit('client 0')).toMatchObject({ exceeded: false })
  })
})

describe('the client network', () => {
  test.each([
    ['203.0.113.1', '203.0.113.1'],
    ['2001:db8::1', '2001:db8::2'],
    ['2001:db8:0:0:1::', '2001:db8::ffff:ffff:ffff:ffff'],
    ['2001:DB8::1', '2001:db8:0000::1'],
    ['::ffff:203.0.113.1', '203.0.113.1'],
    ['::ffff:cb00:7101', '203.0.113.1'],
  ])('is the same for %s and %s', (one, other) => {
    expect(clientNetwork(one)).toBe(clientNetwork(other))
  })

  test.each([
    ['203.0.113.1', '203.0.113.2'],
    ['2001:db8:0:1::1', '2001:db8:0:2::1'],
    ['::1', '2001:db8::1'],
    ['::ffff:203.0.113.1', '::ffff:203.0.113.2'],
    ['::203.0.113.1', '2001:db8::203.0.113.1'],
  ])('differs for %s and %s', (one, other) => {
    expect(clientNetwork(one)).not.toBe(clientNetwork(other))
  })
})

test('the nearer of two limits is the exceeded one, or else the one with less remaining', () => {
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
