import { SecretManagerServiceClient } from '@google-cloud/secret-manager'
import crc from 'crc-32/crc32c.js'
import { JWT, OAuth2Client } from 'google-auth-library'
import { decodeJwt, decodeProtectedHeader } from 'jose'
import { describe, expect, test } from 'vitest'
import { crc32c } from '../../server/src/crc32c.ts'
import { gcpSecretManager as provider } from '../../server/src/providers/gcp-secret-manager.ts'
import type { OpResult } from '../../server/src/providers/provider.ts'
import { describeProvider } from './conformance.ts'
import { type FakeGcp, fakeGcp, gcpProject, serviceAccount } from './fake/gcp-secret-manager.ts'
import { googleJudge } from './fake/google-api.ts'
import { type FakeRequest, type RunningFake, startFake } from './fake.ts'
import { applyAll, connectionTo, create, remove, update } from './operation.ts'

const syncId = '0199a000-0000-7000-8000-000000000001'
const ours = { 'managed-by': 'coffer', 'coffer-sync': syncId }
const names = ['ALPHA', 'BETA', 'GAMMA'] as const

describeProvider(provider, fakeGcp, { names })
describe('in one region', () => {
  describeProvider(provider, () => fakeGcp({ location: 'europe-west3' }), { names })
})

/** Without the client's enum format parameter and its empty maps. */
const wire = ({ method, path, query, headers, json }: FakeRequest) => ({
  method,
  path,
  query: [...query].filter(([name]) => name !== '$alt'),
  authorization: headers.authorization,
  json: Object.fromEntries(Object.entries(json ?? {}).filter(([, value]) => JSON.stringify(value) !== '{}')),
})
const kindsOf = (results: OpResult[]) =>
  results.map((result) => ('fault' in result ? Reflect.get(result.fault, 'kind') : 'done'))

async function scene(play: (fake: FakeGcp, running: RunningFake) => Promise<void>): Promise<void> {
  const fake = fakeGcp()
  const running = await startFake(fake)
  await play(fake, running)
  await running.close()
  expect(fake.violations).toEqual([])
}

test.each(['global', 'europe-west3'])(
  'the official client works against the fake and sends the same requests as we do: %s',
  async (location) => {
    const theirs = await startFake(fakeGcp({ location }), { plain: true })
    const authClient = new OAuth2Client()
    authClient.setCredentials({ access_token: 'ya29.fake-access-token' })
    const client = new SecretManagerServiceClient({
      fallback: true,
      authClient,
      apiEndpoint: '127.0.0.1',
      port: theirs.port,
      protocol: 'http',
      projectId: gcpProject,
    })
    const isGlobal = location === 'global'
    const parent = isGlobal ? `projects/${gcpProject}` : `projects/${gcpProject}/locations/${location}`
    const name = `${parent}/secrets/ALPHA`
    const secret = { labels: ours, ...(isGlobal && { replication: { automatic: {} } }) }
    const add = (value: string) =>
      client.addSecretVersion({
        parent: name,
        payload: { data: Buffer.from(value), dataCrc32c: crc.buf(Buffer.from(value)) >>> 0 },
      })

    await client.createSecret({ parent, secretId: 'ALPHA', secret })
    await add('one')
    await expect(client.createSecret({ parent, secretId: 'ALPHA', secret })).rejects.toThrow(/already exists/)
    const [known] = await client.getSecret({ name })
    expect(known).toMatchObject({ name, labels: ours })
    const [current] = await client.accessSecretVersion({ name: `${name}/versions/latest` })
    expect(String(current.payload?.data)).toBe('one')
    const [version] = await add('two')
    expect(version).toMatchObject({ name: `${name}/versions/2`, clientSpecifiedPayloadChecksum: true })
    const [secrets] = await client.listSecrets({ parent, pageSize: 1000 }, { autoPaginate: false })
    expect(secrets).toMatchObject([{ name, labels: ours }])
    await client.deleteSecret({ name, etag: known.etag ?? '' })
    await expect(client.deleteSecret({ name })).rejects.toThrow(/not found/)

    const mine = await startFake(fakeGcp({ location }))
    const remote = provider.connect(connectionTo(mine))
    await Array.fromAsync(remote.apply([create('ALPHA', 'one')]))
    await Array.fromAsync(remote.apply([create('ALPHA', 'two')]))
    await Array.fromAsync(remote.list(new Set()))
    await Array.fromAsync(remote.apply([remove({ name: 'ALPHA' })]))
    expect(mine.requests.slice(1).map(wire)).toEqual(theirs.requests.slice(0, -1).map(wire))
    expect([...mine.fake.violations, ...theirs.fake.violations]).toEqual([])
    await Promise.all([theirs.close(), mine.close()])
  },
)

test('the token request is the same as that of google-auth-library', async () => {
  const running = await startFake(fakeGcp({ clock: Date.now }))
  const plain = await startFake(fakeGcp({ clock: Date.now }), { plain: true })
  const jwt = new JWT({
    email: serviceAccount.client_email,
    key: serviceAccount.private_key,
    keyId: serviceAccount.private_key_id,
    scopes: ['https://www.googleapis.com/auth/cloud-platform'],
    transporterOptions: {
      fetchImplementation: (url, init) => fetch(`${plain.url}${new URL(String(url)).pathname}`, init),
    },
  })
  await jwt.authorize()
  await provider.verify(connectionTo(running))

  const asked = ({ method, path, headers, text }: FakeRequest) => {
    const { assertion = '', ...form } = Object.fromEntries(new URLSearchParams(text))
    const { iat = 0, exp = 0, ...claims } = decodeJwt(assertion)
    const { alg } = decodeProtectedHeader(assertion)
    return { method, path, type: headers['content-type'], form, alg, claims, lifetime: exp - iat }
  }
  expect(running.requests.map(asked)).toEqual(plain.requests.map(asked))
  // The library omits the key id, which Google needs if an account has several keys.
  const assertion = new URLSearchParams(running.requests[0]?.text).get('assertion') ?? ''
  expect(decodeProtectedHeader(assertion)).toEqual({ alg: 'RS256', typ: 'JWT', kid: 'a1b2c3' })
  await Promise.all([running.close(), plain.close()])
})

test('repeating an operation after a lost response adds no second version', () =>
  scene(async (fake, running) => {
    for (const op of [create('A', 'one'), update('A', 'two')]) {
      running.injectFailure = ({ path }) => (path.endsWith(':addVersion') ? { kind: 'drop', after: true } : undefined)
      await expect(applyAll(provider, connectionTo(running), [op])).rejects.toMatchObject({ kind: 'transient' })
      running.injectFailure = undefined
      expect(kindsOf(await applyAll(provider, connectionTo(running), [op]))).toEqual(['done'])
    }
    expect(fake.secret('A')?.versions).toEqual(['one', 'two'])
  }))

test('a credential that may not read values can still add a version', () =>
  scene(async (fake, running) => {
    fake.denied.add('AccessSecretVersion')
    await applyAll(provider, connectionTo(running), [create('A', 'one')])
    await applyAll(provider, connectionTo(running), [update('A', 'two')])
    expect(fake.secret('A')?.versions).toEqual(['one', 'two'])
  }))

test('a create adds no version to a foreign secret', () =>
  scene(async (fake, running) => {
    fake.tamper('A', 'theirs')
    expect(kindsOf(await applyAll(provider, connectionTo(running), [create('A', 'x')]))).toEqual(['conflict'])
    expect(fake.secret('A')?.versions).toEqual(['theirs'])
  }))

test('an update of a missing secret creates it with our labels', () =>
  scene(async (fake, running) => {
    expect(kindsOf(await applyAll(provider, connectionTo(running), [update('A', 'one')]))).toEqual(['done'])
    expect(fake.secret('A')).toMatchObject({ labels: ours, versions: ['one'] })
  }))

test('a secret changed after it was listed is not deleted', () =>
  scene(async (fake, running) => {
    await applyAll(provider, connectionTo(running), [create('A', 'one'), create('B', 'two')])
    const remote = provider.connect(connectionTo(running))
    await Array.fromAsync(remote.list(new Set(['A', 'B'])))
    fake.relabel('A')
    const results = await Array.fromAsync(remote.apply([remove({ name: 'A' }), remove({ name: 'B' })]))
    expect(kindsOf(results)).toEqual(['conflict', 'done'])
    expect(fake.state()).toEqual(new Map([['A', 'one']]))
  }))

test('the key is also accepted in base64, and its token_uri is ignored', () =>
  scene(async (fake, running) => {
    const base64 = Buffer.from(fake.credential.serviceAccount ?? '').toString('base64')
    const connection = connectionTo(running, { credential: { serviceAccount: base64 } })
    expect(await provider.verify(connection)).toBe(serviceAccount.client_email)
    expect(running.requests.map(({ host }) => host)).toEqual(['oauth2.googleapis.com'])
  }))

test('a clock two hours behind is reported as the cause, not the key', async () => {
  const running = await startFake(fakeGcp({ clock: Date.now }))
  const work = provider.verify(connectionTo(running, { now: () => Date.now() - 2 * 60 * 60_000 }))
  await expect(work).rejects.toMatchObject({
    kind: 'transient',
    message: expect.stringContaining('120 minutes behind'),
  })
  await running.close()
})

test('the project defaults to that of the key, and the wizard asks for a location if the account may not list them', () =>
  scene(async (fake, running) => {
    const target = { location: 'global' }
    await applyAll(provider, connectionTo(running, { target }), [create('A', 'one')])
    expect(fake.state().size).toBe(1)
    expect(provider.describeTarget(target, fake.credential)).toEqual(
      provider.describeTarget(fake.target, fake.credential),
    )
    const field = provider.target.find(({ id }) => id === 'location')
    if (field?.kind !== 'select' || typeof field.options !== 'function') throw new Error('not a select')
    fake.denied.add('ListLocations')
    expect(await field.options(connectionTo(running))).toBeUndefined()
  }))

const { project_id: _project, ...keyless } = serviceAccount
test.each([
  ['nothing', ''],
  ['some text', 'hello'],
  ['a key of another type', JSON.stringify({ ...serviceAccount, type: 'authorized_user' })],
  ['a key of another universe', JSON.stringify({ ...serviceAccount, universe_domain: 'example.test' })],
  ['a key without a project', JSON.stringify(keyless)],
  ['a truncated private key', JSON.stringify({ ...serviceAccount, private_key: 'x' })],
])('%s is not a service account', (_title, value) => {
  const field = provider.auth.find(({ id }) => id === 'serviceAccount')
  expect(field?.kind === 'password' && field.check?.(value, {})).toBe('is not the JSON key of a service account.')
})

test.each([
  ['project', 'shop-production', true],
  ['project', '123456789012', true],
  ['project', '', true],
  ['project', 'shop/../other', false],
  ['project', 'Shop', false],
  ['location', 'europe-west3', true],
  ['location', 'global', true],
  ['location', 'evil.example.com/', false],
])('%s: %s is accepted: %s', (id, value, isAccepted) => {
  const field = provider.target.find((one) => one.id === id)
  expect(field !== undefined && field.kind !== 'copy' && field.check?.(value, {}) === undefined).toBe(isAccepted)
})

test('the protos reject unknown, missing and invalid fields, and unknown methods', () => {
  const judge = googleJudge({
    'google/cloud/secretmanager/v1/service.proto': 'google.cloud.secretmanager.v1.SecretManagerService',
  })
  const request = (path: string, json: unknown) => ({
    method: 'POST',
    host: 'secretmanager.googleapis.com',
    path,
    query: new URLSearchParams(path.split('?')[1]),
    url: path,
    headers: {},
    text: JSON.stringify(json),
    json,
  })
  const add = (json: unknown) => judge(request('/v1/projects/p/secrets/A:addVersion', json))?.problems
  expect(add({ payload: { data: 'b25l', dataCrc32c: '1' } })).toEqual([])
  expect(add({ payload: { data: 'not base64!', dataCrc32c: 'x' } })).toHaveLength(2)
  expect(add({ payload: { data: 'b25l' }, value: 'one' })).toEqual(['AddSecretVersionRequest has no value'])
  expect(add({})).toEqual(['AddSecretVersionRequest lacks payload'])
  expect(judge(request('/v1/projects/p/secrets', {}))?.problems).toEqual(['CreateSecretRequest lacks secretId'])
  expect(judge(request('/v1/projects/p/secrets/A/versions', {}))).toBeUndefined()
})

test('checksums match those of another implementation', () => {
  expect(crc32c(Buffer.from('123456789'))).toBe(0xe3069283)
  for (const text of ['', 'a', 'üñî ✓ 🔑', 'x'.repeat(65_536)]) {
    const bytes = Buffer.from(text)
    expect(crc32c(bytes)).toBe(crc.buf(bytes) >>> 0)
  }
})
