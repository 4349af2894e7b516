/** Responses and connections that a transport must survive, and a process of its own over HTTPS. */

import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer as createHttpsServer } from 'node:https'
import { type AddressInfo, createServer as createTcpServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { testCertificate, testPrivateKey } from '../../test/outbound-certificate.ts'
import { startNode } from '../../test/program.ts'
import { json, startScripted, testClock } from '../../test/sdk-service.ts'
import { createApi } from './api.ts'
import { nodeTransport } from './node-transport.ts'
import { fetchTransport } from './transport.ts'

async function listen(server: Server, host = '127.0.0.1'): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, host, resolve))
  onTestFinished(() => void server.close())
  return (server.address() as AddressInfo).port
}

/** A server that sends these bytes, whatever it is asked, and then ends the connection or leaves it open. */
function startRaw(bytes: string, isEnded: boolean): Promise<number> {
  const server = createTcpServer((socket) => {
    onTestFinished(() => void socket.destroy())
    socket.on('error', () => undefined)
    socket.once('data', () => (isEnded ? socket.end(bytes) : socket.write(bytes)))
  })
  return listen(server)
}

describe.each([
  ['fetch', fetchTransport],
  ['node:http', nodeTransport],
])('over %s', (name, transport) => {
  const open = (url: string, options = {}) =>
    createApi({
      url,
      credential: 'x',
      retries: 0,
      platform: { ...testClock().platform, env: {}, transport },
      ...options,
    })

  test('a switch to another protocol is an error, not a call that never ends', async () => {
    const port = await startRaw('HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n', false)
    const call = open(`http://127.0.0.1:${port}`, { timeoutMs: 1_000 }).workspace.list()
    await expect(call).rejects.toMatchObject({ name: 'ConnectionError' })
  })

  test('a response that ends with its connection is complete', async () => {
    const head = 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n'
    const port = await startRaw(`${head}["ä€😀"]`, true)
    expect(await open(`http://127.0.0.1:${port}`).workspace.list()).toEqual(['ä€😀'])
  })

  test('a response without end is given up at the size limit, and its connection closed', async () => {
    const { promise: closed, resolve } = Promise.withResolvers<void>()
    const { url } = await startScripted((response) => {
      response.once('close', resolve)
      response.writeHead(200, { 'content-type': 'application/json' })
      const fill = () => {
        while (!response.destroyed && response.write('x'.repeat(65_536)));
      }
      response.on('drain', fill)
      fill()
    })
    const call = open(url, { maxResponseBytes: 1_000_000 }).workspace.list()
    await expect(call).rejects.toMatchObject({ name: 'ResponseError', status: 200 })
    await expect(call).rejects.toThrow('The answer is larger than 1000000 bytes.')
    await closed
  })

  test('a response of 32 MB arrives whole', async () => {
    const text = '€'.repeat(11_000_000)
    const { url } = await startScripted(json(200, [text]))
    const [received] = (await open(url).workspace.list()) as unknown[]
    expect(received === text).toBe(true)
  })

  test('the address may have a path, a slash at its end, or IPv6', async () => {
    const { url, requests } = await startScripted(json(200, []))
    await open(`${url}/base/`).workspace.list()
    await open(`${url}/base`).secret.read({ ws: 'ä b', prj: 'a/b', key: '%2e?#' })
    expect(requests).toEqual([
      'GET /base/v1/workspace',
      'GET /base/v1/workspace/%C3%A4%20b/project/a%2Fb/secret/%252e%3F%23',
    ])
    const six = await startScripted(json(200, []))
    six.server.close()
    const port = await listen(six.server, '::1')
    expect(await open(`http://[::1]:${port}`).workspace.list()).toEqual([])
  })

  test.each([Number.POSITIVE_INFINITY, 2 ** 32])('a time limit of %d ms does not overflow', async (timeoutMs) => {
    const { url } = await startScripted((response, request, body) =>
      setTimeout(() => json(200, [])(response, request, body), 50),
    )
    expect(await open(url, { timeoutMs }).workspace.list()).toEqual([])
  })

  test('a process trusts NODE_EXTRA_CA_CERTS, and ends although its connection stays open', async () => {
    let connections = 0
    const server = createHttpsServer(
      { key: testPrivateKey, cert: testCertificate, keepAliveTimeout: 3_600_000 },
      (request, response) => json(200, [])(response, request, ''),
    )
    server.on('connection', () => connections++)
    onTestFinished(() => server.closeAllConnections())
    const port = await listen(server)
    const folder = await mkdtemp(join(tmpdir(), 'coffer-tls-'))
    onTestFinished(() => rm(folder, { recursive: true }))
    const [certificate, program] = [join(folder, 'ca.pem'), join(folder, 'program.ts')]
    await writeFile(certificate, testCertificate)
    await writeFile(
      program,
      `import { createApi } from '${join(import.meta.dirname, 'coffer.ts')}'
       import { fetchTransport } from '${join(import.meta.dirname, 'transport.ts')}'
       import { nodeTransport } from '${join(import.meta.dirname, 'node-transport.ts')}'
       const platform = { transport: ${name === 'fetch' ? 'fetchTransport' : 'nodeTransport'} }
       const api = createApi({ url: 'https://127.0.0.1:${port}', credential: 'x', platform })
       console.log(await api.workspace.list().then(() => 'trusted', (error) => error.code))`,
    )
    const trusting = await startNode([program], { NODE_EXTRA_CA_CERTS: certificate }).ended
    expect(trusting).toMatchObject({ code: 0, err: '', out: 'trusted\n' })
    connections = 0
    const wary = await startNode([program]).ended
    expect(wary).toMatchObject({ code: 0, out: 'DEPTH_ZERO_SELF_SIGNED_CERT\n' })
    // Another attempt would find the same certificate.
    expect(connections).toBe(1)
  })
})

test('fetch is told to keep no response', async () => {
  const { url } = await startScripted((response, { headers }) =>
    json(200, [headers['cache-control']])(response, {} as never, ''),
  )
  expect(await createApi({ url, credential: 'x', platform: { env: {} } }).workspace.list()).toEqual(['no-cache'])
})
