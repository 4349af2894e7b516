/** Unusual connections: pipelined, half-open, slow or aborted. */
import type { ServerResponse } from 'node:http'
import { connect, type Socket } from 'node:net'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import {
  type Answer,
  addUser,
  createProject,
  createToken,
  offline,
  password,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../test/harness.ts'
import { until, withinSeconds } from '../../../test/program.ts'
import { head, json } from '../../../test/raw-request.ts'
import { open, parseAnswers, type RawAnswer, receive, sendRaw } from '../../../test/raw-socket.ts'
import { createSecretProject } from '../../../test/secret-project.ts'
import { createByteBudgets } from './limits/byte-budget.ts'
import { maxBodyBytes } from './request/body.ts'

let service: TestService
let owner: TestUser

beforeAll(async () => {
  service = await startService({ COFFER_EXCHANGE_RATE_LIMIT: '0' }, offline)
  owner = await registerOwner(service)
  await createProject(service, owner.session, 'api')
})
afterAll(() => service.stop())

// An internal error is logged even if the connection closes before the response.
afterEach(() => {
  const failures = service.logs.splice(0).filter((line) => line.includes('"level":"error"'))
  expect(failures).toEqual([])
})

const bearer = () => `Authorization: Bearer ${owner.session}`
const teams = '/v1/workspace/main/team'
const secrets = '/v1/workspace/main/project/api/secret'

/** A request with a body of exactly these bytes. */
function post(body: string | Buffer, ...headers: string[]): Buffer {
  const bytes = Buffer.from(body)
  return Buffer.concat([
    Buffer.from(head(`POST ${teams} HTTP/1.1`, bearer(), ...headers, `Content-Length: ${bytes.length}`)),
    bytes,
  ])
}

async function sendOne(bytes: string | Buffer): Promise<RawAnswer> {
  const answers = await sendRaw(service.url, bytes)
  expect(answers).toHaveLength(1)
  const [answer] = answers
  if (!answer) throw new Error('no answer')
  return answer
}

/** Checks the headers of every response; an error is a message and nothing else. */
function checkForm(answer: RawAnswer, isApi: boolean): string {
  const where = JSON.stringify({ ...answer, headers: [...answer.headers] })
  expect(answer.headers.get('x-request-id'), where).toMatch(/^[\w-]{8,}$/)
  if (isApi) {
    expect(answer.headers.get('cache-control'), where).toBe('no-store')
    for (const name of ['ratelimit-limit', 'ratelimit-remaining', 'ratelimit-reset']) {
      expect(answer.headers.get(name), where).toMatch(/^\d+$/)
    }
  }
  if (answer.status < 400) return ''
  expect(answer.headers.get('content-type'), where).toBe('application/json; charset=utf-8')
  const body: Record<string, unknown> = JSON.parse(answer.body)
  expect(Object.keys(body), where).toEqual(['message'])
  expect(body.message, where).toMatch(/^[A-Za-z_].*\.$/)
  return String(body.message)
}

describe('connections', () => {
  test('a connection that sends something other than HTTP is closed', async () => {
    const alone = await startService()
    const { hostname, port } = new URL(alone.url)
    const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true })
    const open = () => new Promise<number>((resolve) => alone.app.server.getConnections((_, count) => resolve(count)))
    try {
      socket.on('error', () => undefined).resume()
      socket.write('GARBAGE\r\n\r\n')
      await new Promise((resolve) => socket.once('end', resolve))
      expect(await open()).toBe(1)
      await until(async () => (await open()) === 0 || undefined, 30_000, 'the socket is closed')
    } finally {
      socket.destroy()
      await alone.stop()
    }
  })

  test('pipelined requests each get a response, in order', async () => {
    const keep = (line: string, ...headers: string[]) =>
      [line, 'Host: localhost', bearer(), ...headers, '', ''].join('\r\n')
    const body = '{"name":"Pipelined"}'
    const bytes = [
      keep('GET /v1/me HTTP/1.1'),
      keep('GET /v1/unknown HTTP/1.1'),
      keep(`POST ${teams} HTTP/1.1`, json, `Content-Length: ${body.length}`) + body,
      keep('GET /v1/%zz HTTP/1.1'),
      head('GET /v1/me HTTP/1.1', bearer()),
    ]
    const answers = await sendRaw(service.url, bytes.join(''))
    for (const answer of answers) checkForm(answer, true)
    expect(answers.map(({ status }) => status)).toEqual([200, 404, 201, 400, 200])
    expect(new Set(answers.map(({ headers }) => headers.get('x-request-id'))).size).toBe(5)
  })

  test('a connection with too many pipelined requests is closed, and the rest of them is not read', async () => {
    const page = 'GET /docs HTTP/1.1\r\nHost: localhost\r\n\r\n'
    let count = 0
    const onRequest = () => count++
    service.app.server.on('request', onRequest)
    try {
      const socket = open(service.url)
      const ended = new Promise((resolve) => socket.on('error', () => undefined).on('close', resolve))
      socket.resume().write(page.repeat(10_000))
      await withinSeconds(20, ended)
      expect(count).toBeLessThanOrEqual(102)
    } finally {
      service.app.server.off('request', onRequest)
    }
    const last = head('GET /docs HTTP/1.1')
    expect(await sendRaw(service.url, page.repeat(100) + last)).toHaveLength(101)
  })

  const whole = (line: string, body?: string, ...headers: string[]) => {
    const own = body === undefined ? [] : [json, `Content-Length: ${body.length}`]
    return [line, 'Host: localhost', ...own, ...headers, '', body ?? ''].join('\r\n')
  }
  const login = () => whole('POST /v1/auth/login HTTP/1.1', JSON.stringify({ email: owner.email, password }))
  const garbage = 'GARBAGE\r\n\r\n'

  test.each<[what: string, bytes: () => string, statuses: number[]]>([
    ['a slow request', () => login() + garbage, [200, 400]],
    ['a request without a body', () => whole('GET /v1/me HTTP/1.1', undefined, bearer()) + garbage, [200, 400]],
    ['a request with an immediate response', () => whole('GET /v1/unknown HTTP/1.1') + garbage, [404, 400]],
    [
      'several',
      () =>
        [
          whole('GET /v1/me HTTP/1.1', undefined, bearer()),
          login(),
          whole(`POST ${teams} HTTP/1.1`, '{"name":"Before garbage"}', bearer()),
          whole('GET /v1/unknown HTTP/1.1'),
          garbage,
        ].join(''),
      [200, 200, 201, 404, 400],
    ],
    [
      'a request, inside the body of the next one,',
      () =>
        `${login()}${whole(`POST ${teams} HTTP/1.1`, undefined, bearer(), json, 'Transfer-Encoding: chunked')}zz\r\n`,
      [200, 400],
    ],
    [
      'a request that closes the connection',
      () => login().replace('\r\n', '\r\nConnection: close\r\n') + garbage,
      [200],
    ],
  ])('malformed bytes after %s are handled in order', async (_what, bytes, statuses) => {
    const answers = await sendRaw(service.url, bytes())
    for (const answer of answers) checkForm(answer, false)
    expect(answers.map(({ status }) => status)).toEqual(statuses)
  })

  test('malformed bytes get one response, even if more of them arrive before it', async () => {
    const socket = open(service.url)
    const received = receive(socket)
    socket.write(login() + garbage)
    for (let at = 0; at < 5; at++) {
      await new Promise((resolve) => setImmediate(resolve))
      socket.write(garbage)
    }
    expect(parseAnswers(await received).map(({ status }) => status)).toEqual([200, 400])
  })

  test('bytes after a request belong to the next one', async () => {
    const bytes = `GET /v1/unknown HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nGET /${head('GET /v1/me HTTP/1.1', bearer())}`
    const answers = await sendRaw(service.url, bytes)
    expect(answers.map(({ status }) => status)).toEqual([404, 200])
  })

  test('incomplete requests on many connections do not block others', async () => {
    const parts = [
      'GET /v1/me HT',
      'GET /v1/me HTTP/1.1\r\nHost: lo',
      `${head('GET /v1/me HTTP/1.1').slice(0, -2)}X-A: `,
    ]
    const slow = Array.from({ length: 120 }, (_, at) => {
      const socket = open(service.url)
      socket.on('error', () => undefined)
      const body = head(`POST ${teams} HTTP/1.1`, bearer(), json, 'Content-Length: 1000')
      socket.write(parts[at % 4] ?? `${body}{"name":`)
      return socket
    })
    try {
      const startedAt = performance.now()
      for (let at = 0; at < 20; at++) {
        expect((await service.call('GET', '/v1/me', { token: owner.session })).status).toBe(200)
      }
      expect(performance.now() - startedAt).toBeLessThan(10_000)
    } finally {
      for (const socket of slow) socket.destroy()
    }
  })

  test('a half-closed connection still gets its response, alone or among many', async () => {
    const requestPath = (index: number) =>
      index % 2 === 0 ? head('GET /v1/me HTTP/1.1', bearer()) : post(`{"name":"Half open ${index}"}`, json)
    const askAndClose = async (_: unknown, index: number) => {
      const socket = open(service.url)
      const received = receive(socket)
      socket.end(requestPath(index))
      return parseAnswers(await received).map(({ status }) => status)
    }
    expect(await askAndClose(undefined, 1)).toEqual([201])
    const statuses = await Promise.all(Array.from({ length: 30 }, (_, index) => askAndClose(_, index + 2)))
    expect(statuses).toEqual(statuses.map((_, index) => [index % 2 === 0 ? 200 : 201]))
  })

  test('a stop waits for the requests in flight, not for their connections to time out', async () => {
    const alone = await startService()
    const body = { email: owner.email, name: 'Owner', password }
    const arrived = new Promise<void>((resolve) => alone.app.server.once('request', () => resolve()))
    const registering = alone.call('POST', '/v1/auth/register', { body })
    await arrived
    const givenUp = vi.spyOn(alone.app.server, 'closeAllConnections')
    const stopping = alone.stop()
    try {
      expect((await registering).status).toBe(201)
      await stopping
      expect(givenUp).not.toHaveBeenCalled()
    } finally {
      alone.app.server.closeAllConnections()
      await stopping
    }
  })

  test('a credential that ends while its request body arrives has no effect', async () => {
    const { id, token } = await createToken(service, owner.session)
    const body = '{"environments":["development"],"secrets":[{"key":"LATE","value":"x"}],"mode":"upsert"}'
    const begin = (credential: string) => {
      const socket = open(service.url)
      const received = receive(socket)
      const length = `Content-Length: ${body.length}`
      socket.write(
        head(`POST ${secrets} HTTP/1.1`, `Authorization: Bearer ${credential}`, json, length) + body.slice(0, 9),
      )
      return async () => {
        socket.end(body.slice(9))
        return parseAnswers(await received).map(({ status }) => status)
      }
    }
    const arrived = new Promise<void>((resolve) => {
      let count = 0
      const onRequest = () => {
        if (++count < 2) return
        service.app.server.off('request', onRequest)
        resolve()
      }
      service.app.server.on('request', onRequest)
    })
    const [finishOurs, finishOther] = [begin(token), begin(owner.session)]
    await arrived
    const path = `/v1/workspace/main/tokens/${id}`
    expect((await service.call('DELETE', path, { token: owner.session })).status).toBe(200)
    service.clock.offsetMs += 1_000
    expect(await finishOurs()).toEqual([401])
    expect(await finishOther()).toEqual([201])
  })

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
      await until(() => response.headersSent || undefined, 20_000, 'the response has begun')
      const { socket } = response.req
      expect(socket.timeout).toBe(300_000)
      const ended = new Promise((resolve) => socket.once('close', resolve))
      socket.setTimeout(100)
      await withinSeconds(20, ended)
    })

    test('times out as a stream too', async () => {
      const response = await ask('/v1/workspace/main/audit?format=ndjson')
      const timeoutSpy = vi.spyOn(response, 'setTimeout')
      await until(() => response.headersSent || undefined, 20_000, 'the response has begun')
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
      const hold = (client: string) => leaving.take({ client, workspace: undefined, hasCredential: true }, half)
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
        await until(() => response.headersSent || undefined, 20_000, 'the response has begun')
      }
      const refused = await until(() => ofStatus(503), 20_000, 'the share of the client is used up')
      expect(refused.body).toEqual({ message: 'The service is busy; try again in a moment.' })
      expect(refused.headers.get('retry-after')).toBe('1')
      expect(refused.headers.has('etag')).toBe(false)
      const one = path.replace('/secret?', '/secret/K1?')
      expect((await alone.call('GET', one, { token: session })).status).toBe(200)
      expect((await read(other.session)).status).toBe(200)
      idle.pop()?.destroy()
      await until(() => ofStatus(200), 20_000, 'a closed connection frees its reservation')
    })
  })

  test('a client with many unfinished large bodies gets 503, and nobody else does', async () => {
    const other = await addUser(service, 'other@example.com')
    const length = maxBodyBytes - 1024
    const large = `{"name":"${'x'.repeat(length - 11)}"}`
    const idle: Socket[] = []
    const start = head(`POST ${teams} HTTP/1.1`, bearer(), json, `Content-Length: ${length}`)
    const { body: me } = await service.call<{ id: string }>('GET', '/v1/me', { token: owner.session })
    // Another body that comes before these have arrived would take the place of one of them.
    const isFull = () => {
      try {
        const holder = { client: me.id, workspace: undefined, hasCredential: true }
        service.app.budgets.arriving.take(holder, 8_192).release()
      } catch {
        return true
      }
      return undefined
    }
    try {
      for (let count = 0; count < 4; count++) {
        const socket = open(service.url)
        idle.push(socket.on('error', () => undefined))
        socket.write(start + large.slice(0, -1))
      }
      await until(isFull, 20_000, 'four have arrived except for their last byte')
      const refused = await sendOne(post(large, json))
      expect(refused.status).toBe(503)
      expect(checkForm(refused, true)).toBe('The service is busy; try again in a moment.')
      expect((await service.call('GET', teams, { token: owner.session })).status).toBe(200)
      expect((await sendOne(post('{"name":1}', json))).status).toBe(400)
      expect((await service.call('POST', teams, { token: other.session, body: large })).status).toBe(400)
      idle.pop()?.destroy()
      await until(
        async () => ((await sendOne(post(large, json))).status === 400 ? true : undefined),
        20_000,
        'the budget is free again',
      )
    } finally {
      for (const socket of idle) socket.destroy()
    }
  })

  test('a request that never arrives completely times out', () => {
    const { headersTimeout, requestTimeout } = service.app.server
    expect(headersTimeout).toBeGreaterThan(0)
    expect(headersTimeout).toBeLessThanOrEqual(60_000)
    expect(requestTimeout).toBe(60_000)
  })
})
