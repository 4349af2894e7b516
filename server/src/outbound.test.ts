/** Outbound requests send what they are given, verify certificates, end in time, and reveal nothing in errors. */
import { createServer as createTcpServer } from 'node:net'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { testCertificate } from '../../test/outbound-certificate.ts'
import {
  failureOf,
  listen,
  listenCanary,
  listenHttp,
  listenHttps,
  openOutbound,
  outboundWith,
  type RequestOptions,
  stopAll,
  stops,
} from '../../test/outbound-server.ts'
import { parseAllowList } from './outbound-allow.ts'

afterEach(stopAll)

describe('an outbound request', () => {
  const trusted = (request: RequestOptions) => outboundWith('').request({ reach: 'operator', ...request })

  test('sends the given method, path and body, and returns the response unchanged', async () => {
    const server = await listenHttp(async (request, response) => {
      const chunks: Buffer[] = []
      for await (const chunk of request) chunks.push(chunk)
      const { headers, method, url } = request
      response.writeHead(201, { 'x-answer': 'yes' })
      response.end(JSON.stringify({ headers, method, url, body: Buffer.concat(chunks).toString() }))
    })
    const response = await outboundWith('inside.test', { 'inside.test': ['127.0.0.1'] }).request({
      url: `http://inside.test.:${server.port}/a%20b?c=d#fragment`,
      method: 'POST',
      headers: { 'X-Custom': 'ä', 'Accept-Encoding': 'gzip' },
      body: 'höher',
    })
    const seen = JSON.parse(response.body.toString())
    expect(response).toMatchObject({ status: 201, headers: { 'x-answer': 'yes' } })
    expect(seen).toMatchObject({ method: 'POST', url: '/a%20b?c=d', body: 'höher' })
    expect(seen.headers).toMatchObject({
      host: `inside.test:${server.port}`,
      'accept-encoding': 'identity',
      'content-length': '6',
      connection: 'close',
    })
  })

  test('tries the second checked address when the first is unreachable', async () => {
    const server = await listenHttp((_, response) => response.end('ok'))
    const outbound = outboundWith('::1 127.0.0.1', { 'two.test': ['::1', '127.0.0.1'] })
    expect((await outbound.request({ url: `http://two.test:${server.port}/` })).body.toString()).toBe('ok')
  })

  test('does not follow a redirect', async () => {
    const canary = await listenCanary()
    const location = `http://127.0.0.1:${canary.port}/`
    const server = await listenHttp((_, response) => response.writeHead(302, { location }).end())
    const response = await trusted({ url: `http://127.0.0.1:${server.port}/` })
    expect([response.status, response.headers.location, canary.connections()]).toEqual([302, location, 0])
  })

  test.each([
    ['a name that never resolves', 'http://slow.test/'],
    ['no response at all', '/silent'],
    ['a body sent byte by byte', '/drip'],
  ])('times out on %s', async (_, address) => {
    const reached = Promise.withResolvers<void>()
    const dripped = Promise.withResolvers<void>()
    const server = await listenHttp((request, response) => {
      reached.resolve()
      if (request.url === '/silent') return
      response.writeHead(200)
      const timer = setInterval(() => response.write('x', () => dripped.resolve()), 20)
      response.on('close', () => clearInterval(timer))
    })
    const outbound = openOutbound({ allow: parseAllowList(''), resolve: () => new Promise(() => {}) })
    const url = address.startsWith('/') ? `http://127.0.0.1:${server.port}${address}` : address
    // The test advances the timeout itself, so that a reachable server is reached before it fires.
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    stops.push(() => vi.useRealTimers())
    const failure = failureOf(outbound.request({ url, reach: 'operator', timeoutMs: 150 }))
    if (address.startsWith('/')) await reached.promise
    vi.advanceTimersByTime(100)
    if (address === '/drip') await dripped.promise
    vi.advanceTimersByTime(50)
    const error = await failure
    expect([error.kind, error.isUnreached]).toEqual(['timeout', !address.startsWith('/')])
  })

  test('does not connect when the name is resolved after the timeout', async () => {
    const canary = await listenCanary()
    const lookup = Promise.withResolvers<{ address: string; family: number }[]>()
    const outbound = openOutbound({ allow: parseAllowList(''), resolve: () => lookup.promise })
    const url = `http://late.test:${canary.port}/`
    expect((await failureOf(outbound.request({ url, reach: 'operator', timeoutMs: 20 }))).kind).toBe('timeout')
    lookup.resolve([{ address: '127.0.0.1', family: 4 }])
    await new Promise((resolve) => setTimeout(resolve, 50))
    expect(canary.connections()).toBe(0)
  })

  test('aborts a response that is too large, and accepts one of exactly the maximum size', async () => {
    let isCut = Promise.withResolvers<void>()
    const server = await listenHttp((request, response) => {
      if (request.url === '/fits') return void response.end(Buffer.alloc(1000))
      const timer = setInterval(() => response.write(Buffer.alloc(60_000)), 1)
      response.on('close', () => {
        clearInterval(timer)
        isCut.resolve()
      })
    })
    const url = `http://127.0.0.1:${server.port}`
    expect((await failureOf(trusted({ url, maxBytes: 1000 }))).kind).toBe('too_large')
    await isCut.promise
    expect((await trusted({ url: `${url}/fits`, maxBytes: 1000 })).body.length).toBe(1000)

    isCut = Promise.withResolvers<void>()
    expect((await failureOf(trusted({ url }))).kind).toBe('too_large')
    await isCut.promise
  })

  test.each([
    ['closes the connection early', 'HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf'],
    [
      'closes the connection within a chunked response',
      'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhalf',
    ],
    ['does not speak HTTP', 'SSH-2.0-OpenSSH_9\r\n'],
    ['sends nothing', ''],
    ['switches to another protocol', 'HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n'],
    ['sends endless headers', `HTTP/1.1 200 OK\r\n${'x: y\r\n'.repeat(20_000)}\r\n`],
  ])('fails when the server %s', async (_, answer) => {
    const server = await listen(
      createTcpServer((socket) => {
        socket.on('error', () => {})
        socket.once('data', () => socket.end(answer))
      }),
      '127.0.0.1',
    )
    const error = await failureOf(trusted({ url: `http://127.0.0.1:${server.port}/` }))
    expect([error.kind, error.isUnreached]).toEqual(['connection', false])
  })

  test('distinguishes an unreached server from one that fails', async () => {
    const server = await listenHttp(() => undefined)
    const address = `127.0.0.1:${server.port}`
    expect(await failureOf(trusted({ url: `https://${address}/` }))).toMatchObject({ isUnreached: true })
    const headers = { 'x-a': 'b\n' }
    expect(await failureOf(trusted({ url: `http://${address}/`, headers }))).toMatchObject({ isUnreached: false })
    const refused = outboundWith('').request({ url: `http://${address}/` })
    expect(await failureOf(refused)).toMatchObject({ kind: 'refused', isUnreached: true })
    expect(await failureOf(trusted({ url: 'ftp://127.0.0.1/' }))).toMatchObject({ isUnreached: true })
    expect(await failureOf(trusted({ url: 'http://127.0.0.1:1/' }))).toMatchObject({ isUnreached: true })
  })

  test.each([
    [{ 'x-a': 'b\r\nx-smuggled: 1' }],
    [{ 'x-a': 'b\nx-smuggled: 1' }],
    [{ 'x-a': 'b\0' }],
    [{ 'x-a: b\r\nx-smuggled': '1' }],
    [{ 'x a': '1' }],
    [{ Host: 'elsewhere.test' }],
    [{ 'Transfer-Encoding': 'chunked' }],
    [{ 'content-length': '0' }],
    [{ Connection: 'upgrade' }],
  ])('rejects the headers %j without a connection', async (headers) => {
    const canary = await listenCanary()
    const error = await failureOf(trusted({ url: `http://127.0.0.1:${canary.port}/`, headers }))
    expect([error.kind, canary.connections()]).toEqual(['refused', 0])
  })

  test('does not let the URL inject a header', async () => {
    const server = await listenHttp((request, response) => response.end(JSON.stringify(request.rawHeaders)))
    const response = await trusted({ url: `http://127.0.0.1:${server.port}/a HTTP/1.1\r\nx-smuggled: 1\r\n\r\n` })
    expect(response.body.toString()).not.toContain('"x-smuggled"')
  })
})

describe('TLS', () => {
  const names = { 'coffer.test': ['127.0.0.1'], 'wrong.test': ['127.0.0.1'] }

  test('sends the host name, not the address, and accepts a certificate for that name', async () => {
    const server = await listenHttps((request, response) => {
      // A server over TLS has TLS sockets.
      const { servername } = request.socket as unknown as { servername: string | false }
      response.end(JSON.stringify({ servername, host: request.headers.host }))
    })
    const outbound = outboundWith('coffer.test 127.0.0.1', names, testCertificate)
    const byName = await outbound.request({ url: `https://coffer.test.:${server.port}/` })
    expect(JSON.parse(byName.body.toString())).toEqual({
      servername: 'coffer.test',
      host: `coffer.test:${server.port}`,
    })
    const byAddress = await outbound.request({ url: `https://127.0.0.1:${server.port}/` })
    expect(JSON.parse(byAddress.body.toString())).toMatchObject({ servername: false })
  })

  test.each([
    ['for another name', 'wrong.test', testCertificate, 'ERR_TLS_CERT_ALTNAME_INVALID'],
    ['of an unknown authority', 'coffer.test', undefined, 'DEPTH_ZERO_SELF_SIGNED_CERT'],
  ])('rejects a certificate %s, even with NODE_TLS_REJECT_UNAUTHORIZED=0', async (_, host, ca, code) => {
    let requests = 0
    const server = await listenHttps(() => {
      requests += 1
    })
    const before = process.env.NODE_TLS_REJECT_UNAUTHORIZED
    process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0'
    try {
      const outbound = outboundWith('127.0.0.1', names, ca)
      const error = await failureOf(outbound.request({ url: `https://${host}:${server.port}/`, reach: 'operator' }))
      expect([error.kind, error.message]).toEqual(['connection', expect.stringContaining(code)])
      expect(requests).toBe(0)
    } finally {
      if (before === undefined) delete process.env.NODE_TLS_REJECT_UNAUTHORIZED
      else process.env.NODE_TLS_REJECT_UNAUTHORIZED = before
    }
  })
})

test('no error reveals more of a request than its host', async () => {
  const server = await listen(
    createTcpServer((socket) => socket.once('data', () => socket.end('canary-answer'))),
    '127.0.0.1',
  )
  const rest = 'canary-path?canary-query#canary-fragment'
  const requests: RequestOptions[] = [
    { url: `http://127.0.0.1:${server.port}/${rest}`, reach: 'operator' },
    { url: `http://127.0.0.1:1/${rest}`, reach: 'operator' },
    { url: `https://127.0.0.1/${rest}` },
    { url: `https://canary-user:canary-password@public.test/${rest}` },
    { url: `http://nowhere.test/${rest}` },
    { url: `canary://${rest}` },
    { url: `https://127.0.0.1/${rest}`, headers: { 'canary-header': 'canary\n' } },
    { url: `http://127.0.0.1:${server.port}/${rest}`, reach: 'operator', timeoutMs: 0 },
  ]
  for (const request of requests) {
    const error = await failureOf(
      outboundWith('').request({ method: 'POST', body: 'canary-body', headers: { 'x-canary': 'canary' }, ...request }),
    )
    expect(JSON.stringify([error.message, error.stack, error.cause ?? '', { ...error }])).not.toMatch(/canary-|"canary/)
  }
})
