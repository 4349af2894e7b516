/** Secrets stay readable while the service is away, and only then. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createDatabase, createProject, type Database, registerOwner } from '../../test/harness.ts'
import { type Serving, serve } from '../../test/process.ts'
import { json, startScripted, testClock } from '../../test/sdk-service.ts'
import { ConnectionError, coffer } from './coffer.ts'
import { nodeTransport } from './node-transport.ts'

const place = { workspace: 'main', project: 'api', environment: 'development' }

let database: Database
let service: Serving
let session: string
beforeAll(async () => {
  database = await createDatabase()
  service = await serve(database.settings)
  session = (await registerOwner(service)).session
  await createProject(service, session, 'api')
})
afterAll(async () => {
  await service.stop()
  await database.drop()
})

async function write(value: string): Promise<void> {
  const body = { environments: ['development'], secrets: [{ key: 'PORT', value }], mode: 'upsert' }
  const answer = await service.call('POST', '/v1/workspace/main/project/api/secret', { token: session, body })
  expect(answer.status, answer.text).toBe(201)
}

const restart = async () => {
  service = await serve({ ...database.settings, COFFER_PORT: String(service.port) })
}

test('an application outlives a restart of the service, and refreshes afterwards', async () => {
  await write('1')
  const clock = testClock()
  const options = { url: service.url, credential: session, ...place, platform: { ...clock.platform, env: {} } }
  const secrets = await coffer(options)
  await service.destroy()
  expect(await secrets.refresh()).toEqual({ added: [], changed: [], removed: [] })
  expect(secrets.get('PORT')).toBe('1')
  clock.at += 10 * 60_000
  await expect(secrets.refresh()).rejects.toThrow(ConnectionError)
  // The last known value is better than none.
  expect(secrets.get('PORT')).toBe('1')
  await restart()
  await write('2')
  expect(await secrets.refresh()).toEqual({ added: [], changed: ['PORT'], removed: [] })
  expect(secrets.get('PORT')).toBe('2')
})

test.each([
  ['fetch', {}],
  ['node:http', { transport: nodeTransport }],
])('an application starts while the service restarts, over %s', async (_name, transport) => {
  await write('3')
  await service.stop()
  const options = { url: service.url, credential: session, ...place, retries: 1_000 }
  const starting = coffer({ ...options, platform: { env: {}, ...transport } })
  await restart()
  expect((await starting).get('PORT')).toBe('3')
})

const list = (value: string) => json(200, [{ name: 'PORT', values: [{ value }] }], { etag: `"${value}"` })
const open = (url: string, more = {}) => {
  const { platform, ...clock } = testClock()
  const options = { url, credential: 'cof_live_x', retries: 0, ...more }
  return { clock, opened: coffer({ ...options, platform: { ...platform, env: {} } }) }
}

test.each([401, 403, 404])(
  'after %i the values are gone at once, until the service accepts the caller again',
  async (status) => {
    const { url } = await startScripted(list('1'), json(status, { message: 'refused' }), list('1'))
    const secrets = await open(url).opened
    await expect(secrets.refresh()).rejects.toMatchObject({ status, message: 'refused' })
    expect(() => secrets.get('PORT')).toThrow('refused')
    expect(() => secrets.find('PORT')).toThrow('refused')
    expect(() => secrets.reveal()).toThrow('refused')
    expect(await secrets.refresh()).toEqual({ added: ['PORT'], changed: [], removed: [] })
    expect(secrets.get('PORT')).toBe('1')
  },
)

test('after a refusal nothing is kept that an outage could leave in place', async () => {
  const { url } = await startScripted(list('1'), json(403, { message: 'refused' }), json(500, { message: 'broken' }))
  const secrets = await open(url).opened
  await expect(secrets.refresh()).rejects.toThrow('refused')
  await expect(secrets.refresh()).rejects.toThrow('broken')
  expect(() => secrets.get('PORT')).toThrow('refused')
})

test.each([
  [0, 1_000],
  [Number.NaN, 1_000],
  [-1, 1_000],
  [2 ** 31, 86_400_000],
  [Number.POSITIVE_INFINITY, 86_400_000],
])('an interval of %d ms between two questions becomes %d', async (intervalMs, usedMs) => {
  const { url } = await startScripted(list('1'), list('2'))
  const { clock, opened } = open(url)
  for await (const _ of (await opened).watch({ intervalMs })) break
  expect(clock.sleeps).toEqual([usedMs])
})

test.each([
  ['500', json(500, {})],
  ['502 of a proxy', json(502, {})],
  ['409 for a reference', json(409, { message: 'unresolved' })],
  ['a page instead of JSON', json(200, '<h1>')],
  ['JSON of another shape', json(200, [{ name: 'PORT' }])],
])('after %s the values stay', async (_what, fail) => {
  const { url } = await startScripted(list('1'), fail)
  const secrets = await open(url).opened
  expect(await secrets.refresh()).toEqual({ added: [], changed: [], removed: [] })
  expect(secrets.get('PORT')).toBe('1')
})

test('without staleIfErrorMs every failed refresh throws', async () => {
  const { url } = await startScripted(list('1'), json(500, { message: 'broken' }))
  const secrets = await open(url, { staleIfErrorMs: -1 }).opened
  await expect(secrets.refresh()).rejects.toThrow('broken')
})

test('watch goes on through an outage, and throws once it has lasted for staleIfErrorMs', async () => {
  const { url, requests } = await startScripted(list('1'), json(500, {}), list('2'), json(500, { message: 'broken' }))
  const secrets = await open(url, { staleIfErrorMs: 100_000 }).opened
  const changes: unknown[] = []
  const watching = (async () => {
    for await (const { changed } of secrets.watch({ intervalMs: 30_000 })) changes.push(changed)
  })()
  await expect(watching).rejects.toThrow('broken')
  expect(changes).toEqual([['PORT']])
  // One success, then failures after 30, 60, 90 and 120 seconds.
  expect(requests).toHaveLength(7)
})

test('simultaneous refreshes are one request, and one that aborts leaves the others alone', async () => {
  const { url, requests } = await startScripted(list('1'), (response, request, body) =>
    setTimeout(() => list('2')(response, request, body), 50),
  )
  const secrets = await open(url).opened
  const controller = new AbortController()
  const aborted = secrets.refresh({ signal: controller.signal })
  const refreshed = [secrets.refresh(), secrets.refresh()]
  controller.abort('enough')
  await expect(aborted).rejects.toBe('enough')
  expect((await Promise.all(refreshed)).map(({ changed }) => changed)).toEqual([['PORT'], ['PORT']])
  expect(requests).toHaveLength(2)
})

test('every watcher sees every change, whoever has fetched it', async () => {
  const { url } = await startScripted(list('1'), list('2'))
  const secrets = await open(url).opened
  const watchers = [secrets.watch(), secrets.watch()]
  await secrets.refresh()
  for (const watcher of watchers) {
    for await (const { changed } of watcher) {
      expect(changed).toEqual(['PORT'])
      break
    }
  }
})
