/** Unusual connections: pipelined, half-open, slow or aborted. */
import { connect } from 'node:net'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import {
  createProject,
  createToken,
  offline,
  password,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../test/harness.ts'
import { checkForm } from '../../../test/raw-answer.ts'
import { head, json, post as rawPost } from '../../../test/raw-request.ts'
import { open, parseAnswers, receive, sendRaw } from '../../../test/raw-socket.ts'
import { setupCode } from '../../../test/setup-code.ts'
import { until, withinSeconds } from '../../../test/wait.ts'

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
const post = (body: string | Buffer, ...headers: string[]) => rawPost(teams, body, bearer(), ...headers)

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
      await until(async () => (await open()) === 0 || undefined, 120_000, 'the socket is closed')
    } finally {
      socket.destroy()
      await alone.stop()
    }
  })

  const keep = (line: string, ...headers: string[]) =>
    [line, 'Host: localhost', bearer(), ...headers, '', ''].join('\r\n')
  const put = (name: string) => {
    const body = JSON.stringify({ name })
    return keep(`POST ${teams} HTTP/1.1`, json, `Content-Length: ${body.length}`) + body
  }
  const teamsNow = async () =>
    (await service.call<{ name: string }[]>('GET', teams, { token: owner.session })).body.map(({ name }) => name)

  test('of pipelined requests the first gets its response and the connection ends; the others have no effect', async () => {
    const bytes = [put('Answered'), put('Dropped'), keep('GET /v1/me HTTP/1.1'), head('GET /v1/me HTTP/1.1', bearer())]
    const answers = await sendRaw(service.url, bytes.join(''))
    for (const answer of answers) checkForm(answer, true)
    expect(answers.map(({ status, headers }) => [status, headers.get('connection')])).toEqual([[201, 'close']])
    expect(await teamsNow()).toContain('Answered')
    expect(await teamsNow()).not.toContain('Dropped')
    // The client sends it again on a new connection.
    expect((await sendRaw(service.url, put('Dropped') + head('GET /v1/me HTTP/1.1')))[0]?.status).toBe(201)
    expect(await teamsNow()).toContain('Dropped')
  })

  test('a client that sends a large body behind an unanswered request reads the response, and no reset', async () => {
    const socket = open(service.url)
    const errors: Error[] = []
    const received = receive(socket.on('error', (error) => errors.push(error)))
    const length = 7 * 1024 * 1024
    const large = keep(`POST ${teams} HTTP/1.1`, json, `Content-Length: ${length}`) + 'x'.repeat(length)
    socket.write(put('Before a large body') + large)
    expect(parseAnswers(await received).map(({ status }) => status)).toEqual([201])
    expect(errors).toEqual([])
  })

  test('a client that does not close its side reads the response and the end, and is disconnected', async () => {
    const { hostname, port } = new URL(service.url)
    const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true })
    const disconnected = new Promise((resolve) =>
      service.app.server.once('request', (request) => request.socket.once('close', resolve)),
    )
    const chunks: Buffer[] = []
    const ended = new Promise((resolve) => socket.on('data', (chunk) => chunks.push(chunk)).once('end', resolve))
    try {
      socket.write(put('Half closed') + put('Dropped too'))
      await withinSeconds(120, ended)
      expect(parseAnswers(Buffer.concat(chunks)).map(({ status }) => status)).toEqual([201])
      socket.write(put('Too late'))
      await withinSeconds(120, disconnected)
      for (const name of ['Dropped too', 'Too late']) expect(await teamsNow()).not.toContain(name)
    } finally {
      socket.destroy()
    }
  })

  test('a client that sends each request as soon as the response has arrived is never disconnected', async () => {
    const socket = open(service.url)
    let received = ''
    for (let count = 1; count <= 300; count++) {
      const path = count % 2 === 0 ? '/v1/unknown' : '/v1/me'
      const answered = new Promise<void>((resolve, reject) => {
        socket.once('data', (bytes) => {
          received += bytes
          resolve()
        })
        socket.once('close', reject)
      })
      socket.write(keep(`GET ${path} HTTP/1.1`))
      await answered
      socket.removeAllListeners('close')
    }
    expect(received.match(/HTTP\/1.1 (200|404)/g)).toHaveLength(300)
    socket.destroy()
  })

  test('pipelined requests are not read beyond the first that is dropped', async () => {
    const page = 'GET /docs HTTP/1.1\r\nHost: localhost\r\n\r\n'
    let count = 0
    const onRequest = () => count++
    service.app.server.on('request', onRequest)
    try {
      const socket = open(service.url)
      const ended = new Promise((resolve) => socket.on('error', () => undefined).on('close', resolve))
      socket.resume().write(page.repeat(10_000))
      await withinSeconds(120, ended)
      // At most two get a response: one that was just answered, and the next.
      expect(count).toBeLessThanOrEqual(3)
    } finally {
      service.app.server.off('request', onRequest)
    }
  })

  const whole = (line: string, body?: string, ...headers: string[]) => {
    const own = body === undefined ? [] : [json, `Content-Length: ${body.length}`]
    return [line, 'Host: localhost', ...own, ...headers, '', body ?? ''].join('\r\n')
  }
  const login = () => whole('POST /v1/auth/login HTTP/1.1', JSON.stringify({ email: owner.email, password }))
  const garbage = 'GARBAGE\r\n\r\n'

  test.each<[what: string, bytes: () => string, status: number]>([
    ['a slow request', () => login() + garbage, 200],
    ['a request without a body', () => whole('GET /v1/me HTTP/1.1', undefined, bearer()) + garbage, 200],
    ['a request with an immediate response', () => whole('GET /v1/unknown HTTP/1.1') + garbage, 404],
    [
      'several',
      () => [login(), whole(`POST ${teams} HTTP/1.1`, '{"name":"Garbage"}', bearer()), garbage].join(''),
      200,
    ],
    [
      'a request, inside the body of the next one,',
      () =>
        `${login()}${whole(`POST ${teams} HTTP/1.1`, undefined, bearer(), json, 'Transfer-Encoding: chunked')}zz\r\n`,
      200,
    ],
    ['a request that closes the connection', () => login().replace('\r\n', '\r\nConnection: close\r\n') + garbage, 200],
  ])(
    'malformed bytes after %s cost nobody its response, and the connection ends after it',
    async (_what, bytes, status) => {
      const answers = await sendRaw(service.url, bytes())
      for (const answer of answers) checkForm(answer, false)
      expect(answers.map(({ status }) => status)).toEqual([status])
    },
  )

  test('malformed bytes during a response get none, even if more of them arrive before it', async () => {
    const socket = open(service.url)
    const received = receive(socket)
    socket.write(login() + garbage)
    for (let at = 0; at < 5; at++) {
      await new Promise((resolve) => setImmediate(resolve))
      socket.write(garbage)
    }
    expect(parseAnswers(await received).map(({ status }) => status)).toEqual([200])
  })

  test('bytes after a request belong to the next one', async () => {
    const socket = open(service.url)
    const answers = receive(socket).then(parseAnswers)
    socket.write('GET /v1/unknown HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nGET /')
    await new Promise((resolve) => socket.once('data', resolve))
    socket.write(head('GET /v1/me HTTP/1.1', bearer()))
    expect((await answers).map(({ status }) => status)).toEqual([404, 200])
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
      expect(performance.now() - startedAt).toBeLessThan(50_000)
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
    const body = { email: owner.email, name: 'Owner', password, setupCode }
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

  test('a request that never arrives completely times out', () => {
    const { headersTimeout, requestTimeout } = service.app.server
    expect(headersTimeout).toBeGreaterThan(0)
    expect(headersTimeout).toBeLessThanOrEqual(60_000)
    expect(requestTimeout).toBe(60_000)
  })
})
