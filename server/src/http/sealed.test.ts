/** While the service is sealed, every endpoint answers 503 in the shape of the contract, and health and metrics work. */
import { once } from 'node:events'
import type { Server } from 'node:http'
import { endpoints } from '@coffer/contract/api'
import type { Endpoint } from '@coffer/contract/endpoint'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startService } from '../../../test/harness.ts'
import { readConfig } from '../config.ts'
import { createLog } from '../log.ts'
import { createSealedServer } from './sealed.ts'

const sentence =
  'The service is sealed: its operators must hand it shares of the master key, with "keys unseal" on its machine.'

const all: readonly Endpoint[] = Object.values(endpoints)

let server: Server
let url = ''
beforeAll(async () => {
  const config = readConfig({ COFFER_METRICS_TOKEN: 'scrape', COFFER_MASTER_KEY_SHARES: 'on' })
  server = createSealedServer(config, createLog('silent'), undefined)
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const address = server.address()
  url = `http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}`
})
afterAll(() => {
  server.close()
  server.closeAllConnections()
})

const send = (method: string, path: string, headers: Record<string, string> = {}, body?: string) =>
  fetch(url + path, { method, headers, ...(body !== undefined && { body }) })

async function expectSealed(response: Response, what: string): Promise<void> {
  expect(response.status, what).toBe(503)
  expect(response.headers.get('content-type'), what).toBe('application/json; charset=utf-8')
  expect(Number(response.headers.get('retry-after')), what).toBeGreaterThan(0)
  expect(response.headers.get('x-request-id'), what).toMatch(/^[\w-]{16}$/)
  expect(response.headers.get('cache-control'), what).toBe('no-store')
  expect(response.headers.get('connection'), what).toBe('close')
  if (response.body) expect(await response.json(), what).toEqual({ message: sentence })
}

test('every endpoint of the contract answers 503 with the sentence, with and without a credential and a body', async () => {
  expect(all.length).toBeGreaterThan(100)
  for (const { method, path } of all) {
    const real = path.replace(/:\w+/g, 'x')
    const [body, type] = method === 'GET' ? [] : ['{"a":1}', 'application/json']
    await expectSealed(await send(method, real), `${method} ${path}`)
    const headers = { authorization: 'Bearer cof_x', accept: 'text/html', ...(type && { 'content-type': type }) }
    await expectSealed(await send(method, real, headers, body), `${method} ${path} with a credential`)
  }
})

test.each(['/v1', '/v1/unknown', '/readyz', '/docs', '/openapi.json', '/assets/x.js', '/unknown'])(
  'GET and HEAD %s answer 503',
  async (path) => {
    await expectSealed(await send('GET', path), path)
    await expectSealed(await send('HEAD', path), path)
  },
)

test('a body that is too large or not JSON makes no difference', async () => {
  const json = { 'content-type': 'application/json' }
  await expectSealed(await send('POST', '/v1/auth/login', json, '{'), 'broken')
  await expectSealed(await send('POST', '/v1/auth/login', json, ' '.repeat(1_000_000)), 'large')
})

test('the process is healthy', async () => {
  const response = await send('GET', '/healthz')
  expect([response.status, await response.json()]).toEqual([200, { status: 'ok' }])
})

test('metrics say that it is sealed, to whoever has the token', async () => {
  expect((await send('GET', '/metrics')).status).toBe(401)
  expect((await send('GET', '/metrics', { authorization: 'Bearer wrong' })).status).toBe(401)
  const response = await send('GET', '/metrics', { authorization: 'Bearer scrape' })
  expect(response.status).toBe(200)
  expect(await response.text()).toContain('\ncoffer_sealed 1\n')
})

test.each(['/', '/login', '/main/api', '/share?x=1'])('a browser gets a page at %s that says so', async (path) => {
  const response = await send('GET', path, { accept: 'text/html,*/*' })
  expect(response.status).toBe(503)
  expect(response.headers.get('content-type')).toBe('text/html; charset=utf-8')
  expect(response.headers.get('content-security-policy')).toContain("default-src 'none'")
  expect(response.headers.get('retry-after')).toBe('5')
  const text = await response.text()
  expect(text).toContain('Coffer is sealed')
  expect(text).not.toContain('<script')
})

test('the description of the API documents 503 for every endpoint, and that the service may be sealed', async () => {
  const service = await startService()
  type Operation = { responses: Record<string, { description: string } | undefined> }
  const { body } = await service.call<{ paths: Record<string, Record<string, Operation>> }>('GET', '/openapi.json')
  await service.stop()
  const operations = Object.values(body.paths).flatMap((methods) => Object.values(methods))
  expect(operations).toHaveLength(all.length)
  for (const { responses } of operations) expect(responses[503]?.description).toContain('sealed')
})
