/** Rate limits that several nodes share through Redis. */
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { requirePrograms } from '../../../../test/debian-package.ts'
import {
  type Answer,
  createDatabase,
  createToken,
  type Database,
  openService,
  registerOwner,
  type TestService,
  type TestUser,
} from '../../../../test/harness.ts'
import { startRedis, type TestRedis } from '../../../../test/redis.ts'
import { startWatch } from '../../../../test/wait.ts'

await requirePrograms('redis-server')

const many = <Result>(count: number, make: (at: number) => Promise<Result>) =>
  Promise.all(Array.from({ length: count }, (_, at) => make(at)))

const passed = (answers: readonly Answer[]) => answers.filter(({ status }) => status !== 429)
const remainingOf = ({ headers }: Answer) => Number(headers.get('ratelimit-remaining'))

function expectRefusal(answer: Answer): void {
  const wait = Number(answer.headers.get('retry-after'))
  expect(answer.status).toBe(429)
  expect(wait).toBeGreaterThan(0)
  expect(wait).toBeLessThanOrEqual(60)
  expect(answer.headers.get('ratelimit-reset')).toBe(String(wait))
  expect(remainingOf(answer)).toBe(0)
  expect(answer.body).toEqual({ message: `Rate limit exceeded, retry in ${wait} seconds.` })
}

describe('limits shared through Redis', () => {
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
  /** The last log line of a node about sharing. */
  const lastSharingLog = (node: TestService) => node.logs.findLast((line) => /rate limits are/.test(line)) ?? ''
  const timesLogged = ({ logs }: TestService, words: string) => logs.filter((line) => line.includes(words)).length
  const timesAlone = () => nodes.map((node) => timesLogged(node, 'counted on each node alone'))
  const timesShared = () => nodes.map((node) => timesLogged(node, 'rate limits are shared again'))

  /** Sends requests until no node counts alone: how soon a node notices that Redis is back is not tested. */
  const untilShared = () =>
    vi.waitFor(
      async () => {
        for (const at of nodes.keys()) await exchangeAt(at, spare)
        expect(timesShared()).toEqual(timesAlone())
      },
      { timeout: 120_000, interval: 100 },
    )

  /** Repeats the requests if a node has counted alone meanwhile, as it does when Redis or the machine is slow. */
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

  test('are exact across both nodes', async () => {
    await expectShared()
    const answers = await whileShared(async () => {
      const { token } = await createToken(nodeAt(0), owner.session)
      return many(30, (at) => exchangeAt(at, token))
    })
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(10)
    expect(passed(answers)).toHaveLength(10)
  })

  test('are counted by each node alone while Redis is down, and shared again when it is back', async () => {
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
      for (const node of nodes) expect(JSON.parse(lastSharingLog(node)).code).toMatch(/^ECONN(REFUSED|RESET)$/)
      // Only an occasional request may wait to check whether Redis is back.
      const later = startWatch()
      for (let at = 0; at < 20; at++) await ask(at, newClient())
      expect(later.stop()).toBeLessThan(5_000)
    } finally {
      await redis.start()
    }
    await expectShared()
  })

  test('hold even while Redis accepts connections and never responds', async () => {
    redis.freeze()
    try {
      const client = newClient()
      const watch = startWatch()
      const answers = await many(60, (at) => ask(at, client))
      expect(watch.stop()).toBeLessThan(10_000)
      expect(passed(answers)).toHaveLength(2 * limit)
      for (const node of nodes) expect(JSON.parse(lastSharingLog(node)).code).toBe('ETIMEDOUT')
    } finally {
      redis.thaw()
    }
    await expectShared()
  })

  test('every key in Redis expires within one window', async () => {
    const { Redis } = await import('ioredis')
    const connection = new Redis(redis.url, { maxRetriesPerRequest: 1 })
    connection.on('error', () => undefined)
    try {
      const keys = await connection.keys('*')
      expect(keys.length).toBeGreaterThan(0)
      for (const key of keys) {
        expect(key).toMatch(/^coffer:limit:/)
        const leftMs = await connection.pttl(key)
        // -1 would be a key without an expiry; -2 is one that has just expired.
        expect(leftMs).not.toBe(-1)
        expect(leftMs).toBeLessThanOrEqual(60_000)
      }
    } finally {
      connection.disconnect()
    }
  })
})
