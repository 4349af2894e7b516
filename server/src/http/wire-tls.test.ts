/** The same service over TLS: connections, bodies and limits behave as over plain HTTP. */
import { request } from 'node:https'
import { connect as connectPlain, type Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createProject, registerOwner, type TestUser } from '../../../test/harness.ts'
import { checkForm } from '../../../test/raw-answer.ts'
import { chunked, head, json, post as rawPost } from '../../../test/raw-request.ts'
import { parseAnswers, receive } from '../../../test/raw-socket.ts'
import { startTlsService, type TlsService } from '../../../test/tls-service.ts'
import { maxBodyBytes } from './request/body.ts'

let service: TlsService
let owner: TestUser

beforeAll(async () => {
  service = await startTlsService({ COFFER_PUBLIC_URL: 'https://coffer.example.com' })
  owner = await registerOwner(service)
  await createProject(service, owner.session, 'api')
})
afterAll(async () => {
  await service.stop()
  expect(service.logs.filter((line) => line.includes('"level":"error"'))).toEqual([])
})

const bearer = () => `Authorization: Bearer ${owner.session}`
const teams = '/v1/workspace/main/team'
const post = (body: string, ...headers: string[]) => rawPost(teams, body, bearer(), ...headers)
const hsts = 'max-age=31536000'

async function send(bytes: string | Buffer, end = false) {
  const socket = service.connect()
  const received = receive(socket)
  if (end) socket.end(bytes)
  else socket.write(bytes)
  return parseAnswers(await received)
}

test('every response asks for https, and requests of a connection are answered one after the other', async () => {
  const ports = new Set<number>()
  service.app.server.on('request', ({ socket }) => ports.add(socket.remotePort ?? 0))
  for (const path of ['/v1/me', '/v1/unknown', '/healthz', '/docs', '/v1/%zz']) {
    const { status, headers } = await service.call('GET', path, { token: owner.session })
    expect(headers.get('strict-transport-security'), `${path} ${status}`).toBe(hsts)
  }
  expect(ports.size).toBe(1)
})

const keep = (line: string) => [line, 'Host: localhost', bearer(), '', ''].join('\r\n')

test('of pipelined requests the first gets its response, and the connection ends after it', async () => {
  for (const rest of [keep('GET /v1/unknown HTTP/1.1'), 'GARBAGE\r\n\r\n', keep('GET /docs HTTP/1.1').repeat(10_000)]) {
    let count = 0
    const onRequest = () => count++
    service.app.server.on('request', onRequest)
    const answers = await send(keep('GET /v1/me HTTP/1.1') + rest)
    service.app.server.off('request', onRequest)
    expect(answers.map(({ status }) => status)).toEqual([200])
    for (const answer of answers) checkForm(answer, true)
    expect(count).toBeLessThanOrEqual(3)
  }
})

test('a client that sends each request as soon as the response has arrived is never disconnected', async () => {
  const socket = service.connect()
  for (let count = 1; count <= 300; count++) {
    const answered = new Promise<string>((resolve, reject) => {
      socket.once('data', (bytes) => resolve(String(bytes)))
      socket.once('close', reject)
    })
    socket.write(keep(`GET ${count % 2 === 0 ? '/v1/unknown' : '/v1/me'} HTTP/1.1`))
    expect(await answered).toMatch(/^HTTP\/1.1 (200|404)/)
    socket.removeAllListeners('close')
  }
  socket.destroy()
})

test('exactly 8 MiB is read, whole or in chunks, and one byte more is refused with 413', async () => {
  const largest = `{"name":"${'x'.repeat(maxBodyBytes - '{"name":""}'.length)}"}`
  for (const make of [
    (body: string) => post(body, json),
    (body: string) => chunked(teams, [body.slice(0, 5_000_000), body.slice(5_000_000)], bearer(), json),
  ]) {
    expect((await send(make(largest))).map(({ status }) => status)).toEqual([400])
    expect(await send(make(`${largest} `))).toMatchObject([
      { status: 413, body: '{"message":"The request body is larger than 8 MiB."}' },
    ])
  }
})

test('a large value is written and read back', async () => {
  const secrets = '/v1/workspace/main/project/api/secret'
  const value = 'é'.repeat(30_000)
  const list = Array.from({ length: 60 }, (_, index) => ({ key: `LARGE_${index}`, value }))
  const body = { environments: ['development'], secrets: list }
  expect((await service.call('POST', secrets, { token: owner.session, body })).status).toBe(201)
  const { text } = await service.call('GET', secrets, { token: owner.session })
  expect(text.split(value)).toHaveLength(61)
})

test('a half-closed connection still gets its response', async () => {
  const answers = await Promise.all([
    send(head('GET /v1/me HTTP/1.1', bearer()), true),
    send(post('{"name":"Half open"}', json), true),
  ])
  expect(answers.map(([answer]) => answer?.status)).toEqual([200, 201])
})

test('TLS 1.2 and 1.3 are spoken, 1.1 is refused', async () => {
  const protocolOf = (version: 'TLSv1.1' | 'TLSv1.2' | 'TLSv1.3') =>
    new Promise<string | null>((resolve) => {
      const options = { minVersion: version, maxVersion: version, ciphers: 'DEFAULT@SECLEVEL=0' }
      const socket: TLSSocket = service.connect(options)
      socket.once('secureConnect', () => {
        resolve(socket.getProtocol())
        socket.destroy()
      })
      socket.once('error', (error: NodeJS.ErrnoException) => resolve(String(error.code)))
    })
  expect(await protocolOf('TLSv1.3')).toBe('TLSv1.3')
  expect(await protocolOf('TLSv1.2')).toBe('TLSv1.2')
  expect(await protocolOf('TLSv1.1')).toMatch(/^(ERR_SSL_|ECONNRESET)/)
})

test('TLS 1.2 has only suites with forward secrecy and authenticated encryption', async () => {
  const suiteOf = (ciphers: string) =>
    new Promise<string>((resolve) => {
      const socket = service.connect({ ciphers, maxVersion: 'TLSv1.2', rejectUnauthorized: false })
      socket.once('error', () => resolve('refused'))
      socket.once('secureConnect', () => {
        resolve(socket.getCipher().name)
        socket.destroy()
      })
    })
  for (const suite of ['ECDHE-?-AES128-GCM-SHA256', 'ECDHE-?-AES256-GCM-SHA384', 'ECDHE-?-CHACHA20-POLY1305']) {
    const [ecdsa, rsa] = [suite.replace('?', 'ECDSA'), suite.replace('?', 'RSA')]
    expect([ecdsa, rsa]).toContain(await suiteOf(`${ecdsa}:${rsa}`))
  }
  for (const weak of [
    'ECDHE-ECDSA-AES128-SHA256:ECDHE-RSA-AES128-SHA256',
    'ECDHE-ECDSA-AES256-SHA384:ECDHE-RSA-AES256-SHA384',
    'ECDHE-ECDSA-AES128-SHA:ECDHE-RSA-AES128-SHA',
    'AES128-GCM-SHA256:AES256-GCM-SHA384',
    'AES128-SHA:AES256-SHA256',
    'DHE-RSA-AES128-GCM-SHA256',
  ]) {
    expect(await suiteOf(weak), weak).toBe('refused')
  }
})

const openPlain = (): Socket => {
  const { hostname, port } = new URL(service.url)
  return connectPlain({ host: hostname, port: Number(port) })
}

test('plain HTTP on the port gets no response, and nothing in plain text', async () => {
  const socket = openPlain()
  const received = receive(socket)
  socket.write(head('GET /v1/me HTTP/1.1', bearer()))
  expect((await received).toString('latin1')).not.toMatch(/HTTP|message/)
})

test('a service that is found on loopback does not ask browsers for https', async () => {
  const alone = await startTlsService()
  expect((await alone.call('GET', '/healthz')).headers.get('strict-transport-security')).toBeNull()
  await alone.stop()
})

test('a client that does not know the certificate refuses it', async () => {
  const error = await new Promise<NodeJS.ErrnoException>((resolve, reject) => {
    request(`${service.url}/healthz`, () => reject(new Error('accepted')))
      .on('error', resolve)
      .end()
  })
  expect(error.code).toBe('DEPTH_ZERO_SELF_SIGNED_CERT')
})
