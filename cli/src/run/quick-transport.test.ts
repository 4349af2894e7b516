/** The quick transport gives what node:http gives, whatever the other side sends. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer as createHttpsServer } from 'node:https'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { nodeTransport } from '@coffer/sdk/node'
import { afterEach, expect, onTestFinished, test, vi } from 'vitest'
import { testCertificate, testPrivateKey } from '../../../test/outbound-certificate.ts'
import { startNode } from '../../../test/program.ts'
import { quickTransport } from './quick-transport.ts'

afterEach(() => vi.unstubAllEnvs())

async function listen(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  return (server.address() as AddressInfo).port
}

type Peer = { readonly url: string; readonly requests: string[] }

/** A peer that answers each request in its own way, and keeps what it was sent. */
async function startPeer(answer: (socket: Socket) => void): Promise<Peer> {
  const requests: string[] = []
  const server = createServer((socket) => {
    onTestFinished(() => void socket.destroy())
    socket.on('error', () => undefined)
    socket.once('data', (bytes) => {
      requests.push(bytes.toString('latin1'))
      answer(socket)
    })
  })
  return { url: `http://127.0.0.1:${await listen(server)}/base/v1/x?a=b%20c`, requests }
}

const ask = (transport: typeof nodeTransport, url: string, given: Partial<Parameters<typeof nodeTransport>[0]> = {}) =>
  transport({
    method: 'GET',
    url,
    headers: { accept: 'application/json', authorization: 'Bearer x' },
    body: undefined,
    signal: AbortSignal.timeout(120_000),
    maxBytes: 1_000,
    ...given,
  }).then(
    ({ status, header, body }) => ({ status, etag: header('etag'), type: header('content-type'), body }),
    (error) => ({ error: error.code ?? error.message }),
  )

const ok = 'HTTP/1.1 200 OK\r\n'

test.each([
  ['a body', `${ok}Content-Type: application/json\r\nETag: "1"\r\nContent-Length: 11\r\n\r\n"ä€😀"`],
  ['no body', `${ok}content-length:0\r\n\r\n`],
  ['an answer that nothing has changed', 'HTTP/1.1 304 Not Modified\r\nETag: "1"\r\n\r\n'],
  ['a refusal', 'HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}'],
  ['chunks', `${ok}Transfer-Encoding: chunked\r\n\r\n2\r\n"\r\r\n0C\r\n\n\r\n0\r\n\r\n€"\r\n0\r\n\r\n`],
  ['no chunk', `${ok}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n`],
  ['a field that is sent twice', `${ok}ETag: "1"\r\nETag: "2"\r\nContent-Length: 2\r\n\r\n[]`],
])('reads %s with one request, also byte by byte', async (_, text) => {
  const whole = await startPeer((socket) => socket.write(text))
  const answer = await ask(quickTransport, whole.url)
  expect(answer).toEqual(await ask(nodeTransport, whole.url))
  expect(answer).toHaveProperty('status')
  expect(whole.requests).toHaveLength(2)
  const slow = await startPeer(async (socket) => {
    for (const byte of Buffer.from(text))
      await new Promise<void>((resolve) => socket.write(Buffer.of(byte), () => resolve()))
  })
  expect(await ask(quickTransport, slow.url)).toEqual(answer)
  expect(slow.requests).toEqual([
    `GET /base/v1/x?a=b%20c HTTP/1.1\r\nhost: ${new URL(slow.url).host}\r\naccept: application/json\r\nauthorization: Bearer x\r\nconnection: close\r\n\r\n`,
  ])
})

test.each([
  ['a chunk with an extension', `${ok}Transfer-Encoding: chunked\r\n\r\n2;x=y\r\n[]\r\n0\r\n\r\n`],
  ['chunks with a trailer', `${ok}Transfer-Encoding: chunked\r\n\r\n2\r\n[]\r\n0\r\nX: y\r\n\r\n`],
  ['a chunk that is longer than its size', `${ok}Transfer-Encoding: chunked\r\n\r\n1\r\n[]\r\n0\r\n\r\n`],
  ['a negative chunk', `${ok}Transfer-Encoding: chunked\r\n\r\n-2\r\n[]\r\n0\r\n\r\n`],
  ['bytes after the last chunk', `${ok}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n`],
  ['chunks over the limit', `${ok}Transfer-Encoding: chunked\r\n\r\n3e9\r\n${'x'.repeat(1001)}\r\n0\r\n\r\n`],
  ['another coding', `${ok}Transfer-Encoding: gzip, chunked\r\n\r\n2\r\n[]\r\n0\r\n\r\n`],
  ['chunks that are announced twice', `${ok}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`],
  ['a body that ends with the connection', `${ok}Content-Type: text/plain\r\n\r\n[]`],
  ['an older version', 'HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n[]'],
  ['two lengths', `${ok}Content-Length: 2\r\nContent-Length: 3\r\n\r\n[] `],
  ['a length and chunks', `${ok}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n[]\r\n0\r\n\r\n`],
  ['a length that is no number', `${ok}Content-Length: 0x2\r\n\r\n[]`],
  ['a negative length', `${ok}Content-Length: -2\r\n\r\n[]`],
  ['a body that is longer than its length', `${ok}Content-Length: 2\r\n\r\n[] `],
  ['a body over the limit', `${ok}Content-Length: 1001\r\n\r\n${'x'.repeat(1001)}`],
  ['a folded field', `${ok}X: a\r\n b\r\nContent-Length: 2\r\n\r\n[]`],
  ['a field without a colon', `${ok}X\r\nContent-Length: 2\r\n\r\n[]`],
  ['a space before a colon', `${ok}Content-Length : 2\r\n\r\n[]`],
  ['a control character in a field', `${ok}X: a\u0000b\r\nContent-Length: 2\r\n\r\n[]`],
  ['a bare line feed in a field', `${ok}X: a\nContent-Length: 2\r\n\r\n[]`],
  ['a head without end', `${ok}X: ${'x'.repeat(100_000)}`],
  ['an interim answer', `HTTP/1.1 100 Continue\r\n\r\n${ok}Content-Length: 2\r\n\r\n[]`],
  ['a switch to another protocol', 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n'],
  ['a status that does not exist', 'HTTP/1.1 999 No\r\nContent-Length: 2\r\n\r\n[]'],
  ['no HTTP', 'SSH-2.0-x\r\n\r\n'],
])('leaves %s to node:http', async (_, text) => {
  // Two of them: node:http would use the same connection again.
  const [first, second] = [await startPeer((socket) => socket.end(text)), await startPeer((socket) => socket.end(text))]
  expect(await ask(quickTransport, first.url)).toEqual(await ask(nodeTransport, second.url))
  expect(first.requests).toHaveLength(2)
})

test.each([
  ['nothing', ''],
  ['half a head', ok],
  ['a body that is shorter than its length', `${ok}Content-Length: 3\r\n\r\n[]`],
  ['chunks without end', `${ok}Transfer-Encoding: chunked\r\n\r\n2\r\n[]\r\n`],
])('%s is an error, without another request', async (_, text) => {
  const { url, requests } = await startPeer((socket) => socket.end(text))
  expect(await ask(quickTransport, url)).toEqual({ error: 'ECONNRESET' })
  expect(requests).toHaveLength(1)
})

test('a peer that is silent, or stops in the middle, costs no more than the time limit', async () => {
  for (const text of ['', ok, `${ok}Content-Length: 9\r\n\r\n[`]) {
    const limit = new AbortController()
    // The time runs from here, so that a slow machine has sent its request.
    const expire = () => setTimeout(() => limit.abort(new DOMException('No response.', 'TimeoutError')), 100)
    const { url, requests } = await startPeer((socket) => socket.write(text, expire))
    expect(await ask(quickTransport, url, { signal: limit.signal })).toEqual({ error: 23 })
    expect(requests).toHaveLength(1)
  }
  const { url, requests } = await startPeer(() => undefined)
  expect(await ask(quickTransport, url, { signal: AbortSignal.abort(new Error('ended')) })).toEqual({ error: 'ended' })
  expect(requests).toEqual([])
})

test('a refused connection is the error of node:http, without another attempt', async () => {
  const { url } = await startPeer(() => undefined)
  const closed = createServer()
  const port = await listen(closed)
  await new Promise((resolve) => closed.close(resolve))
  expect(await ask(quickTransport, url.replace(/:\d+/, `:${port}`))).toEqual({ error: 'ECONNREFUSED' })
})

test('writes, other options of Node and odd header fields go through node:http', async () => {
  const { url, requests } = await startPeer((socket) =>
    socket.end(`${ok}Connection: close\r\nContent-Length: 2\r\n\r\n[]`),
  )
  await ask(quickTransport, url, { method: 'POST', body: '{}' })
  vi.stubEnv('NODE_USE_ENV_PROXY', '1')
  await ask(quickTransport, url)
  vi.unstubAllEnvs()
  for (const request of requests) expect(request).toMatch(/connection: keep-alive/i)
  expect(requests).toHaveLength(2)
  const split = await ask(quickTransport, url, { headers: { 'if-none-match': '"1"\r\nX: y' } })
  expect(split).toEqual({ error: 'ERR_INVALID_CHAR' })
  expect(requests).toHaveLength(2)
})

test('over HTTPS nothing is sent before the certificate is accepted', async () => {
  const seen: string[] = []
  const server = createHttpsServer({ key: testPrivateKey, cert: testCertificate }, ({ headers }, response) => {
    seen.push(headers.authorization ?? '')
    response.writeHead(200, { 'content-length': 2 }).end('[]')
  })
  const url = `https://127.0.0.1:${await listen(server)}/v1`
  expect(await ask(quickTransport, url)).toEqual({ error: 'DEPTH_ZERO_SELF_SIGNED_CERT' })
  expect(seen).toEqual([])

  const folder = await mkdtemp(join(tmpdir(), 'coffer-quick-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const [certificate, program] = [join(folder, 'ca.pem'), join(folder, 'program.ts')]
  await writeFile(certificate, testCertificate)
  await writeFile(
    program,
    `import { quickTransport } from '${join(import.meta.dirname, 'quick-transport.ts')}'
     const signal = AbortSignal.timeout(120_000)
     const { status, body } = await quickTransport({ method: 'GET', url: '${url}', headers: { authorization: 'Bearer x' }, signal, maxBytes: 9 })
     console.log(status, body, process.moduleLoadList.includes('NativeModule _http_client'))`,
  )
  const trusting = await startNode([program], { NODE_EXTRA_CA_CERTS: certificate }).ended
  expect(trusting).toMatchObject({ code: 0, err: '', out: '200 [] false\n' })
  expect(seen).toEqual(['Bearer x'])
})
