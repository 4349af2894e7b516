/** What comes over the wire: bodies, request lines, headers, paths, methods and connections, as no client of ours sends them. */
import type { ServerResponse } from 'node:http'
import { connect, type Socket } from 'node:net'
import { endpoints } from '@coffer/contract/api'
import { type Endpoint, maxPublicBodyBytes } from '@coffer/contract/endpoint'
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
import { brokenLengths, brokenLines, chunked, head, json, oversized } from '../../../test/raw-request.ts'
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

// A request that fails on our side is logged as an error, also where its connection is gone before the answer.
afterEach(() => {
  const failures = service.logs.splice(0).filter((line) => line.includes('"level":"error"'))
  expect(failures).toEqual([])
})

const withBody = Object.entries<Endpoint>(endpoints).filter(([, { method }]) => method !== 'GET')

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

/** What stands on every answer; an error is a message and nothing else. */
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

async function expectAnswer(bytes: string | Buffer, status: number, message: RegExp, isApi = true): Promise<void> {
  const answer = await sendOne(bytes)
  const said = checkForm(answer, isApi)
  expect(answer.status, said).toBe(status)
  expect(said).toMatch(message)
}

describe('bodies on the wire', () => {
  const notJson = /^body: is not valid JSON\.$/
  const tooDeep = /^body: is nested more than 32 levels deep\.$/
  const notUtf8 = /^body: is not valid UTF-8\.$/
  const notObject = /^body: must be an object\.$/
  const notText = /^name: must be a string\.$/
  const sendJson = /^Send JSON/

  test.each<[string, string | Buffer, RegExp]>([
    ['bad JSON', '{"name":', notJson],
    ['JSON with something after it', '{"name":"a"} x', notJson],
    ['single quotes', "{'name':'a'}", notJson],
    ['NaN', '{"name":NaN}', notJson],
    ['a raw control character in a string', '{"name":"a\u0001"}', notJson],
    ['10,000 open brackets', '['.repeat(10_000), notJson],
    ['10,000 nested lists in a field', `{"name":${'['.repeat(10_000)}${']'.repeat(10_000)}}`, notText],
    [
      '5,000 nested surrogates',
      `{"name":${'["\\ud800",'.repeat(5_000)}1${']'.repeat(5_000)}}`,
      /^body: contains an unpaired surrogate/,
    ],
    ['100,000 open brackets', '['.repeat(100_000), tooDeep],
    ['100,000 nested lists', '['.repeat(100_000) + ']'.repeat(100_000), tooDeep],
    ['100,000 nested lists in a field', `{"name":${'['.repeat(100_000)}${']'.repeat(100_000)}}`, tooDeep],
    ['100,000 nested objects in a field', `{"name":${'{"a":'.repeat(100_000)}1${'}'.repeat(100_000)}}`, tooDeep],
    ['100,000 nested surrogates', `{"name":${'["\\ud800",'.repeat(100_000)}1${']'.repeat(100_000)}}`, tooDeep],
    ['a million fields', `{${Array.from({ length: 300_000 }, (_, at) => `"f${at}":1`).join()}}`, /^(name|f0): /],
    ['a list for an object', '[]', notObject],
    ['null', 'null', notObject],
    ['a text', '"name"', notObject],
    ['a number beyond all numbers', '{"name":1e999}', notText],
    ['half of a surrogate pair', '{"name":"\\ud800"}', /^body: contains an unpaired surrogate/],
    ['half of a surrogate pair in a name', '{"\\udc00":1}', /^body: contains an unpaired surrogate/],
    ['invalid UTF-8', Buffer.from([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x7d]), notUtf8],
    ['UTF-8 longer than needed', Buffer.from([0x22, 0xc0, 0xaf, 0x22]), notUtf8],
    ['a surrogate in UTF-8', Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22]), notUtf8],
    ['UTF-16', Buffer.from('\ufeff{"name":"é"}', 'utf16le'), notUtf8],
  ])('refuses %s with 400', async (_what, body, message) => {
    await expectAnswer(post(body, json), 400, message)
  })

  test('of a field that is given twice, the last one counts', async () => {
    const answer = await sendOne(post('{"name":"First","name":"Second"}', json))
    checkForm(answer, true)
    expect(answer.status).toBe(201)
    expect(JSON.parse(answer.body)).toMatchObject({ name: 'Second' })
  })

  test.each([
    ['a byte order mark', '\ufeff{"name":"Marked"}', json],
    ['white space around it', ' \r\n\t{"name":"Spaced"}\n', json],
    ['a charset', '{"name":"Charset"}', 'Content-Type: application/json; charset=utf-8'],
    ['a charset in capitals and quotes', '{"name":"Quoted"}', 'Content-Type: APPLICATION/JSON; CHARSET="UTF-8"'],
    ['pairs of surrogates', '{"name":"\\ud83d\\ude00"}', json],
  ])('accepts JSON with %s', async (_what, body, type) => {
    const answer = await sendOne(post(body, type))
    checkForm(answer, true)
    expect(answer.status, answer.body).toBe(201)
  })

  test.each([
    ['text', 'Content-Type: text/plain'],
    ['a form', 'Content-Type: application/x-www-form-urlencoded'],
    ['a multipart form', 'Content-Type: multipart/form-data; boundary=x'],
    ['latin1', 'Content-Type: application/json; charset=iso-8859-1'],
    ['UTF-16', 'Content-Type: application/json; charset=utf-16'],
    ['another kind of JSON', 'Content-Type: application/vnd.api+json'],
    ['a longer word', 'Content-Type: application/jsonx'],
    ['XML', 'Content-Type: application/xml'],
    ['no type', 'X-No-Type: 1'],
    ['an empty type', 'Content-Type:'],
    ['gzip', `${json}\r\nContent-Encoding: gzip`],
    ['several encodings', `${json}\r\nContent-Encoding: identity, br`],
  ])('refuses %s with 415', async (_what, headers) => {
    await expectAnswer(post('{"name":"a"}', headers), 415, sendJson)
  })

  test.each([
    ['by its length', (body: string) => post(body, json)],
    [
      'while it arrives',
      (body: string) => chunked(teams, [body.slice(0, 5_000_000), body.slice(5_000_000)], bearer(), json),
    ],
  ])('parses exactly 8 MiB and refuses one byte more %s', async (_how, make) => {
    const frame = '{"name":""}'.length
    const largest = `{"name":"${'x'.repeat(maxBodyBytes - frame)}"}`
    await expectAnswer(make(largest), 400, /^name: must have 64 characters or fewer\.$/)
    await expectAnswer(make(`${largest} `), 413, /^The request body is larger than 8 MiB\.$/)
  })

  test.each(withBody.filter(([, { permission }]) => permission === 'public'))(
    '%s, which needs no credential, reads 64 KiB at most',
    async (_name, { method, path }) => {
      const place = path.replace(/:\w+/g, 'none')
      const whole = (body: string) =>
        head(`${method} ${place} HTTP/1.1`, json, `Content-Length: ${Buffer.byteLength(body)}`) + body
      const inChunks = (body: string) => chunked(place, [body.slice(0, 60_000), body.slice(60_000)], json)
      const largest = `{"unknown":"${'x'.repeat(maxPublicBodyBytes - '{"unknown":""}'.length)}"}`
      for (const make of [whole, inChunks]) {
        await expectAnswer(make(largest), 400, /^\w+: /)
        await expectAnswer(make(`${largest} `), 413, /^The request body is larger than 64 KiB\.$/)
      }
    },
  )

  test.each([
    ['of a known length', (body: string) => post(body, json)],
    ['in chunks', (body: string) => chunked(teams, [body.slice(0, 9_000_000), body.slice(9_000_000)], bearer(), json)],
    ['over a connection that ends with it', (body: string) => post(body, `${json}\r\nConnection: close`)],
  ])('whoever sends 30 MB %s before they read is told why they are refused', async (_how, make) => {
    const socket = open(service.url)
    socket.pause()
    await new Promise<void>((resolve, reject) => {
      socket.once('error', reject)
      socket.write(make(`{"name":"${'x'.repeat(30_000_000)}"}`), () => resolve())
    })
    const received = receive(socket)
    socket.resume()
    const [answer] = parseAnswers(await received)
    expect(answer).toMatchObject({ status: 413, body: '{"message":"The request body is larger than 8 MiB."}' })
  })

  test('what is refused is not read for ever', async () => {
    const socket = open(service.url)
    const received = receive(socket)
    socket.on('error', () => undefined)
    socket.write(head(`POST ${teams} HTTP/1.1`, bearer(), json, 'Transfer-Encoding: chunked'))
    const chunk = `${(1_000_000).toString(16)}\r\n${'x'.repeat(1_000_000)}\r\n`
    let sent = 0
    while (
      !socket.destroyed &&
      sent < 400 &&
      (await new Promise((resolve) => socket.write(chunk, (error) => resolve(!error))))
    )
      sent++
    await received.catch(() => undefined)
    expect(sent).toBeGreaterThan(60)
    expect(sent).toBeLessThan(200)
  })

  test('a length beyond 8 MiB is refused before the body is sent', async () => {
    const bytes = head(`POST ${teams} HTTP/1.1`, bearer(), json, 'Content-Length: 9000000000')
    await expectAnswer(bytes, 413, /^The request body is larger than 8 MiB\.$/)
  })

  test('a chunked body is read like any other', async () => {
    const answer = await sendOne(chunked(teams, ['{"na', 'me":"Chu', 'nked"}'], bearer(), json))
    checkForm(answer, true)
    expect(answer.status).toBe(201)
    await expectAnswer(chunked(teams, ['{"na'], bearer(), json), 400, notJson)
    await expectAnswer(chunked(teams, ['{"name":"a"}'], bearer(), 'Content-Type: text/plain'), 415, sendJson)
  })

  test('a chunked body of no type is refused with 415, and the connection serves the next request', async () => {
    const keep = ['Host: localhost', bearer(), 'Transfer-Encoding: chunked', '', '']
    const body = `6\r\n{"name\r\n30d40\r\n${'x'.repeat(200_000)}\r\n0\r\n\r\n`
    const bytes = [`POST ${teams} HTTP/1.1`, ...keep].join('\r\n') + body + head('GET /v1/me HTTP/1.1', bearer())
    const answers = await sendRaw(service.url, bytes)
    for (const answer of answers) checkForm(answer, true)
    expect(answers.map(({ status }) => status)).toEqual([415, 200])
  })

  test('a large body that is nested deep or full of tiny things is refused unparsed; deep text in it is text', async () => {
    const filler = ' '.repeat(70_000)
    const refusals: [string, RegExp][] = [
      ['['.repeat(40) + ']'.repeat(40), /^body: is nested more than 32 levels deep\.$/],
      [`[${'{},'.repeat(200_001)}0]`, /^body: contains too many objects and lists\.$/],
      ['['.repeat(4_000_000), /^body: is nested more than 32 levels deep\.$/],
    ]
    for (const [part, message] of refusals) await expectAnswer(post(`{"name":${part}${filler}}`, json), 400, message)
    const text = JSON.stringify({ name: `"\\${'['.repeat(100)}`, filler })
    await expectAnswer(post(text, json), 400, /^filler: /)
  })

  test('a body in chunks of one byte is read like any other', async () => {
    const answer = await sendOne(chunked(teams, [...'{"name":"Byte by byte"}', ...' '.repeat(50_000)], bearer(), json))
    checkForm(answer, true)
    expect(answer.status, answer.body).toBe(201)
  })

  test.each([
    ['in the middle of its body', 'Content-Length: 1000', '{"name":"Half"'],
    ['in the middle of a chunk', 'Transfer-Encoding: chunked', '100\r\n{"name":"Half"'],
  ])('a connection that ends %s leaves nothing behind', async (_where, length, part) => {
    const socket = open(service.url)
    const received = receive(socket)
    socket.end(head(`POST ${teams} HTTP/1.1`, bearer(), json, length) + part)
    for (const answer of parseAnswers(await received)) {
      checkForm(answer, false)
      expect(answer.status).toBe(400)
    }
    const { body } = await service.call<{ name: string }[]>('GET', teams, { token: owner.session })
    expect(body.map(({ name }) => name)).not.toContain('Half')
  })

  test.each(brokenLengths(teams))('refuses %s with 400 or 401, and closes the connection', async (_what, bytes) => {
    const answers = await sendRaw(service.url, bytes)
    expect(answers.length).toBeGreaterThan(0)
    for (const answer of answers) {
      checkForm(answer, false)
      expect([400, 401]).toContain(answer.status)
    }
  })
})

describe('a request that needs no body', () => {
  const nothing: [string, string][] = [
    ['none', ''],
    ['a length of 0', 'Content-Length: 0'],
    ['a length of 00', 'Content-Length: 00'],
    ['an empty one with the type of JSON', `${json}\r\nContent-Length: 0`],
    ['the type of JSON alone', json],
    ['an empty chunked one', `${json}\r\nTransfer-Encoding: chunked\r\n\r\n0`],
    ['an empty chunked one of no type', 'Transfer-Encoding: chunked\r\n\r\n0'],
    ['an empty chunked one of another type', 'Content-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n0'],
    ['{}', `${json}\r\nContent-Length: 2\r\n\r\n{}`],
    ['{} in a chunk', `${json}\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0`],
    ['white space', `${json}\r\nContent-Length: 2\r\n\r\n \n`],
  ]

  /** The head and body as one text: what follows the empty line is the body. */
  const compose = (line: string, credential: string, rest: string) => {
    const [headers = '', ...body] = rest.split('\r\n\r\n')
    const end = headers.includes('chunked') ? '\r\n\r\n' : ''
    return (
      head(line, `Authorization: Bearer ${credential}`, ...(headers ? [headers] : [])) + body.join('\r\n\r\n') + end
    )
  }

  test.each(nothing)('takes %s, by POST', async (_what, rest) => {
    const { token } = await createToken(service, owner.session)
    const answer = await sendOne(compose('POST /v1/auth/exchange HTTP/1.1', token, rest))
    checkForm(answer, true)
    expect(answer.status, answer.body).toBe(200)
  })

  test.each(nothing)('takes %s where all of its fields are optional', async (_what, rest) => {
    const { id } = await createToken(service, owner.session)
    const line = `POST /v1/workspace/main/tokens/${id}/rotate HTTP/1.1`
    const answer = await sendOne(compose(line, owner.session, rest))
    checkForm(answer, true)
    expect(answer.status, answer.body).toBe(200)
  })

  test.each(nothing)('takes %s, by DELETE', async (_what, rest) => {
    const { id } = await createToken(service, owner.session)
    const answer = await sendOne(compose(`DELETE /v1/workspace/main/tokens/${id} HTTP/1.1`, owner.session, rest))
    checkForm(answer, true)
    expect(answer.status, answer.body).toBe(200)
  })

  test.each([
    'Content-Length: 24\r\n\r\n{"environmentId":"stage"}',
    'Transfer-Encoding: chunked\r\n\r\n18\r\n{"environmentId":"stage"}\r\n0',
  ])('a DELETE with one that does not say what it is deletes nothing: %j', async (rest) => {
    const { id } = await createToken(service, owner.session)
    const answer = await sendOne(compose(`DELETE /v1/workspace/main/tokens/${id} HTTP/1.1`, owner.session, rest))
    checkForm(answer, true)
    expect(answer.status, answer.body).toBe(415)
    const { body } = await service.call<{ id: string }[]>('GET', '/v1/workspace/main/tokens', { token: owner.session })
    expect(body.map((token) => token.id)).toContain(id)
  })

  test.each(nothing)('a PUT that needs one says what is missing when it gets %s', async (_what, rest) => {
    const answer = await sendOne(compose('PUT /v1/workspace/main HTTP/1.1', owner.session, rest))
    expect(checkForm(answer, true)).toBe('body: must have at least one field.')
    expect(answer.status).toBe(400)
  })

  test.each(['[]', 'null', '0', '{"a":1}', 'x'])('refuses %s with 400', async (body) => {
    const { id } = await createToken(service, owner.session)
    for (const line of ['POST /v1/auth/exchange', `DELETE /v1/workspace/main/tokens/${id}`]) {
      const rest = `${json}\r\nContent-Length: ${body.length}\r\n\r\n${body}`
      const answer = await sendOne(compose(`${line} HTTP/1.1`, owner.session, rest))
      checkForm(answer, true)
      expect(answer.status, answer.body).toBe(400)
    }
  })
})

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

  test('answers a request without a Host in the form of every other error', async () => {
    const answer = await sendOne(`GET /v1/me HTTP/1.1\r\n${bearer()}\r\nConnection: close\r\n\r\n`)
    expect(answer.status).toBe(400)
    checkForm(answer, true)
  })

  test('an expectation that nobody knows changes nothing: counted, authenticated and answered alike', async () => {
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

  test('HTTP/0.9 and HTTP/1.0 get an answer and the end of the connection', async () => {
    const old = await sendOne('GET /v1/me\r\n\r\n')
    checkForm(old, true)
    expect(old.status).toBe(401)
    const older = await sendOne(`GET /v1/me HTTP/1.0\r\n${bearer()}\r\n\r\n`)
    checkForm(older, true)
    expect(older.status).toBe(200)
  })

  test('a client that asks for leave to send its body gets it', async () => {
    const body = '{"name":"Continued"}'
    const headers = [bearer(), json, 'Expect: 100-continue', `Content-Length: ${body.length}`]
    const answer = await sendOne(head(`POST ${teams} HTTP/1.1`, ...headers) + body)
    checkForm(answer, true)
    expect(answer.status).toBe(201)
  })

  test.each([
    ['an upgrade', ['Upgrade: websocket', 'Connection: Upgrade']],
    ['an upgrade to HTTP/2', ['Upgrade: h2c', 'HTTP2-Settings: AAMAAABkAAQAAP__']],
    ['a request to act as another method', ['X-HTTP-Method-Override: DELETE']],
    ['a request for another path', ['X-Original-URL: /v1/workspace', 'X-Rewrite-URL: /v1/workspace']],
  ])('%s is ignored', async (_what, headers) => {
    const answer = await sendOne(head('GET /v1/me HTTP/1.1', bearer(), ...headers))
    checkForm(answer, true)
    expect(JSON.parse(answer.body)).toMatchObject({ id: owner.id })
  })
})

describe('paths', () => {
  test.each([
    ['percent signs that mean nothing', '/v1/%zz', 400],
    ['bytes that are not UTF-8', '/v1/workspace/%ff', 400],
    ['an encoded NUL', '/v1/workspace/a%00b', 400],
    ['an encoded slash', '/v1/workspace/a%2fb', 400],
    ['a very long parameter', `/v1/workspace/${'a'.repeat(10_000)}`, 400],
    ['a very long path', `/v1/${'a/'.repeat(7_000)}`, 404],
    ['an empty part', '/v1//me', 404],
    ['parts that lead upwards', '/v1/../v1/me', 404],
    ['a semicolon', '/v1/me;a=b', 404],
    ['the prefix alone', '/v1', 404],
    ['the prefix and a query', '/v1?a=b', 404],
    ['a query that cannot be decoded', '/v1/unknown?%zz=%ff', 404],
  ])('answers %s under /v1 with all of its headers', async (_what, path, status) => {
    const answer = await sendOne(head(`GET ${path} HTTP/1.1`, bearer()))
    checkForm(answer, true)
    expect(answer.status, answer.body).toBe(status)
  })

  test.each([
    ['two slashes', '//v1/me', 404],
    ['capitals', '/V1/me', 404],
    ['a longer word', '/v1x/me', 404],
    ['percent signs that mean nothing', '/%zz', 400],
  ])('answers %s outside of /v1', async (_what, path, status) => {
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
  ])('a path in %s form is the same path: counted, authenticated and answered alike', async (_what, path) => {
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
  ])('%s is counted under any spelling of its path', async (_what, path) => {
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

  test('a body does not change that, whatever it is', async () => {
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

describe('connections', () => {
  test('whoever sends what is not HTTP and does not hang up is hung up on', async () => {
    const alone = await startService()
    const { hostname, port } = new URL(alone.url)
    const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true })
    const open = () => new Promise<number>((resolve) => alone.app.server.getConnections((_, count) => resolve(count)))
    try {
      socket.on('error', () => undefined).resume()
      socket.write('GARBAGE\r\n\r\n')
      await new Promise((resolve) => socket.once('end', resolve))
      expect(await open()).toBe(1)
      await until(async () => (await open()) === 0 || undefined, 30_000, 'the socket is given up')
    } finally {
      socket.destroy()
      await alone.stop()
    }
  })

  test('pipelined requests are answered each and in order', async () => {
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

  test('who sends very many before the answers are there is hung up on, and what has arrived is read no further', async () => {
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
    ['one that takes its time', () => login() + garbage, [200, 400]],
    ['one without a body', () => whole('GET /v1/me HTTP/1.1', undefined, bearer()) + garbage, [200, 400]],
    ['one that is answered at once', () => whole('GET /v1/unknown HTTP/1.1') + garbage, [404, 400]],
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
      'one, where it lies in the body of the next,',
      () =>
        `${login()}${whole(`POST ${teams} HTTP/1.1`, undefined, bearer(), json, 'Transfer-Encoding: chunked')}zz\r\n`,
      [200, 400],
    ],
    ['one that ends the connection', () => login().replace('\r\n', '\r\nConnection: close\r\n') + garbage, [200]],
  ])('what is not HTTP is answered after %s that came before it', async (_what, bytes, statuses) => {
    const answers = await sendRaw(service.url, bytes())
    for (const answer of answers) checkForm(answer, false)
    expect(answers.map(({ status }) => status)).toEqual(statuses)
  })

  test('what is not HTTP is answered once, though more of it arrives before its turn', async () => {
    const socket = open(service.url)
    const received = receive(socket)
    socket.write(login() + garbage)
    for (let at = 0; at < 5; at++) {
      await new Promise((resolve) => setImmediate(resolve))
      socket.write(garbage)
    }
    expect(parseAnswers(await received).map(({ status }) => status)).toEqual([200, 400])
  })

  test('what follows a request on its connection belongs to the next one', async () => {
    const bytes = `GET /v1/unknown HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nGET /${head('GET /v1/me HTTP/1.1', bearer())}`
    const answers = await sendRaw(service.url, bytes)
    expect(answers.map(({ status }) => status)).toEqual([404, 200])
  })

  test('half a request on many connections keeps nobody else waiting', async () => {
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

  test('whoever has asked and closes their side still gets the answer, one alone or many at once', async () => {
    const asked = (index: number) =>
      index % 2 === 0 ? head('GET /v1/me HTTP/1.1', bearer()) : post(`{"name":"Half open ${index}"}`, json)
    const askAndClose = async (_: unknown, index: number) => {
      const socket = open(service.url)
      const received = receive(socket)
      socket.end(asked(index))
      return parseAnswers(await received).map(({ status }) => status)
    }
    expect(await askAndClose(undefined, 1)).toEqual([201])
    const statuses = await Promise.all(Array.from({ length: 30 }, (_, index) => askAndClose(_, index + 2)))
    expect(statuses).toEqual(statuses.map((_, index) => [index % 2 === 0 ? 200 : 201]))
  })

  test('a stop waits for the requests in flight, and not for their connections to be given up', async () => {
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

  test('a credential that ends while a body is on its way does nothing with it', async () => {
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

  describe('of a large answer', () => {
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
      // One person has half of the reservation.
      fits = Math.floor((64 * 1024 * 1024) / Number(headers.get('content-length')))
    })
    afterAll(() => alone.stop())

    const read = (token = session) => alone.call('GET', path, { token })

    /** Asks for it, and takes nothing of it. */
    async function ask(asked = path): Promise<ServerResponse> {
      const arrived = new Promise<ServerResponse>((resolve) =>
        alone.app.server.once('request', (_request, response) => resolve(response)),
      )
      const socket = open(alone.url)
      idle.push(socket.on('error', () => undefined).pause())
      socket.write(`GET ${asked} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${session}\r\n\r\n`)
      return arrived
    }

    async function ofStatus(status: number): Promise<Answer | undefined> {
      const answer = await read()
      expect([200, 503]).toContain(answer.status)
      return answer.status === status ? answer : undefined
    }

    test('whoever takes nothing does not keep it for ever', async () => {
      const response = await ask()
      await until(() => response.headersSent || undefined, 20_000, 'it is answered')
      const { socket } = response.req
      expect(socket.timeout).toBe(300_000)
      const ended = new Promise((resolve) => socket.once('close', resolve))
      socket.setTimeout(100)
      await withinSeconds(20, ended)
    })

    test('nor does whoever takes a stream', async () => {
      const response = await ask('/v1/workspace/main/audit?format=ndjson')
      const patience = vi.spyOn(response, 'setTimeout')
      await until(() => response.headersSent || undefined, 20_000, 'it is answered')
      expect(patience.mock.calls).toEqual([[300_000]])
    })

    test('a change is refused before it is made, and never after it, however much waits to be taken', async () => {
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

    test('many who leave before it comes use up nothing', async () => {
      for (let count = 0; count <= fits; count++) (await ask()).req.socket.destroy()
      expect((await read()).status).toBe(200)
    })

    test('who takes nothing of many is answered 503 from some point on, and nobody else is', async () => {
      for (let count = 0; count < fits; count++) {
        const response = await ask()
        await until(() => response.headersSent || undefined, 20_000, 'it is answered')
      }
      const refused = await until(() => ofStatus(503), 20_000, 'too much waits to be taken')
      expect(refused.body).toEqual({ message: 'The service is busy; try again in a moment.' })
      expect(refused.headers.get('retry-after')).toBe('1')
      expect(refused.headers.has('etag')).toBe(false)
      const one = path.replace('/secret?', '/secret/K1?')
      expect((await alone.call('GET', one, { token: session })).status).toBe(200)
      expect((await read(other.session)).status).toBe(200)
      idle.pop()?.destroy()
      await until(() => ofStatus(200), 20_000, 'one has given up')
    })
  })

  test('who sends most of many large bodies is answered 503 from some point on, and nobody else is', async () => {
    const other = await addUser(service, 'other@example.com')
    const length = maxBodyBytes - 1024
    const large = `{"name":"${'x'.repeat(length - 11)}"}`
    const idle: Socket[] = []
    const start = head(`POST ${teams} HTTP/1.1`, bearer(), json, `Content-Length: ${length}`)
    const { body: me } = await service.call<{ id: string }>('GET', '/v1/me', { token: owner.session })
    // One more that came before all of these have arrived would take the room of one of them.
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
      await until(isFull, 20_000, 'four have arrived but for their last byte')
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
        'room again',
      )
    } finally {
      for (const socket of idle) socket.destroy()
    }
  })

  test('the service gives up on a request that does not arrive', () => {
    const { headersTimeout, requestTimeout } = service.app.server
    expect(headersTimeout).toBeGreaterThan(0)
    expect(headersTimeout).toBeLessThanOrEqual(60_000)
    expect(requestTimeout).toBe(60_000)
  })
})
