/** Credentials of the environment, in their order: tokens, token files and the identities of platforms. */
import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { createToken } from '../../test/harness.ts'
import { createIdentity, loopbackAllowed, startIssuer, type TestIssuer } from '../../test/issuer.ts'
import { startNode } from '../../test/program.ts'
import { json, type SdkService, startScripted, startSdkService, testClock } from '../../test/sdk-service.ts'
import { createApi } from './api.ts'
import type { ConnectOptions } from './connect.ts'
import { fetchTransport } from './transport.ts'

let running: SdkService
let issuer: TestIssuer
let folder: string
beforeAll(async () => {
  running = await startSdkService({ ...loopbackAllowed, COFFER_EXCHANGE_RATE_LIMIT: '0' })
  issuer = await startIssuer(() => Date.now() + running.service.clock.offsetMs)
  folder = await mkdtemp(join(tmpdir(), 'coffer-sdk-'))
})
afterAll(async () => {
  await running.stop()
  await issuer.stop()
  await rm(folder, { recursive: true })
})
beforeEach(() => {
  running.service.clock.offsetMs = 0
})

/** A client with exactly these variables, the paths that it requested, and the clock that it shares with the service. */
function open(env: Readonly<Record<string, string>>, options: ConnectOptions = {}) {
  const requests: string[] = []
  const clock = testClock()
  const api = createApi({
    url: running.service.url,
    workspace: 'main',
    ...options,
    platform: {
      ...clock.platform,
      ...options.platform,
      env,
      transport(request) {
        requests.push(new URL(request.url).pathname)
        return fetchTransport(request)
      },
    },
  })
  function advance(durationMs: number): void {
    clock.at += durationMs
    running.service.clock.offsetMs += durationMs
  }
  return { api, requests, advance, clock }
}

const typeOf = async ({ api }: ReturnType<typeof open>) => (await api.me.read()).credential.type
const exchangePath = '/v1/auth/exchange'
const federationPath = '/v1/auth/oidc/exchange'

describe('tokens', () => {
  test('a token is sent as it is', async () => {
    const client = open({ COFFER_TOKEN: `${running.token}\n` })
    expect(await typeOf(client)).toBe('static')
    expect(client.requests).toEqual(['/v1/me'])
  })

  test('a token file is read again when it changes', async () => {
    const file = join(folder, 'token')
    await writeFile(file, `${running.token}\n`)
    const client = open({ COFFER_TOKEN_FILE: file })
    expect(await typeOf(client)).toBe('static')
    await writeFile(join(folder, 'next'), running.session)
    await rename(join(folder, 'next'), file)
    expect(await typeOf(client)).toBe('session')
    await rm(file)
    await expect(client.api.me.read()).rejects.toThrow(`${file} cannot be read (ENOENT).`)
  })

  test('a function is asked for every request', async () => {
    const tokens = [running.token, running.session]
    const client = open({}, { credential: async () => tokens.shift() ?? '' })
    expect([await typeOf(client), await typeOf(client)]).toEqual(['static', 'session'])
  })

  test('a signal reaches a function that hangs, and ends the call', async () => {
    const controller = new AbortController()
    let given: AbortSignal | undefined
    const credential = (signal?: AbortSignal) => {
      given = signal
      setImmediate(() => controller.abort('enough'))
      return new Promise<string>(() => undefined)
    }
    await expect(open({}, { credential }).api.me.read({ signal: controller.signal })).rejects.toBe('enough')
    expect(given).toBe(controller.signal)
  })

  test('null sends no credential', async () => {
    await expect(open({}, { credential: null }).api.me.read()).rejects.toMatchObject({ status: 401 })
  })

  test('the session of the command line comes last', async () => {
    const findSession = () => running.session
    expect(await typeOf(open({ COFFER_TOKEN: running.token }, { findSession }))).toBe('static')
    expect(await typeOf(open({}, { findSession }))).toBe('session')
    await expect(open({}, { findSession: () => undefined }).api.me.read()).rejects.toMatchObject({
      name: 'SettingError',
    })
  })
})

describe('the exchange for a JWT', () => {
  test('many callers share one exchange, and one renewal a minute before the end', async () => {
    const client = open({ COFFER_TOKEN: running.token }, { exchange: true })
    const exchanges = () => client.requests.filter((path) => path === exchangePath).length
    const readMany = () => Promise.all(Array.from({ length: 20 }, () => typeOf(client)))
    expect(new Set(await readMany())).toEqual(new Set(['jwt']))
    expect(exchanges()).toBe(1)
    client.advance(14 * 60_000 - 1_000)
    await readMany()
    expect(exchanges()).toBe(1)
    client.advance(1_000)
    await readMany()
    expect(exchanges()).toBe(2)
  })

  test('a session is sent as it is', async () => {
    const client = open({ COFFER_TOKEN: running.session }, { exchange: true })
    expect(await typeOf(client)).toBe('session')
    expect(client.requests).toEqual(['/v1/me'])
  })

  test('a JWT whose token was rotated is replaced once, with the new token', async () => {
    const { id, token } = await createToken(running.service, running.session)
    const file = join(folder, 'rotated')
    await writeFile(file, token)
    const client = open({ COFFER_TOKEN_FILE: file }, { exchange: true })
    expect(await typeOf(client)).toBe('jwt')
    const rotated = await createApi({ url: running.service.url, credential: running.session }).token.rotate({
      ws: 'main',
      id,
    })
    await expect(client.api.me.read()).rejects.toMatchObject({ status: 401 })
    await writeFile(file, rotated.token)
    client.requests.length = 0
    expect(await typeOf(client)).toBe('jwt')
    expect(client.requests).toEqual([exchangePath, '/v1/me'])
  })

  test('an outage during the last minute of a JWT goes unnoticed', async () => {
    let isDown = false
    const { url } = await startScripted((response, request) => {
      if (isDown && request.url === exchangePath) json(503, {})(response, request, '')
      else if (request.url === exchangePath) json(200, { accessToken: 'jwt', expiresIn: 900 })(response, request, '')
      else json(200, [request.headers.authorization])(response, request, '')
    })
    const client = open({ COFFER_TOKEN: 'cof_live_x' }, { url, exchange: true, retries: 0 })
    await client.api.workspace.list()
    isDown = true
    client.advance(14 * 60_000 + 30_000)
    expect(await client.api.workspace.list()).toEqual(['Bearer jwt'])
    client.advance(30_000)
    await expect(client.api.workspace.list()).rejects.toMatchObject({ status: 503 })
  })

  test('no call waits for a renewal while the old JWT is valid', async () => {
    let exchanges = 0
    const { url } = await startScripted((response, request) => {
      // The second exchange hangs.
      if (request.url !== exchangePath) json(200, [request.headers.authorization])(response, request, '')
      else if (exchanges++ === 0) json(200, { accessToken: 'jwt', expiresIn: 900 })(response, request, '')
    })
    const client = open({ COFFER_TOKEN: 'cof_live_x' }, { url, exchange: true, retries: 0, timeoutMs: 600_000 })
    await client.api.workspace.list()
    client.advance(14 * 60_000)
    const signal = AbortSignal.timeout(120_000)
    expect(await client.api.workspace.list({ signal })).toEqual(['Bearer jwt'])
    expect(exchanges).toBe(2)
  })

  test('a process does not stay for a renewal that is told to wait', async () => {
    let exchanges = 0
    const { url } = await startScripted((response, request) => {
      if (request.url !== exchangePath) json(200, [])(response, request, '')
      else if (exchanges++ === 0) json(200, { accessToken: 'jwt', expiresIn: 60 })(response, request, '')
      else json(429, {}, { 'retry-after': '60' })(response, request, '')
    })
    const program = join(folder, 'program.ts')
    await writeFile(
      program,
      `import { createApi } from '${join(import.meta.dirname, 'coffer.ts')}'
       let at = 0
       const platform = { now: () => at }
       const api = createApi({ url: '${url}', credential: 'cof_live_x', exchange: true, platform })
       await api.workspace.list()
       at = 59_000
       await api.workspace.list()
       const doneAt = performance.now()
       process.on('exit', () => console.log(performance.now() - doneAt < 50_000))`,
    )
    expect(await startNode([program]).ended).toMatchObject({ code: 0, err: '', out: 'true\n' })
    expect(exchanges).toBe(2)
  })

  test('a caller that aborts does not end the exchange for the others', async () => {
    const { promise: aborted, resolve: answerNow } = Promise.withResolvers<void>()
    const { url, requests } = await startScripted(async (response, request) => {
      const body = request.url === exchangePath ? { accessToken: 'jwt', expiresIn: 900 } : []
      await aborted
      json(200, body)(response, request, '')
    })
    const { api } = open({ COFFER_TOKEN: 'cof_live_x' }, { url, exchange: true })
    const controller = new AbortController()
    const impatient = api.workspace.list({ signal: controller.signal })
    const patient = api.workspace.list()
    setTimeout(() => controller.abort('enough'), 10)
    await expect(impatient).rejects.toBe('enough')
    answerNow()
    expect(await patient).toEqual([])
    expect(requests).toEqual([`POST ${exchangePath}`, 'GET /v1/workspace'])
  })
})

describe('identities of platforms', () => {
  test('GitHub Actions: a token for the address of the service is requested and exchanged, again when it ends', async () => {
    const { url } = running.service
    await createIdentity(running.service, running.session, {
      issuer: issuer.url,
      audience: url,
      subject: 'repo:*:main',
    })
    const github = await startScripted(async (response, { headers, url: path = '' }) => {
      const query = new URL(path, issuer.url).searchParams
      const isAllowed = headers.authorization === 'Bearer request-token' && query.get('api-version') === '2.0'
      const value = await issuer.sign({ aud: query.get('audience'), sub: 'repo:octo/app:main' })
      if (isAllowed) json(200, { value })(response, {} as never, '')
      else response.writeHead(401).end()
    })
    const env = {
      ACTIONS_ID_TOKEN_REQUEST_URL: `${github.url}/idtoken?api-version=2.0`,
      ACTIONS_ID_TOKEN_REQUEST_TOKEN: 'request-token',
      // GitLab's variable comes later in the order.
      COFFER_ID_TOKEN: 'wrong',
    }
    const client = open(env)
    expect(await typeOf(client)).toBe('oidc')
    expect(await typeOf(client)).toBe('oidc')
    expect(client.requests).toEqual(['/idtoken', federationPath, '/v1/me', '/v1/me'])
    client.advance(15 * 60_000)
    expect(await typeOf(client)).toBe('oidc')
    expect(github.requests).toHaveLength(2)
  })

  test('GitLab: the token of the job is exchanged', async () => {
    await createIdentity(running.service, running.session, { issuer: issuer.url, subject: 'project_path:group/app' })
    const client = open({ COFFER_ID_TOKEN: await issuer.sign({ sub: 'project_path:group/app' }) })
    expect(await typeOf(client)).toBe('oidc')
    expect(client.requests).toEqual([federationPath, '/v1/me'])
  })

  test('Kubernetes: the projected token is read again for every exchange', async () => {
    await createIdentity(running.service, running.session, { issuer: issuer.url, subject: 'system:serviceaccount:a:b' })
    const file = join(folder, 'pod-token')
    const renew = async () => writeFile(file, await issuer.sign({ sub: 'system:serviceaccount:a:b' }))
    await renew()
    const client = open({ COFFER_ID_TOKEN_FILE: file })
    expect(await typeOf(client)).toBe('oidc')
    client.advance(15 * 60_000)
    await expect(client.api.me.read()).rejects.toMatchObject({ status: 401 })
    await renew()
    expect(await typeOf(client)).toBe('oidc')
  })

  test('Kubernetes: in a pod the token is found where the guide mounts it', async () => {
    await createIdentity(running.service, running.session, { issuer: issuer.url, subject: 'system:serviceaccount:c:d' })
    const podToken = await issuer.sign({ sub: 'system:serviceaccount:c:d' })
    const readFile = async (path: string) => (path === '/var/run/coffer/token' ? podToken : undefined)
    const env = { KUBERNETES_SERVICE_HOST: '10.0.0.1', COFFER_ID_TOKEN_FILE: '' }
    expect(await typeOf(open(env, { platform: { readFile } }))).toBe('oidc')
    const elsewhere = open(env, { platform: { readFile: async () => undefined } })
    await expect(elsewhere.api.me.read()).rejects.toThrow('There is no credential')
  })

  test('an explicit identity token is exchanged', async () => {
    await createIdentity(running.service, running.session, { issuer: issuer.url, subject: 'explicit' })
    const credential = { identityToken: () => issuer.sign({ sub: 'explicit' }) }
    expect(await typeOf(open({}, { credential }))).toBe('oidc')
  })

  test('the workspace is required, and a refused token is 401', async () => {
    const env = { COFFER_ID_TOKEN: await issuer.sign({ sub: 'stranger' }) }
    await expect(open(env, { workspace: '' }).api.me.read()).rejects.toThrow('COFFER_WORKSPACE')
    await expect(open(env).api.me.read()).rejects.toMatchObject({ status: 401 })
  })
})
