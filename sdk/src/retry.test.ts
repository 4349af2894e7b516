/** Outages of the service and of the network, on real sockets and over both transports. */
import { describe, expect, onTestFinished, test } from 'vitest'
import { json, type Respond, startScripted, startSdkService, testClock } from '../../test/sdk-service.ts'
import { createApi } from './api.ts'
import { nodeTransport } from './node-transport.ts'
import { fetchTransport } from './transport.ts'

const path = { ws: 'main', prj: 'api', key: 'PORT' }
const success = json(200, { success: true, version: 2 })

describe.each([
  ['fetch', fetchTransport],
  ['node:http', nodeTransport],
])('over %s', (_name, transport) => {
  function open(url: string, options = {}) {
    const clock = testClock(Date.parse('2026-01-01T00:00:00Z'))
    const platform = { ...clock.platform, env: {}, transport }
    return { clock, api: createApi({ url, credential: 'cof_live_x', platform, ...options }) }
  }

  test.each([429, 503])('%i is retried after Retry-After, in seconds or as a date', async (status) => {
    const { url, requests } = await startScripted(
      json(status, { message: 'later' }, { 'retry-after': '7' }),
      json(status, { message: 'later' }, { 'retry-after': 'Thu, 01 Jan 2026 00:00:17 GMT' }),
      json(200, []),
    )
    const { api, clock } = open(url)
    expect(await api.workspace.list()).toEqual([])
    expect(requests).toHaveLength(3)
    // Each has jitter of up to a quarter of a second on top.
    expect(clock.sleeps).toEqual([7_125, 17_000 - 7_125 + 125])
  })

  test.each(['-5', '0.5', '1e1', '0', 'Thu, 01 Jan 2020 00:00:00 GMT', 'soon'])(
    'a Retry-After of %s leads to a normal backoff',
    async (value) => {
      const { url, requests } = await startScripted(json(503, {}, { 'retry-after': value }))
      const { api, clock } = open(url)
      await expect(api.workspace.list()).rejects.toMatchObject({ status: 503 })
      expect(requests).toHaveLength(6)
      expect(clock.sleeps).toEqual([125, 250, 500, 1_000, 2_000])
    },
  )

  test('a Retry-After of many digits is not waited for', async () => {
    const { url, requests } = await startScripted(json(429, {}, { 'retry-after': '9'.repeat(20) }))
    await expect(open(url).api.workspace.list()).rejects.toMatchObject({ status: 429 })
    expect(requests).toHaveLength(1)
  })

  test('a Retry-After of more than a minute is left to the caller', async () => {
    const { url, requests } = await startScripted(json(429, { message: 'much later' }, { 'retry-after': '61' }))
    await expect(open(url).api.workspace.list()).rejects.toMatchObject({
      status: 429,
      message: 'much later',
      retryAfterMs: 61_000,
    })
    expect(requests).toHaveLength(1)
  })

  test('reads are retried with full jitter after a lost connection, in the middle of a response too', async () => {
    const { url, requests } = await startScripted(
      (response) => response.destroy(),
      (response) => {
        response.writeHead(200, { 'content-type': 'application/json', 'content-length': '100' }).write('[')
        setImmediate(() => response.destroy())
      },
      (response) => {
        response.writeHead(200, { 'content-type': 'application/json' }).write('[')
        setImmediate(() => response.destroy())
      },
      json(200, []),
    )
    const { api, clock } = open(url)
    expect(await api.workspace.list()).toEqual([])
    expect(requests).toHaveLength(4)
    expect(clock.sleeps).toEqual([125, 250, 500])
  })

  test('the number of retries is limited, and the error holds the code only', async () => {
    const { url, requests } = await startScripted((response) => response.destroy())
    const error = await open(url, { retries: 2 })
      .api.workspace.list()
      .catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ name: 'ConnectionError', status: undefined })
    expect(error).not.toHaveProperty('cause')
    expect(requests).toHaveLength(3)
  })

  test.each([
    ['a lost connection', (response: { destroy(): void }) => response.destroy()],
    ['503', json(503, { message: 'no' }, { 'retry-after': '1' })],
    ['504 of a proxy', json(504, {})],
  ])('a write that may have happened is not sent again after %s, unless a version guards it', async (_what, fail) => {
    const calls: [isRepeated: boolean, call: (api: ReturnType<typeof createApi>) => Promise<unknown>][] = [
      [false, (api) => api.secret.writeValue(path, { environmentId: 'e', value: 'v' })],
      [true, (api) => api.secret.writeValue(path, { environmentId: 'e', value: 'v', ifVersion: 1 })],
      [true, (api) => api.secret.delete(path, {}, { ifMatch: '"tag"' })],
      [false, (api) => api.secret.delete(path, {}, { ifMatch: '*' })],
      [
        false,
        (api) =>
          api.secret.writeBatch(path, {
            environmentId: 'e',
            operations: [
              { op: 'set', key: 'A', value: 'v', ifVersion: 1 },
              { op: 'set', key: 'B', value: 'v' },
            ],
          }),
      ],
      [
        true,
        (api) =>
          api.secret.writeBatch(path, {
            environmentId: 'e',
            operations: [{ op: 'set', key: 'A', value: 'v', ifVersion: 1 }],
          }),
      ],
    ]
    for (const [isRepeated, call] of calls) {
      const { url, requests } = await startScripted(fail, success)
      const result = call(open(url).api)
      if (isRepeated) await result
      else await expect(result).rejects.toMatchObject({ name: /ConnectionError|ApiError/ })
      expect(requests).toHaveLength(isRepeated ? 2 : 1)
    }
  })

  test('any write is sent again after a 503 that says that nothing was done, and after no other answer that says so', async () => {
    for (const [status, isRepeated] of [
      [503, true],
      [500, false],
      [400, false],
    ] as const) {
      const { url, requests } = await startScripted(json(status, {}, { 'x-coffer-unprocessed': 'true' }), success)
      const result = open(url).api.secret.writeValue(path, { environmentId: 'e', value: 'v' })
      if (isRepeated) await result
      else await expect(result).rejects.toMatchObject({ status })
      expect(requests).toHaveLength(isRepeated ? 2 : 1)
    }
  })

  test('any write is sent again after 429 and after a refused connection: it has not happened', async () => {
    const { url, requests } = await startScripted(json(429, {}, { 'retry-after': '0' }), success)
    await open(url).api.secret.writeValue(path, { environmentId: 'e', value: 'v' })
    expect(requests).toHaveLength(2)
    const closed = await startScripted(success)
    await new Promise((resolve) => closed.server.close(resolve))
    const { api, clock } = open(closed.url)
    const refused = api.secret.writeValue(path, { environmentId: 'e', value: 'v' })
    await expect(refused).rejects.toMatchObject({ code: 'ECONNREFUSED' })
    expect(clock.sleeps).toEqual([125, 250, 500, 1_000, 2_000])
  })

  test('a service that hangs, before or in the middle of its response, is given up after two time limits', async () => {
    const hangs: Respond[] = [
      () => undefined,
      (response) => response.writeHead(200, { 'content-type': 'application/json' }).write('['),
    ]
    for (const hang of hangs) {
      const { url } = await startScripted(hang)
      const { api, clock } = open(url, { timeoutMs: 200 })
      await expect(api.workspace.list()).rejects.toMatchObject({ name: 'ConnectionError', code: 'TIMEOUT' })
      expect(clock.sleeps).toHaveLength(1)
    }
  })

  test('a time limit may be what is left of a deadline', async () => {
    const { url } = await startScripted(json(200, []))
    expect(await open(url).api.workspace.list({ timeoutMs: 100_000 / 3 })).toEqual([])
    const silent = await startScripted(() => undefined)
    await expect(open(silent.url).api.workspace.list({ timeoutMs: -0.5 })).rejects.toMatchObject({ code: 'TIMEOUT' })
  })

  test('a signal ends a call that hangs or waits for its next attempt, with its own reason', async () => {
    const { url } = await startScripted(() => undefined)
    const controller = new AbortController()
    const hanging = open(url).api.workspace.list({ signal: controller.signal })
    controller.abort(new Error('enough'))
    await expect(hanging).rejects.toThrow('enough')

    const waiting = new AbortController()
    const busy = await startScripted((response, request, body) => {
      json(429, {}, { 'retry-after': '30' })(response, request, body)
      setTimeout(() => waiting.abort('enough'), 50)
    })
    const api = createApi({ url: busy.url, credential: 'x', platform: { env: {}, transport } })
    await expect(api.workspace.list({ signal: waiting.signal })).rejects.toBe('enough')
    expect(busy.requests).toHaveLength(1)
  })

  test.each([
    ['text', 200, 'text/html', '<h1>canary</h1>'],
    ['half of a JSON text', 200, 'application/json', '{"canary":'],
    ['nothing', 200, 'application/json', ''],
    ['a redirect', 302, 'text/html', 'canary'],
  ])('%s instead of JSON is an error that does not quote it', async (_what, status, type, body) => {
    const { url, requests } = await startScripted((response) =>
      response.writeHead(status, { 'content-type': type, location: 'http://127.0.0.1:1/canary' }).end(body),
    )
    const error = await open(url)
      .api.workspace.list()
      .catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ name: 'ResponseError', status })
    expect(error).not.toHaveProperty('cause')
    expect(String(error)).not.toContain('canary')
    expect(requests).toHaveLength(1)
  })

  test('the page of a proxy is not taken for an export', async () => {
    const { url } = await startScripted((response) =>
      response.writeHead(200, { 'content-type': 'text/html; charset=utf-8' }).end('<h1>canary</h1>'),
    )
    const { api } = open(url)
    const query = { environmentId: 'production', format: 'shell' } as const
    const refusal = { name: 'ResponseError', status: 200 }
    await expect(api.secret.export({ ws: 'main', prj: 'api' }, query)).rejects.toMatchObject(refusal)
    await expect(api.audit.list({ ws: 'main' })).rejects.toMatchObject(refusal)
  })

  test('an error without a message of the service names its status', async () => {
    const { url } = await startScripted((response) => response.writeHead(500).end('<h1>canary</h1>'))
    await expect(open(url).api.workspace.list()).rejects.toMatchObject({
      message: 'The service answered with status 500.',
      status: 500,
    })
  })
})

test('the Retry-After of the real service is understood', async () => {
  const { service, token, stop } = await startSdkService({ COFFER_RATE_LIMIT: '10' })
  onTestFinished(stop)
  const clock = testClock()
  const platform = { ...clock.platform, env: {} }
  const api = createApi({ url: service.url, credential: token, retries: 1, platform })
  const calls = Array.from({ length: 40 }, () => api.me.read())
  const refused = (await Promise.allSettled(calls)).find(({ status }) => status === 'rejected')
  // The limit has a clock of its own, which no test moves.
  expect(refused).toMatchObject({ reason: { status: 429, retryAfterMs: expect.any(Number) } })
  expect(clock.sleeps[0]).toBeGreaterThanOrEqual(1_000)
  expect(clock.sleeps[0]).toBeLessThan(61_000)
})
