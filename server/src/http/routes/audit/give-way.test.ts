/** Long reads of the trail leave room for others: in turns, with few slots, and only as long as somebody waits for them. */
import type { Socket } from 'node:net'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { growTrail } from '../../../../../test/grown-trail.ts'
import { type Answer, addUser, registerOwner, startService, type TestService } from '../../../../../test/harness.ts'
import { open } from '../../../../../test/raw-socket.ts'
import { until } from '../../../../../test/wait.ts'
import { createLongWork } from '../../../long-work.ts'

const rows = 3_000
const deadlineMs = 20_000

let service: TestService
/** Of one person for each workspace. */
const sessions = new Map<string, string>()
/** Steps of long work. They wait while `gate` is set. */
let steps = 0
let starts = 0
let gate: PromiseWithResolvers<void> | undefined
/** The clock of the portions; the real one while undefined. */
let portionsMs: number | undefined
let portionsUsedUp = 0

beforeAll(async () => {
  const real = createLongWork(() => portionsMs ?? performance.now())
  const longWork: typeof real = {
    ...real,
    async start() {
      starts++
      const work = await real.start()
      const giveWay = () => {
        steps++
        if (gate) return gate.promise
        const turn = work.giveWay()
        if (turn) portionsUsedUp++
        return turn
      }
      // No search of these tests has used up its time.
      return { ...work, workedMs: () => 0, giveWay }
    },
  }
  service = await startService({}, { longWork })
  sessions.set('main', (await registerOwner(service)).session)
  for (const slug of ['second', 'third']) {
    const { session } = await addUser(service, `${slug}@example.com`)
    sessions.set(slug, session)
    const made = await service.call('POST', '/v1/workspace', { token: session, body: { name: slug, slug } })
    expect(made.status, made.text).toBe(201)
  }
  for (const [slug, token] of sessions) {
    const { id } = (await service.call<{ id: string }>('GET', `/v1/workspace/${slug}`, { token })).body
    await growTrail(service, id, { rows, entityName: () => 'N'.repeat(slug === 'third' ? 8_000 : 100) })
  }
})
afterAll(() => service.stop())

beforeEach(() => {
  steps = 0
  starts = 0
  portionsUsedUp = 0
})
afterEach(async () => {
  portionsMs = undefined
  gate?.resolve()
  gate = undefined
  await idle()
})

const slots = () => service.app.services.slots.auditRead
const idle = () => until(() => slots().isIdle || undefined, deadlineMs, 'nobody reads a trail')
const auditOf = (workspace: string, query: string) => `/v1/workspace/${workspace}/audit${query}`
const rare = '?q=nothing-is-called-this'

const ask = (workspace: string, query: string) =>
  service.call<unknown[]>('GET', auditOf(workspace, query), { token: sessions.get(workspace) ?? '' })

/** Sends a request whose answer nobody reads. The socket of the service's side comes with it. */
async function sendUnread(workspace: string, query: string): Promise<{ client: Socket; served: Socket }> {
  const { promise, resolve } = Promise.withResolvers<Socket>()
  service.app.server.once('connection', resolve)
  const client = open(service.url).pause()
  client.on('error', () => undefined)
  const authorization = `Authorization: Bearer ${sessions.get(workspace)}`
  client.write(`GET ${auditOf(workspace, query)} HTTP/1.1\r\nHost: localhost\r\n${authorization}\r\n\r\n`)
  return { client, served: await promise }
}

describe('a read of the trail ends with its connection', () => {
  test.each([
    ['a search', rare],
    ['an export', `${rare}&format=ndjson`],
    ['a verification', '/verify'],
  ])('%s', async (_what, query) => {
    gate = Promise.withResolvers()
    const { client, served } = await sendUnread('main', query)
    await until(() => (steps > 0 ? true : undefined), deadlineMs, 'the work has begun')
    client.destroy()
    await until(() => served.readableEnded || served.destroyed || undefined, deadlineMs, 'the connection has ended')
    gate.resolve()
    gate = undefined
    await idle()
    // One stretch has 500 entries of the 3,000, and each is two steps at most.
    expect(steps).toBeLessThan(1_200)
  })
})

test('a client that closes its side early gets what was found, and the cursor to go on', async () => {
  gate = Promise.withResolvers()
  const { client, served } = await sendUnread('main', rare)
  await until(() => (steps > 0 ? true : undefined), deadlineMs, 'the work has begun')
  client.end()
  await until(() => served.readableEnded || undefined, deadlineMs, 'the client has closed its side')
  gate.resolve()
  gate = undefined
  const chunks: Buffer[] = []
  client.on('data', (chunk) => chunks.push(chunk))
  client.resume()
  await new Promise((resolve) => client.once('close', resolve))
  const answer = Buffer.concat(chunks).toString()
  expect(answer).toMatch(/^HTTP\/1.1 200 /)
  expect(answer).toMatch(/^x-next-cursor: /im)
  expect(answer).toMatch(/^x-searched-to: /im)
})

test('an export gives way after every 50 entries', async () => {
  const { text } = await ask('main', '?format=ndjson')
  expect(text.trimEnd().split('\n').length).toBeGreaterThan(rows)
  expect(starts).toBeGreaterThanOrEqual(rows / 50)
})

describe('slots', () => {
  test('one search per workspace and two in all run, a few wait, and the others get 503 at once', async () => {
    gate = Promise.withResolvers()
    const refused: Answer<unknown>[] = []
    const searches = Array.from({ length: 100 }, async () => {
      const answer = await ask('main', rare)
      if (answer.status !== 200) refused.push(answer)
      return answer
    })
    const untilRefused = (count: number) =>
      until(() => (refused.length === count ? true : undefined), deadlineMs, `${count} searches are refused`)
    await untilRefused(83)
    for (const { status, headers } of refused) expect([status, headers.get('retry-after')]).toEqual([503, '1'])
    expect(slots().waiting).toBe(16)
    expect(starts).toBe(1)
    const second = ask('second', rare)
    await until(() => (starts === 2 ? true : undefined), deadlineMs, 'another workspace runs')
    const third = ask('third', rare)
    // One of the waiting makes room for the third workspace.
    await untilRefused(84)
    expect((await service.call('GET', '/healthz')).status).toBe(200)
    expect(starts).toBe(2)
    gate.resolve()
    gate = undefined
    expect((await Promise.all(searches)).filter(({ status }) => status === 200)).toHaveLength(16)
    expect((await second).status).toBe(200)
    expect((await third).status).toBe(200)
  })

  test('an export whose reader does not read holds none', async () => {
    const { client, served } = await sendUnread('third', '?format=ndjson')
    await until(() => served.writableNeedDrain || undefined, deadlineMs, 'the export waits for its reader')
    await idle()
    expect(client.destroyed).toBe(false)
    expect((await ask('third', '?limit=1')).status).toBe(200)
    expect(steps).toBeLessThan(3 * rows)
    client.destroy()
    await until(() => served.destroyed || undefined, deadlineMs, 'the export has ended')
  })

  test('a verification gives its slot back between two portions', async () => {
    gate = Promise.withResolvers()
    const verdict = ask('main', '/verify')
    await until(() => (steps > 0 ? true : undefined), deadlineMs, 'the verification has begun')
    await idle()
    gate.resolve()
    gate = undefined
    expect((await verdict).body).toMatchObject({ ok: true })
  })

  test('a verification that waited for its slot has a whole portion', async () => {
    portionsMs = 0
    gate = Promise.withResolvers()
    const verdict = ask('main', '/verify')
    await until(() => (steps > 0 ? true : undefined), deadlineMs, 'the verification has begun')
    await idle()
    const { id } = (
      await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: sessions.get('main') ?? '' })
    ).body
    const held = await slots().acquire([id, 'somebody else'])
    gate.resolve()
    gate = undefined
    await until(() => slots().waiting || undefined, deadlineMs, 'the verification waits for its slot')
    // As long as a search works.
    portionsMs += 250
    held.release()
    expect((await verdict).body).toMatchObject({ ok: true })
    expect(steps).toBeGreaterThan(rows)
    expect(portionsUsedUp).toBe(0)
  })
})
