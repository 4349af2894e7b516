/** Unusual and malformed request bodies. */
import { endpoints } from '@coffer/contract/api'
import { type Endpoint, maxPublicBodyBytes } from '@coffer/contract/endpoint'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import {
  createProject,
  createToken,
  offline,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../test/harness.ts'
import { checkForm, sendOne as sendRawOne } from '../../../test/raw-answer.ts'
import { brokenLengths, chunked, head, json, post as rawPost } from '../../../test/raw-request.ts'
import { open, parseAnswers, receive, sendRaw } from '../../../test/raw-socket.ts'
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

const withBody = Object.entries<Endpoint>(endpoints).filter(([, { method }]) => method !== 'GET')

const bearer = () => `Authorization: Bearer ${owner.session}`
const teams = '/v1/workspace/main/team'
const post = (body: string | Buffer, ...headers: string[]) => rawPost(teams, body, bearer(), ...headers)
const sendOne = (bytes: string | Buffer) => sendRawOne(service.url, bytes)

async function expectAnswer(bytes: string | Buffer, status: number, message: RegExp, isApi = true): Promise<void> {
  const answer = await sendOne(bytes)
  const said = checkForm(answer, isApi)
  expect(answer.status, said).toBe(status)
  expect(said).toMatch(message)
}

describe('request bodies', () => {
  const notJson = /^body: is not valid JSON\.$/
  const tooDeep = /^body: is nested more than 32 levels deep\.$/
  const notUtf8 = /^body: is not valid UTF-8\.$/
  const notObject = /^body: must be an object\.$/
  const notText = /^name: must be a string\.$/
  const sendJson = /^Send JSON/

  test.each<[string, string | Buffer, RegExp]>([
    ['incomplete JSON', '{"name":', notJson],
    ['text after the JSON', '{"name":"a"} x', notJson],
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
    ['a list instead of an object', '[]', notObject],
    ['null', 'null', notObject],
    ['a string', '"name"', notObject],
    ['a number that overflows', '{"name":1e999}', notText],
    ['a lone surrogate', '{"name":"\\ud800"}', /^body: contains an unpaired surrogate/],
    ['a lone surrogate in a field name', '{"\\udc00":1}', /^body: contains an unpaired surrogate/],
    ['invalid UTF-8', Buffer.from([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x7d]), notUtf8],
    ['overlong UTF-8', Buffer.from([0x22, 0xc0, 0xaf, 0x22]), notUtf8],
    ['a surrogate in UTF-8', Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22]), notUtf8],
    ['UTF-16', Buffer.from('\ufeff{"name":"é"}', 'utf16le'), notUtf8],
  ])('refuses %s with 400', async (_what, body, message) => {
    await expectAnswer(post(body, json), 400, message)
  })

  test('refuses two fields with the same name', async () => {
    await expectAnswer(post('{"name":"First","name":"Second"}', json), 400, /name/)
  })

  test.each([
    ['a byte order mark', '\ufeff{"name":"Marked"}', json],
    ['surrounding white space', ' \r\n\t{"name":"Spaced"}\n', json],
    ['a charset', '{"name":"Charset"}', 'Content-Type: application/json; charset=utf-8'],
    ['an upper-case quoted charset', '{"name":"Quoted"}', 'Content-Type: APPLICATION/JSON; CHARSET="UTF-8"'],
    ['surrogate pairs', '{"name":"\\ud83d\\ude00"}', json],
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
    ['a longer type name', 'Content-Type: application/jsonx'],
    ['XML', 'Content-Type: application/xml'],
    ['no type', 'X-No-Type: 1'],
    ['an empty type', 'Content-Type:'],
    ['gzip', `${json}\r\nContent-Encoding: gzip`],
    ['several encodings', `${json}\r\nContent-Encoding: identity, br`],
  ])('refuses %s with 415', async (_what, headers) => {
    await expectAnswer(post('{"name":"a"}', headers), 415, sendJson)
  })

  test.each([
    ['by its declared length', (body: string) => post(body, json)],
    [
      'while it arrives',
      (body: string) => chunked(teams, [body.slice(0, 5_000_000), body.slice(5_000_000)], bearer(), json),
    ],
  ])('exactly 8 MiB is parsed, and one byte more is refused %s', async (_how, make) => {
    const frame = '{"name":""}'.length
    const largest = `{"name":"${'x'.repeat(maxBodyBytes - frame)}"}`
    await expectAnswer(make(largest), 400, /^name: must have 64 characters or fewer\.$/)
    await expectAnswer(make(`${largest} `), 413, /^The request body is larger than 8 MiB\.$/)
  })

  test.each(withBody.filter(([, { permission }]) => permission === 'public'))(
    '%s, which needs no credential, reads at most 64 KiB',
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
    ['with Connection: close', (body: string) => post(body, `${json}\r\nConnection: close`)],
  ])('a client that sends 30 MB %s before it reads gets the reason for the refusal', async (_how, make) => {
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

  test('a refused body is not read without end', async () => {
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

  test('a chunked body is accepted', async () => {
    const answer = await sendOne(chunked(teams, ['{"na', 'me":"Chu', 'nked"}'], bearer(), json))
    checkForm(answer, true)
    expect(answer.status).toBe(201)
    await expectAnswer(chunked(teams, ['{"na'], bearer(), json), 400, notJson)
    await expectAnswer(chunked(teams, ['{"name":"a"}'], bearer(), 'Content-Type: text/plain'), 415, sendJson)
  })

  test('a chunked body without a type is refused with 415, and the connection serves the next request', async () => {
    const keep = ['Host: localhost', bearer(), 'Transfer-Encoding: chunked', '', '']
    const body = `6\r\n{"name\r\n30d40\r\n${'x'.repeat(200_000)}\r\n0\r\n\r\n`
    const bytes = [`POST ${teams} HTTP/1.1`, ...keep].join('\r\n') + body + head('GET /v1/me HTTP/1.1', bearer())
    const answers = await sendRaw(service.url, bytes)
    for (const answer of answers) checkForm(answer, true)
    expect(answers.map(({ status }) => status)).toEqual([415, 200])
  })

  test('a large body with deep nesting or very many tokens is refused before parsing; brackets inside strings are allowed', async () => {
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

  test('a body in chunks of one byte is accepted', async () => {
    const answer = await sendOne(chunked(teams, [...'{"name":"Byte by byte"}', ...' '.repeat(50_000)], bearer(), json))
    checkForm(answer, true)
    expect(answer.status, answer.body).toBe(201)
  })

  test.each([
    ['in the middle of its body', 'Content-Length: 1000', '{"name":"Half"'],
    ['in the middle of a chunk', 'Transfer-Encoding: chunked', '100\r\n{"name":"Half"'],
  ])('a connection that closes %s has no effect', async (_where, length, part) => {
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
    ['an empty body of type JSON', `${json}\r\nContent-Length: 0`],
    ['only the type JSON', json],
    ['an empty chunked body', `${json}\r\nTransfer-Encoding: chunked\r\n\r\n0`],
    ['an empty chunked body without a type', 'Transfer-Encoding: chunked\r\n\r\n0'],
    ['an empty chunked body of another type', 'Content-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n0'],
    ['{}', `${json}\r\nContent-Length: 2\r\n\r\n{}`],
    ['{} in a chunk', `${json}\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0`],
    ['white space', `${json}\r\nContent-Length: 2\r\n\r\n \n`],
  ]

  /** Head and body as one text: the part after the empty line is the body. */
  const compose = (line: string, credential: string, rest: string) => {
    const [headers = '', ...body] = rest.split('\r\n\r\n')
    const end = headers.includes('chunked') ? '\r\n\r\n' : ''
    return (
      head(line, `Authorization: Bearer ${credential}`, ...(headers ? [headers] : [])) + body.join('\r\n\r\n') + end
    )
  }

  test.each(nothing)('accepts %s, by POST', async (_what, rest) => {
    const { token } = await createToken(service, owner.session)
    const answer = await sendOne(compose('POST /v1/auth/exchange HTTP/1.1', token, rest))
    checkForm(answer, true)
    expect(answer.status, answer.body).toBe(200)
  })

  test.each(nothing)('accepts %s if all its fields are optional', async (_what, rest) => {
    const { id } = await createToken(service, owner.session)
    const line = `POST /v1/workspace/main/tokens/${id}/rotate HTTP/1.1`
    const answer = await sendOne(compose(line, owner.session, rest))
    checkForm(answer, true)
    expect(answer.status, answer.body).toBe(200)
  })

  test.each(nothing)('accepts %s, by DELETE', async (_what, rest) => {
    const { id } = await createToken(service, owner.session)
    const answer = await sendOne(compose(`DELETE /v1/workspace/main/tokens/${id} HTTP/1.1`, owner.session, rest))
    checkForm(answer, true)
    expect(answer.status, answer.body).toBe(200)
  })

  test.each([
    'Content-Length: 25\r\n\r\n{"environmentId":"stage"}',
    'Transfer-Encoding: chunked\r\n\r\n19\r\n{"environmentId":"stage"}\r\n0',
  ])('a DELETE with a body of unknown type deletes nothing: %j', async (rest) => {
    const { id } = await createToken(service, owner.session)
    const answer = await sendOne(compose(`DELETE /v1/workspace/main/tokens/${id} HTTP/1.1`, owner.session, rest))
    checkForm(answer, true)
    expect(answer.status, answer.body).toBe(415)
    const { body } = await service.call<{ id: string }[]>('GET', '/v1/workspace/main/tokens', { token: owner.session })
    expect(body.map((token) => token.id)).toContain(id)
  })

  test.each(nothing)('a PUT that needs a body reports it missing for %s', async (_what, rest) => {
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
