/** Unusual request lines, headers, paths and methods. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import {
  createProject,
  offline,
  password,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../test/harness.ts'
import { checkForm, sendOne as sendRawOne } from '../../../test/raw-answer.ts'
import { brokenLines, head, json, oversized } from '../../../test/raw-request.ts'
import { open, parseAnswers, receive, sendRaw } from '../../../test/raw-socket.ts'

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
const sendOne = (bytes: string | Buffer) => sendRawOne(service.url, bytes)

async function expectAnswer(bytes: string | Buffer, status: number, message: RegExp, isApi = true): Promise<void> {
  const answer = await sendOne(bytes)
  const said = checkForm(answer, isApi)
  expect(answer.status, said).toBe(status)
  expect(said).toMatch(message)
}

describe('request lines and headers', () => {
  const invalidHttp = /^This is not a valid HTTP request\.$/

  test.each(brokenLines)('refuses %s with 400', async (_what, bytes) => {
    const socket = open(service.url)
    const received = receive(socket)
    socket.end(typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes)
    const [answer] = parseAnswers(await received)
    if (!answer) throw new Error('no answer')
    expect(checkForm(answer, false)).toMatch(invalidHttp)
    expect(answer).toMatchObject({ status: 400 })
  })

  test.each(oversized)('refuses %s with 431', async (_what, bytes) => {
    await expectAnswer(bytes, 431, /^The request headers are too large\.$/, false)
  })

  test('a request without a Host gets an error in the usual form', async () => {
    const answer = await sendOne(`GET /v1/me HTTP/1.1\r\n${bearer()}\r\nConnection: close\r\n\r\n`)
    expect(answer.status).toBe(400)
    checkForm(answer, true)
  })

  test('an unknown Expect header is ignored: rate limit, authentication and response stay the same', async () => {
    const expecting = (line: string, ...headers: string[]) => head(line, 'Expect: pony', ...headers)
    const stranger = await sendOne(expecting('GET /v1/me HTTP/1.1'))
    checkForm(stranger, true)
    expect(stranger.status).toBe(401)
    const body = '{"name":"Expected"}'
    const rest = [bearer(), json, `Content-Length: ${body.length}`]
    const answer = await sendOne(expecting(`POST ${teams} HTTP/1.1`, ...rest) + body)
    checkForm(answer, true)
    expect(answer.status).toBe(201)
    const limited = await startService({ COFFER_RATE_LIMIT: '2' })
    try {
      const bytes = expecting('GET /v1/unknown HTTP/1.1')
      const statuses: (number | undefined)[] = []
      for (let at = 0; at < 3; at++) statuses.push((await sendRaw(limited.url, bytes))[0]?.status)
      expect(statuses).toEqual([404, 404, 429])
    } finally {
      await limited.stop()
    }
  })

  test('HTTP/0.9 and HTTP/1.0 get a response, and the connection is closed', async () => {
    const old = await sendOne('GET /v1/me\r\n\r\n')
    checkForm(old, true)
    expect(old.status).toBe(401)
    const older = await sendOne(`GET /v1/me HTTP/1.0\r\n${bearer()}\r\n\r\n`)
    checkForm(older, true)
    expect(older.status).toBe(200)
  })

  test('a client that sends Expect: 100-continue is told to continue', async () => {
    const body = '{"name":"Continued"}'
    const headers = [bearer(), json, 'Expect: 100-continue', `Content-Length: ${body.length}`]
    const answer = await sendOne(head(`POST ${teams} HTTP/1.1`, ...headers) + body)
    checkForm(answer, true)
    expect(answer.status).toBe(201)
  })

  test.each([
    ['an upgrade', ['Upgrade: websocket', 'Connection: Upgrade']],
    ['an upgrade to HTTP/2', ['Upgrade: h2c', 'HTTP2-Settings: AAMAAABkAAQAAP__']],
    ['a method override', ['X-HTTP-Method-Override: DELETE']],
    ['a path override', ['X-Original-URL: /v1/workspace', 'X-Rewrite-URL: /v1/workspace']],
  ])('%s is ignored', async (_what, headers) => {
    const answer = await sendOne(head('GET /v1/me HTTP/1.1', bearer(), ...headers))
    checkForm(answer, true)
    expect(JSON.parse(answer.body)).toMatchObject({ id: owner.id })
  })
})

describe('paths', () => {
  test.each([
    ['invalid percent-encoding', '/v1/%zz', 400],
    ['bytes that are not UTF-8', '/v1/workspace/%ff', 400],
    ['an encoded NUL', '/v1/workspace/a%00b', 400],
    ['an encoded slash', '/v1/workspace/a%2fb', 400],
    ['a very long parameter', `/v1/workspace/${'a'.repeat(10_000)}`, 400],
    ['a very long path', `/v1/${'a/'.repeat(7_000)}`, 404],
    ['an empty segment', '/v1//me', 404],
    ['parent segments', '/v1/../v1/me', 404],
    ['a semicolon', '/v1/me;a=b', 404],
    ['only the prefix', '/v1', 404],
    ['the prefix and a query', '/v1?a=b', 404],
    ['a query that cannot be decoded', '/v1/unknown?%zz=%ff', 404],
  ])('%s under /v1 gets a response with all headers', async (_what, path, status) => {
    const answer = await sendOne(head(`GET ${path} HTTP/1.1`, bearer()))
    checkForm(answer, true)
    expect(answer.status, answer.body).toBe(status)
  })

  test.each([
    ['two slashes', '//v1/me', 404],
    ['capitals', '/V1/me', 404],
    ['a longer prefix', '/v1x/me', 404],
    ['invalid percent-encoding', '/%zz', 400],
  ])('%s outside /v1 gets a response', async (_what, path, status) => {
    const answer = await sendOne(head(`GET ${path} HTTP/1.1`, bearer()))
    checkForm(answer, false)
    expect(answer.status).toBe(status)
    expect(answer.headers.has('ratelimit-limit')).toBe(false)
  })

  test.each([
    ['absolute', 'http://localhost/v1/me'],
    ['absolute with another scheme', 'https://other.example:1/v1/me'],
    ['percent-encoded', '/%76%31/me'],
    ['partly percent-encoded', '/v%31/m%65'],
  ])('a path in %s form is the same path: same rate limit, authentication and response', async (_what, path) => {
    const stranger = await sendOne(head(`GET ${path} HTTP/1.1`))
    checkForm(stranger, true)
    expect(stranger.status).toBe(401)
    const answer = await sendOne(head(`GET ${path} HTTP/1.1`, bearer()))
    checkForm(answer, true)
    expect(answer.status).toBe(200)
  })

  test.each([
    ['register', '/%76%31/auth/register'],
    ['login', 'http://localhost/v1/auth/login'],
  ])('%s is rate-limited under any spelling of its path', async (_what, path) => {
    const body = JSON.stringify({ email: 'nobody@example.com', name: 'Nobody', password })
    const bytes = head(`POST ${path} HTTP/1.1`, json, `Content-Length: ${body.length}`) + body
    const answer = await sendOne(bytes)
    checkForm(answer, true)
    expect(answer.status).toBeLessThan(500)
  })
})

describe('methods that no route has', () => {
  const known = ['/v1/me', '/v1/auth/exchange', teams, `${teams}/`]
  const unknown = ['/v1/unknown', '/v1/workspace/main/unknown/deep']

  test.each(['OPTIONS', 'PATCH', 'TRACE', 'PROPFIND', 'QUERY'])('%s is not found anywhere', async (method) => {
    for (const path of [...known, ...unknown]) {
      await expectAnswer(head(`${method} ${path} HTTP/1.1`, bearer()), 404, /^Not found\.$/)
    }
    await expectAnswer(head(`${method} /healthz HTTP/1.1`), 404, /^Not found\.$/, false)
    await expectAnswer(head(`${method} / HTTP/1.1`), 404, /^Not found\.$/, false)
  })

  test('a request with a body of any type is not found either', async () => {
    const rest = ['Content-Type: text/plain', 'Content-Length: 2']
    await expectAnswer(`${head('PATCH /v1/me HTTP/1.1', ...rest)}hi`, 404, /^Not found\.$/)
    await expectAnswer(`${head('POST /v1/unknown HTTP/1.1', ...rest)}hi`, 404, /^Not found\.$/)
    await expectAnswer(`${head('OPTIONS * HTTP/1.1', ...rest)}hi`, 404, /^Not found\.$/, false)
  })

  test('TRACE echoes nothing', async () => {
    const answer = await sendOne(head('TRACE /v1/me HTTP/1.1', bearer(), 'X-Echo: secret-echo'))
    expect(JSON.stringify([answer.body, ...answer.headers])).not.toMatch(/secret-echo|cof_sess_/)
  })

  test('CONNECT opens no tunnel', async () => {
    expect(await sendRaw(service.url, head('CONNECT localhost:80 HTTP/1.1'))).toEqual([])
  })

  test.each([
    ['/v1/me', 200],
    [teams, 200],
    ['/v1/workspace/nope', 404],
    ['/v1/auth/exchange', 404],
    ['/v1/unknown', 404],
    ['/v1/%zz', 400],
  ])('HEAD %s has the status and headers of a GET, and no body', async (path, status) => {
    const [answer, ...more] = await sendRaw(service.url, head(`HEAD ${path} HTTP/1.1`, bearer()), false)
    expect(more).toEqual([])
    if (!answer) throw new Error('no answer')
    expect(answer.status).toBe(status)
    checkForm({ ...answer, status: 200 }, true)
  })

  test('HEAD needs a credential where GET does', async () => {
    const [answer] = await sendRaw(service.url, head('HEAD /v1/me HTTP/1.1'), false)
    expect(answer).toMatchObject({ status: 401 })
    expect(answer?.headers.get('www-authenticate')).toBe('Bearer')
  })
})
