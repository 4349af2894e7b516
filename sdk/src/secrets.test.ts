/** An application reads its secrets from the real service, over both transports. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type SdkService, startSdkService, testClock } from '../../test/sdk-service.ts'
import { coffer, InvalidSecret, MissingSecret, SettingError } from './coffer.ts'
import { nodeTransport } from './node-transport.ts'
import { fetchTransport } from './transport.ts'

let running: SdkService
beforeAll(async () => {
  running = await startSdkService()
  await running.write({
    HOST: 'db.example.com',
    DATABASE_URL: `postgres://\${HOST}/app`,
    PORT: '5432',
    EMPTY: '',
    FLAG: 'off',
    WORDS: 'not a number',
    UMLAUT: 'ä€😀\n\u0000',
  })
})
afterAll(() => running.stop())

describe.each([
  ['fetch', fetchTransport],
  ['node:http', nodeTransport],
])('over %s', (_name, transport) => {
  const open = (env: Record<string, string | undefined> = {}) =>
    coffer({ platform: { env: { ...running.env, ...env }, transport } })

  test('everything comes from the environment, and references are resolved', async () => {
    const secrets = await open()
    expect(secrets.get('DATABASE_URL')).toBe('postgres://db.example.com/app')
    expect(secrets.get('UMLAUT')).toBe('ä€😀\n\u0000')
    expect(secrets.get('EMPTY')).toBe('')
    expect(secrets.find('ABSENT')).toBeUndefined()
    expect(secrets.names()).toEqual(['DATABASE_URL', 'EMPTY', 'FLAG', 'HOST', 'PORT', 'UMLAUT', 'WORDS'])
    expect(secrets.reveal().PORT).toBe('5432')
  })

  test('a snapshot starts without a read, and asks with its ETag', async () => {
    const kept = (await open()).snapshot()
    const statuses: number[] = []
    const secrets = await coffer({
      snapshot: kept,
      platform: {
        env: running.env,
        async transport(request) {
          const response = await transport(request)
          statuses.push(response.status)
          return response
        },
      },
    })
    expect(secrets.get('PORT')).toBe('5432')
    expect(statuses).toEqual([])
    expect(await secrets.refresh()).toEqual({ added: [], changed: [], removed: [] })
    expect(statuses).toEqual([304])
    expect(secrets.snapshot()).toEqual(kept)
  })

  test('a credential for one environment needs no project', async () => {
    const { body } = await running.service.call<{ token: string }>('POST', '/v1/workspace/main/tokens', {
      token: running.session,
      body: {
        name: 'one',
        permission: 'read',
        scope: { environments: [running.environmentId] },
        expiresIn: '24h',
      },
    })
    const secrets = await open({
      COFFER_TOKEN: body.token,
      COFFER_WORKSPACE: undefined,
      COFFER_PROJECT: undefined,
      COFFER_ENVIRONMENT: undefined,
    })
    expect(secrets.get('DATABASE_URL')).toBe('postgres://db.example.com/app')
  })

  test('a refusal names the status, the message of the service and the request', async () => {
    const refused = await open({ COFFER_TOKEN: 'cof_live_wrong' }).catch((error: unknown) => error)
    expect(refused).toMatchObject({ name: 'ApiError', status: 401 })
    expect(Object(refused).message).not.toBe('')
    const { requestId } = Object(refused)
    expect(running.service.logs.some((line) => line.includes(requestId))).toBe(true)
    await expect(open({ COFFER_ENVIRONMENT: 'nowhere' })).rejects.toMatchObject({ status: 404 })
  })
})

const open = (options = {}) => coffer({ platform: { env: running.env }, ...options })

test('a missing secret is named with the place', async () => {
  const secrets = await open()
  expect(() => secrets.get('ABSENT')).toThrow(MissingSecret)
  expect(() => secrets.get('ABSENT')).toThrow('There is no secret ABSENT in main/api/development.')
  expect(() => secrets.require('ABSENT', Number)).toThrow(MissingSecret)
})

test('values are converted, and a value of another type is refused without showing it', async () => {
  const secrets = await open()
  const port: number = secrets.require('PORT', Number)
  const flag: boolean = secrets.require('FLAG', Boolean)
  const address: URL = secrets.require('DATABASE_URL', (text) => new URL(text))
  expect([port, flag, address.hostname]).toEqual([5432, false, 'db.example.com'])
  const wrong: [string, (text: string) => unknown][] = [
    ['WORDS', Number],
    ['EMPTY', Number],
    ['WORDS', Boolean],
    ['WORDS', (text) => new URL(text)],
    ['WORDS', JSON.parse],
    ['WORDS', () => undefined],
  ]
  for (const [name, parse] of wrong) {
    expect(() => secrets.require(name, parse)).toThrow(InvalidSecret)
    expect(() => secrets.require(name, parse)).not.toThrow('not a number')
  }
})

test('options take precedence over the environment', async () => {
  const env = { ...running.env, COFFER_URL: 'http://127.0.0.1:1', COFFER_TOKEN: 'wrong', COFFER_ENVIRONMENT: 'no' }
  const { url } = running.service
  const options = { url: `${url}/`, credential: running.token, environment: running.environmentId }
  const secrets = await coffer({ ...options, platform: { env } })
  expect(secrets.get('PORT')).toBe('5432')
})

test.each([
  ['COFFER_URL', { COFFER_URL: undefined }],
  ['the address of the service', { COFFER_URL: 'ftp://example.com' }],
  ['user, password', { COFFER_URL: 'https://canary:canary@example.com' }],
  ['COFFER_WORKSPACE', { COFFER_WORKSPACE: undefined }],
  ['COFFER_ENVIRONMENT', { COFFER_ENVIRONMENT: '' }],
  ['COFFER_TOKEN', { COFFER_TOKEN: '' }],
  ['credential', { COFFER_TOKEN: 'canary\ncanary' }],
])('a wrong setting is an error that names %s', async (named, env) => {
  const error = await coffer({ platform: { env: { ...running.env, ...env } } }).catch((thrown: unknown) => thrown)
  expect(error).toBeInstanceOf(SettingError)
  expect(String(error).toLowerCase()).toContain(named.toLowerCase())
  expect(String(error)).not.toContain('canary')
})

test('a reference that cannot be resolved is an error unless it may stay', async () => {
  await running.write({ BROKEN: `\${ABSENT}` })
  await expect(open()).rejects.toMatchObject({ status: 409 })
  const kept = await open({ onUnresolved: 'keep' })
  expect(kept.get('BROKEN')).toBe(`\${ABSENT}`)
  const empty = await open({ onUnresolved: 'empty' })
  expect(empty.get('BROKEN')).toBe('')
  await running.remove('BROKEN')
})

test('watch yields the names of changes, and reads nothing while nothing changes', async () => {
  const clock = testClock()
  const statuses: number[] = []
  const secrets = await coffer({
    platform: {
      ...clock.platform,
      env: running.env,
      async transport(request) {
        const response = await fetchTransport(request)
        statuses.push(response.status)
        // The first question after the start finds nothing new.
        if (statuses.length === 2) await running.write({ PORT: '5433', NEW: 'new' })
        if (statuses.length === 4) await running.remove('NEW')
        return response
      },
    },
  })
  const changes: unknown[] = []
  for await (const change of secrets.watch({ intervalMs: 5_000 })) {
    changes.push({ ...change, port: secrets.get('PORT'), added: change.added })
    if (changes.length === 2) break
  }
  expect(changes).toEqual([
    { added: ['NEW'], changed: ['PORT'], removed: [], port: '5433' },
    { added: [], changed: [], removed: ['NEW'], port: '5433' },
  ])
  expect(statuses).toEqual([200, 304, 200, 304, 200])
  expect(clock.sleeps).toEqual([5_000, 5_000, 5_000, 5_000])
})

test('watch ends without an error when its signal aborts', async () => {
  const secrets = await open()
  const controller = new AbortController()
  const ended = (async () => {
    for await (const _ of secrets.watch({ signal: controller.signal })) throw new Error('nothing has changed')
    return 'ended'
  })()
  controller.abort()
  expect(await ended).toBe('ended')
})

test('an aborted start throws the reason of the signal', async () => {
  const signal = AbortSignal.abort('stop')
  await expect(open({ signal })).rejects.toBe('stop')
})
