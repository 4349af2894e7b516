/** No error, object or log line of the SDK shows a value or a credential, however it is printed. */
import { inspect } from 'node:util'
import { describe, expect, test } from 'vitest'
import { json, type Respond, startScripted, testClock } from '../../test/sdk-service.ts'
import { coffer, createApi } from './coffer.ts'
import { nodeTransport } from './node-transport.ts'
import { fetchTransport } from './transport.ts'

/** JSON spells it differently. */
const quoted = 'canary-"7d1f"\n'
const canary = 'canary-7d1f'

/** Everything that a logger could print of a thing. */
function printed(thing: unknown): string {
  const nested = { a: { b: [{ thing }] } }
  const options = { depth: null, showHidden: true, getters: true, showProxy: true } as const
  const fields = Object.getOwnPropertyNames(Object(thing)).map((name) => String(Object(thing)[name]))
  return [
    inspect(thing, options),
    inspect(nested, options),
    JSON.stringify(nested),
    String(thing),
    inspect(Object(thing).cause, options),
    Object(thing).stack,
    ...fields,
  ].join('\n')
}

const place = { workspace: 'main', project: 'api', environment: 'development' }
const list = json(200, [{ name: 'PORT', values: [{ value: canary }] }])

describe.each([
  ['fetch', fetchTransport],
  ['node:http', nodeTransport],
])('over %s', (_name, transport) => {
  const platform = { ...testClock().platform, env: {}, transport }
  const options = { credential: `cof_live_${canary}`, platform, retries: 1 }

  test('opened secrets and the functions of them print no value', async () => {
    const { url } = await startScripted(list)
    const secrets = await coffer({ url, ...options, ...place })
    expect(secrets.get('PORT')).toBe(canary)
    expect(printed(secrets)).not.toContain('canary')
    for (const member of Object.values(secrets)) expect(printed(member)).not.toContain('canary')
    expect(printed(secrets.watch())).not.toContain('canary')
    expect(printed(await secrets.refresh())).not.toContain('canary')
    const wrong = () => secrets.require('PORT', Number)
    expect(wrong).toThrow('PORT')
    try {
      wrong()
    } catch (error) {
      expect(printed(error)).not.toContain('canary')
    }
  })

  test('an API object prints no credential', async () => {
    const { url } = await startScripted(list)
    const api = createApi({ url, ...options })
    await api.workspace.list()
    expect(printed(api)).not.toContain('canary')
    expect(printed(api.secret.list)).not.toContain('canary')
  })

  test.each([
    [
      'a message that repeats the request',
      (response, request, body) =>
        json(500, { message: `${request.headers.authorization} ${body}` })(response, request, body),
    ],
    [
      'a page that repeats the request',
      (response, request, body) =>
        response.writeHead(200, { 'content-type': 'text/html' }).end(`${request.headers.authorization} ${body}`),
    ],
    ['broken JSON', (response) => response.writeHead(200, { 'content-type': 'application/json' }).end(`{"${canary}`)],
    ['a redirect', (response) => response.writeHead(307, { location: `/${canary}` }).end()],
    ['a lost connection', (response) => response.destroy()],
    ['a hanging service', () => undefined],
    ['headers that are no HTTP', (response) => response.socket?.end(`HTTP/1.1 200 OK\r\n${canary}\r\n\r\n`)],
    ['a request id of its own', json(400, { message: 'no' }, { 'x-request-id': `${canary} ${canary}` })],
  ] as [string, Respond][])('the error after %s shows none', async (_what, respond) => {
    const { url } = await startScripted(respond)
    const api = createApi({ url, ...options, timeoutMs: 300 })
    const calls = [
      api.secret.writeValue({ ws: 'main', prj: 'api', key: 'PORT' }, { environmentId: 'e', value: canary }),
      api.secret.writeBatch(
        { ws: 'main', prj: 'api' },
        {
          environmentId: 'e',
          operations: ['canary', canary].map((value) => ({ op: 'set', key: 'PORT', value, ifVersion: 1 })),
        },
      ),
      api.auth.login({ email: 'a@example.com', password: quoted }),
      api.auth.exchangeIdentity({ token: canary, workspaceId: 'main' }),
      api.sync.submitFlowStep(
        { slug: 'aws-secrets-manager' },
        { syncConfigId: 'id', step: 'auth', values: { secretAccessKey: canary } },
      ),
    ]
    for (const { status, reason } of (await Promise.allSettled(calls)) as PromiseRejectedResult[]) {
      expect(status).toBe('rejected')
      expect(printed(reason)).not.toMatch(/canary|7d1f/)
    }
  })

  test('a message of the service cannot move the cursor of a terminal', async () => {
    const { url } = await startScripted(json(400, { message: 'no\u001b[2J\u009b\r\nsecond' }))
    await expect(createApi({ url, ...options }).me.read()).rejects.toThrow(/^no \[2J second$/)
  })

  test.each([`cof_live_${canary}\nx: y`, `${canary}\u00e9`, `${canary} ${canary}`])(
    'a credential that cannot be sent is refused without showing it (%#)',
    async (credential) => {
      const { url, requests } = await startScripted(list)
      const error = await createApi({ url, ...options, credential })
        .me.read()
        .catch((thrown: unknown) => thrown)
      expect(error).toMatchObject({ name: 'SettingError' })
      expect(printed(error)).not.toContain('canary')
      expect(requests).toEqual([])
    },
  )
})
