/** A share is never viewed more often than maxViews, whatever the concurrency, even if the process is killed. */
import { connect } from 'node:net'
import { setImmediate } from 'node:timers/promises'
import type { AuditVerdict } from '@coffer/contract/audit'
import type { SignedIn } from '@coffer/contract/auth'
import type { IssuedShare, Share } from '@coffer/contract/share'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  createDatabase,
  createProject,
  type Database,
  engine,
  openService,
  password,
  registerOwner,
  type TestService,
} from '../../../../../test/harness.ts'
import { type Serving, serve } from '../../../../../test/process.ts'
import { openRaw, type RawDatabase } from '../../../../../test/raw-database.ts'
import { setupCode } from '../../../../../test/setup-code.ts'
import { createShareProject, expectGone, newClaim, readers, type ShareProject } from '../../../../../test/share.ts'
import { times } from '../../../../../test/tier.ts'
import { until } from '../../../../../test/wait.ts'

const readersAtOnce = 64
const rounds = times(3, 20)
const patienceMs = 300_000

const many = <Result>(count: number, make: (at: number) => Promise<Result>) =>
  Promise.all(Array.from({ length: count }, (_, at) => make(at)))

describe(`64 concurrent readers, ${rounds} times`, () => {
  let database: Database
  /** Two nodes on PostgreSQL, one on SQLite. */
  let nodes: TestService[]
  let project: ShareProject

  beforeAll(async () => {
    database = await createDatabase({ hasSchema: true })
    const count = engine === 'postgres' ? 2 : 1
    nodes = []
    for (let node = 0; node < count; node++) nodes.push(await openService(database.settings, database.dataDir))
    const [first] = nodes
    if (!first) throw new Error('there is a first node')
    project = await createShareProject(first, (await registerOwner(first)).session)
  })
  afterAll(async () => {
    for (const node of nodes) await node.stop()
    await database.drop()
  })

  /** Returns only the status: the race is all that matters here. */
  async function read(token: string, key: object, at: number): Promise<number> {
    const node = nodes[at % nodes.length]
    if (!node) throw new Error('there is such a node')
    return (await node.call('POST', `/v1/share/${token}/view`, { body: key })).status
  }

  test.each([1, 5, 64])(
    'exactly %i of them read a share with that maxViews',
    async (maxViews) => {
      for (let round = 0; round < rounds; round++) {
        const share = round % 2 ? await project.makeSealed({ t: 'text', v: 'x' }, undefined, { maxViews }) : undefined
        const { id, token } = share ?? (await project.make({ content: 'x', maxViews }))
        const statuses = await many(readersAtOnce, (at) =>
          read(token, { ...share?.key, ...(at % 3 === 0 && { claim: newClaim() }) }, at),
        )
        expect(statuses.filter((status) => status === 200)).toHaveLength(maxViews)
        expect(statuses.filter((status) => status === 404)).toHaveLength(readersAtOnce - maxViews)
        expect(await project.find(id)).toMatchObject({ views: maxViews, state: 'exhausted' })
        expect((await project.views(id)).filter(({ outcome }) => outcome === 'success')).toHaveLength(maxViews)
        expect(await read(token, share?.key ?? {}, round)).toBe(404)
      }
    },
    patienceMs,
  )

  test('an environment deleted while it is shared leaves no active share', async () => {
    for (let round = 0; round < times(2, 5); round++) {
      const { id } = await project.must<{ id: string }>('POST', '/environment', { name: 'short-lived' })
      const body = { environments: [id], mode: 'upsert', secrets: [{ key: 'SHORT_LIVED', value: 'x' }] }
      const { results } = await project.must<{ results: { id: string }[] }>('POST', '/secret', body)
      const secrets = [{ id: results[0]?.id ?? '', environmentId: id }]
      const share = () => project.ask<IssuedShare>('POST', '/secret-share', { secrets, expiresIn: 300 })
      const [before, , after] = await Promise.all([
        many(10, share),
        project.must('DELETE', `/environment/${id}`),
        many(10, share),
      ])
      const statuses = new Set([...before, ...after].map(({ status }) => status))
      expect([...statuses].filter((status) => status !== 201 && status !== 404)).toEqual([])
    }
    expect((await project.list()).filter(({ state }) => state === 'active')).toEqual([])
  })

  test('a share revoked during reads cannot be read afterwards', async () => {
    for (let round = 0; round < times(4, 10); round++) {
      const { id, token } = await project.make({ content: 'x', maxViews: 100 })
      const [statuses] = await Promise.all([many(32, (at) => read(token, {}, at)), project.revoke(id)])
      expect(statuses.every((status) => status === 200 || status === 404)).toBe(true)
      expect(await read(token, {}, round)).toBe(404)
      const { views, state } = await project.find(id)
      expect(state).toBe('revoked')
      expect(views).toBe(statuses.filter((status) => status === 200).length)
    }
  })
})

describe('a process that is killed', () => {
  let database: Database
  let raw: RawDatabase
  let serving: Serving
  let session: string
  const list = '/v1/workspace/main/project/killed/secret-share'

  beforeAll(async () => {
    database = await createDatabase({ hasSchema: true })
    serving = await serve(database.settings)
    const body = { email: 'owner@example.com', name: 'Owner', password, setupCode }
    session = (await serving.call<SignedIn>('POST', '/v1/auth/register', { body })).body.accessToken
    await createProject({ call: serving.call }, session, 'killed')
    raw = await openRaw(database)
  })
  afterAll(async () => {
    await raw.close()
    await serving.stop()
    await database.drop()
  })

  const make = async (maxViews: number) => {
    const body = { content: 'read once', expiresIn: 300, maxViews }
    return (await serving.call<IssuedShare>('POST', list, { token: session, body })).body
  }
  const find = async (id: string) => {
    const { body } = await serving.call<Share[]>('GET', list, { token: session })
    return body.find((share) => share.id === id)
  }
  const viewsOf = async (id: string) =>
    Number((await raw.query('select views from share where id = ?', [id]))[0]?.views)

  /** Sends the request and never reads the response. */
  function sendOff(token: string, claim: string): { leave(): void } {
    const body = JSON.stringify({ claim })
    const head = `POST /v1/share/${token}/view HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n`
    const socket = connect(serving.port, '127.0.0.1', () =>
      socket.write(`${head}Content-Length: ${body.length}\r\n\r\n${body}`),
    )
    // The kill resets the connection.
    socket.pause()
    socket.on('error', () => undefined)
    return { leave: () => void socket.destroy() }
  }

  async function restart(): Promise<void> {
    await serving.destroy()
    serving = await serve(database.settings)
  }

  test(
    'between a view and its response costs the reader with the claim nothing',
    async () => {
      const shares = await many(3, async () => ({ ...(await make(1)), claim: newClaim() }))
      const requests = shares.map(({ token, claim }) => sendOff(token, claim))
      for (const { id } of shares) {
        await until(async () => ((await viewsOf(id)) === 1 ? true : undefined), 120_000, 'the view is taken')
      }
      await restart()
      for (const request of requests) request.leave()
      const { view, meta } = readers(serving)
      for (const { id, token, claim } of shares) {
        expectGone(await view(token, { claim: newClaim() }), 'another claim')
        expectGone(await view(token), 'no claim')
        expectGone(await meta(token))
        expect((await view(token, { claim })).body).toEqual({ content: 'read once', viewsLeft: 0 })
        expect(await find(id)).toMatchObject({ views: 1, state: 'exhausted' })
      }
    },
    patienceMs,
  )

  test(
    'at any moment allows no extra view, and a reader with the claim always reads',
    async () => {
      for (let round = 0; round < times(2, 3); round++) {
        const shares = await many(6, async () => ({ ...(await make(2)), claims: [newClaim(), newClaim()] }))
        const requests: ReturnType<typeof sendOff>[] = []
        // At the kill, the first requests are done, the last are only sent, and the others are anywhere between.
        for (const [at, { id, token, claims }] of shares.entries()) {
          requests.push(...claims.map((claim) => sendOff(token, claim)))
          while (at < 4 && (await viewsOf(id)) === 0) await setImmediate()
        }
        // A little later each time.
        for (let look = 0; look < round; look++) await setImmediate()
        await restart()
        for (const request of requests) request.leave()
        const { view } = readers(serving)
        for (const { id, token, claims } of shares) {
          for (const claim of claims) {
            expect((await view(token, { claim })).body.content, `round ${round}`).toBe('read once')
          }
          expectGone(await view(token, { claim: newClaim() }))
          expect(await find(id)).toMatchObject({ views: 2, state: 'exhausted' })
        }
      }
      const { body } = await serving.call<AuditVerdict>('GET', '/v1/workspace/main/audit/verify', { token: session })
      expect(body.ok).toBe(true)
    },
    patienceMs,
  )
})
