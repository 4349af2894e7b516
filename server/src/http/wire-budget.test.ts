/** Byte budgets: unread large responses and unfinished large bodies of one client do not affect other clients. */
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import {
  type Answer,
  addUser,
  createProject,
  offline,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../test/harness.ts'
import { checkForm, sendOne as sendRawOne } from '../../../test/raw-answer.ts'
import { head, json, post as rawPost } from '../../../test/raw-request.ts'
import { open } from '../../../test/raw-socket.ts'
import { createSecretProject } from '../../../test/secret-project.ts'
import { until, withinSeconds } from '../../../test/wait.ts'
import { createByteBudgets } from './limits/byte-budget.ts'
import { maxBodyBytes } from './request/body.ts'

let service: TestService
let owner: TestUser

beforeAll(async () => {
  service = await startService({ COFFER_EXCHANGE_RATE_LIMIT: '0' }, offline)
  owner = await registerOwner(service)
})
afterAll(() => service.stop())

// An internal error is logged even if the connection closes before the response.
afterEach(() => {
  const failures = service.logs.splice(0).filter((line) => line.includes('"level":"error"'))
  expect(failures).toEqual([])
})

const bearer = () => `Authorization: Bearer ${owner.session}`
const teams = '/v1/workspace/main/team'
const post = (body: string | Buffer, ...headers: string[]) => rawPost(teams, body, bearer(), ...headers)
const sendOne = (bytes: string | Buffer) => sendRawOne(service.url, bytes)

describe('connections', () => {
  describe('a large response', () => {
    let alone: TestService
    let session: string
    let other: TestUser
    let path: string
    let fits: number
    const idle: Socket[] = []

    beforeAll(async () => {
      alone = await startService({}, { budgets: createByteBudgets({ waitMs: 500 }) })
      session = (await registerOwner(alone)).session
      const workspace = await alone.call<{ id: string }>('GET', '/v1/workspace/main', { token: session })
      other = await addUser(alone, 'other@example.com', { workspaceId: workspace.body.id, role: 'member' })
      const project = await createSecretProject(alone, session)
      const values = Object.fromEntries(Array.from({ length: 110 }, (_, at) => [`K${at}`, 'x'.repeat(60_000)]))
      await project.set('development', values)
      path = `${project.root}/secret?environmentId=development`
      const { headers } = await read()
      // One person may reserve half of the budget.
      fits = Math.floor((64 * 1024 * 1024) / Number(headers.get('content-length')))
    })
    afterAll(() => alone.stop())

    const read = (token = session) => alone.call('GET', path, { token })

    /** Requests it, and reads nothing of the response. */
    async function ask(requestPath = path): Promise<ServerResponse> {
      const arrived = new Promise<ServerResponse>((resolve) =>
        alone.app.server.once('request', (_request, response) => resolve(response)),
      )
      const socket = open(alone.url)
      idle.push(socket.on('error', () => undefined).pause())
      socket.write(`GET ${requestPath} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${session}\r\n\r\n`)
      return arrived
    }

    async function ofStatus(status: number): Promise<Answer | undefined> {
      const answer = await read()
      expect([200, 503]).toContain(answer.status)
      return answer.status === status ? answer : undefined
    }

    test('times out when its reader reads nothing', async () => {
      const response = await ask()
      await until(() => response.headersSent || undefined, 120_000, 'the response has begun')
      const { socket } = response.req
      expect(socket.timeout).toBe(300_000)
      const ended = new Promise((resolve) => socket.once('close', resolve))
      socket.setTimeout(100)
      await withinSeconds(120, ended)
    })

    test('times out as a stream too', async () => {
      const response = await ask('/v1/workspace/main/audit?format=ndjson')
      const timeoutSpy = vi.spyOn(response, 'setTimeout')
      await until(() => response.headersSent || undefined, 120_000, 'the response has begun')
      expect(timeoutSpy.mock.calls).toEqual([[300_000]])
    })

    test('to a write is refused before the write, never after it, when the budget is full', async () => {
      const half = 64 * 1024 * 1024
      await createProject(alone, session, 'changes')
      const root = '/v1/workspace/main/project/changes'
      const write = (key: string) => {
        const keys = Array.from({ length: 1_000 }, (_, at) => ({ key: `${key}_${at}`, value: '' }))
        return alone.call('POST', `${root}/secret`, {
          token: session,
          body: { environments: ['staging'], secrets: keys },
        })
      }
      const body = { content: 'x'.repeat(100_000), expiresIn: 3_600 }
      const share = await alone.call<{ token: string }>('POST', `${root}/secret-share`, { token: session, body })
      const { body: me } = await alone.call<{ id: string }>('GET', '/v1/me', { token: session })

      const { leaving } = alone.app.budgets
      const hold = (client: string) => leaving.reserveAnyway([client], half)
      const others = ['one', 'two'].map(hold)
      expect((await read()).status).toBe(503)
      const opened = await alone.call('POST', `/v1/share/${share.body.token}/view`)
      expect(opened).toMatchObject({ status: 200, body: { viewsLeft: 0 } })
      expect((await write('MADE')).status).toBe(201)
      for (const reservation of others) reservation.release()

      const own = hold(me.id)
      expect((await write('REFUSED')).status).toBe(503)
      own.release()
      expect((await write('REFUSED')).status).toBe(201)
    })

    test('to a closed connection uses no budget', async () => {
      for (let count = 0; count <= fits; count++) (await ask()).req.socket.destroy()
      expect((await read()).status).toBe(200)
    })

    test('is refused with 503 to a client with many unread responses, and to nobody else', async () => {
      for (let count = 0; count < fits; count++) {
        const response = await ask()
        await until(() => response.headersSent || undefined, 120_000, 'the response has begun')
      }
      const refused = await until(() => ofStatus(503), 120_000, 'the share of the client is used up')
      expect(refused.body).toEqual({ message: 'The service is busy; try again in a moment.' })
      expect(refused.headers.get('retry-after')).toBe('1')
      expect(refused.headers.has('etag')).toBe(false)
      const one = path.replace('/secret?', '/secret/K1?')
      expect((await alone.call('GET', one, { token: session })).status).toBe(200)
      expect((await read(other.session)).status).toBe(200)
      idle.pop()?.destroy()
      await until(() => ofStatus(200), 120_000, 'a closed connection frees its reservation')
    })
  })

  test('a client with many unfinished large bodies gets 503, and nobody else does', async () => {
    const other = await addUser(service, 'other@example.com')
    const length = maxBodyBytes - 1024
    const large = `{"name":"${'x'.repeat(length - 11)}"}`
    const idle: Socket[] = []
    const start = head(`POST ${teams} HTTP/1.1`, bearer(), json, `Content-Length: ${length}`)
    const { body: me } = await service.call<{ id: string }>('GET', '/v1/me', { token: owner.session })
    const isFull = () =>
      service.app.budgets.arriving.reserve([me.id], 8_192).then(
        (reservation) => void reservation.release(),
        () => true,
      )
    try {
      for (let count = 0; count < 4; count++) {
        const socket = open(service.url)
        idle.push(socket.on('error', () => undefined))
        socket.write(start + large.slice(0, -1))
      }
      await until(isFull, 120_000, 'four have arrived except for their last byte')
      const refused = await sendOne(post(large, json))
      expect(refused.status).toBe(503)
      expect(checkForm(refused, true)).toBe('The service is busy; try again in a moment.')
      expect((await service.call('GET', teams, { token: owner.session })).status).toBe(200)
      expect((await sendOne(post('{"name":1}', json))).status).toBe(400)
      expect((await service.call('POST', teams, { token: other.session, body: large })).status).toBe(400)
      idle.pop()?.destroy()
      await until(
        async () => ((await sendOne(post(large, json))).status === 400 ? true : undefined),
        120_000,
        'the budget is free again',
      )
    } finally {
      for (const socket of idle) socket.destroy()
    }
  })
})
