/** Pages outside the API, which need no credential: their readers block nobody else, and their requests are limited. */
import { ServerResponse } from 'node:http'
import { connect, type Socket } from 'node:net'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { registerOwner, startService, type TestService } from '../../../../test/harness.ts'
import { createSecretProject } from '../../../../test/secret-project.ts'
import { until } from '../../../../test/wait.ts'

describe('stalled readers of pages', () => {
  const bundle = '/docs/static/swagger-ui-bundle.js'
  let service: TestService
  let session: string
  let path: string
  const idle: Socket[] = []

  beforeAll(async () => {
    service = await startService()
    session = (await registerOwner(service)).session
    const project = await createSecretProject(service, session)
    const values = Object.fromEntries(Array.from({ length: 40 }, (_, at) => [`K${at}`, 'x'.repeat(60_000)]))
    await project.set('development', values)
    path = `${project.root}/secret?environmentId=development`
  })
  afterEach(() => {
    for (const socket of idle.splice(0)) socket.destroy()
  })
  afterAll(() => service.stop())

  /** Requests a page, and reads nothing of it. */
  async function stall(page: string, localAddress: string): Promise<ServerResponse> {
    const arrived = new Promise<ServerResponse>((resolve) =>
      service.app.server.once('request', (_request, response) => resolve(response)),
    )
    const { hostname, port } = new URL(service.url)
    const socket = connect({ host: hostname, port: Number(port), localAddress })
    idle.push(socket.on('error', () => undefined).pause())
    socket.write(`GET ${page} HTTP/1.1\r\nHost: localhost\r\n\r\n`)
    const response = await arrived
    await until(() => response.headersSent || undefined, 120_000, 'the response has begun')
    return response
  }

  test('112 stalled sockets from two networks do not block clients with credentials', async () => {
    for (let count = 0; count < 112; count++) {
      const { statusCode } = await stall(bundle, count % 2 === 0 ? '127.0.0.1' : '127.0.0.2')
      expect(statusCode).toBe(200)
    }
    expect((await service.call('GET', path, { token: session })).status).toBe(200)
    expect((await service.call('GET', bundle)).status).toBe(200)
  })

  test.each([bundle, '/openapi.json'])('%s times out after ten seconds without progress', async (page) => {
    const timeoutSpy = vi.spyOn(ServerResponse.prototype, 'setTimeout')
    try {
      await stall(page, '127.0.0.1')
      expect(timeoutSpy.mock.calls).toContainEqual([10_000])
    } finally {
      timeoutSpy.mockRestore()
    }
  })
})

describe('rate limits outside the API', () => {
  const limit = 5
  let service: TestService
  beforeAll(async () => {
    // The windows of the limits do not end during a test, however slow the machine is.
    vi.useFakeTimers({ toFake: ['Date'] })
    service = await startService({
      COFFER_RATE_LIMIT: String(limit),
      COFFER_METRICS_TOKEN: 'right',
      COFFER_TRUSTED_PROXIES: '127.0.0.0/8',
    })
  })
  afterAll(async () => {
    vi.useRealTimers()
    await service.stop()
  })

  const ask = (path: string, client: string, token?: string) =>
    service.call('GET', path, { token, headers: { 'x-forwarded-for': client } })

  test('pages are limited per network, separately from the API and from health checks', async () => {
    const pages = ['/docs', '/docs/static/index.css', '/openapi.json', '/logo/aws-secrets-manager.svg', '/unknown']
    for (const page of pages) expect((await ask(page, '203.0.113.1')).status, page).not.toBe(429)
    const refused = await ask('/docs', '203.0.113.1')
    expect(refused.status).toBe(429)
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
    expect(refused.headers.has('ratelimit-limit')).toBe(false)
    expect((await ask('/docs', '203.0.113.2')).status).toBe(200)
    for (let count = 0; count <= limit; count++) {
      expect((await ask('/healthz', '203.0.113.1')).status).toBe(200)
      expect((await ask('/readyz', '203.0.113.1')).status).toBe(200)
    }
    const api = await ask('/v1/me', '203.0.113.1')
    expect([api.status, api.headers.get('ratelimit-remaining')]).toEqual([401, String(limit - 1)])
  })

  test('the files of a page have ten times the limit, and do not use up that of pages', async () => {
    for (let count = 0; count < limit * 10; count++) {
      expect((await ask('/assets/some.js', '203.0.113.3')).status).toBe(404)
    }
    const refused = await ask('/assets/some.js', '203.0.113.3')
    expect(refused.status).toBe(429)
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
    expect((await ask('/docs', '203.0.113.3')).status).toBe(200)
    expect((await ask('/assets/some.js', '203.0.113.4')).status).toBe(404)
  })

  test('wrong tokens for /metrics are limited per network, independently of the rate limit', async () => {
    const open = await startService({ COFFER_METRICS_TOKEN: 'right', COFFER_TRUSTED_PROXIES: '127.0.0.0/8' })
    try {
      const guess = (client: string, token?: string) =>
        open.call('GET', '/metrics', { token, headers: { 'x-forwarded-for': client } })
      for (let count = 0; count < 30; count++) {
        expect((await guess('203.0.113.1', 'right')).status).toBe(200)
        expect((await guess('203.0.113.1')).status).toBe(401)
      }
      const statuses: number[] = []
      for (let count = 0; count < 25; count++) statuses.push((await guess('203.0.113.1', `wrong${count}`)).status)
      expect(statuses).toEqual([...new Array(20).fill(401), ...new Array(5).fill(429)])
      const right = await guess('203.0.113.1', 'right')
      expect(right.status).toBe(429)
      expect(Number(right.headers.get('retry-after'))).toBeGreaterThan(0)
      expect((await guess('203.0.113.2', 'right')).status).toBe(200)
    } finally {
      await open.stop()
    }
  })
})
