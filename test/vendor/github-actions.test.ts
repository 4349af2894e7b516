import { Octokit } from '@octokit/rest'
import { describe, expect, test } from 'vitest'
import { githubActions } from '../../server/src/providers/github-actions.ts'
import { describeProvider } from './conformance.ts'
import { fakeGitHub } from './fake/github-actions.ts'
import { type FakeRequest, startFake } from './fake.ts'
import { applyAll, connectionTo, create, listAll, remove, update } from './operation.ts'

const names = ['ALPHA', 'BETA', 'GAMMA'] as const
describeProvider(githubActions, fakeGitHub, { names })
describe('an environment', () => describeProvider(githubActions, () => fakeGitHub('environment'), { names }))
describe('an organization', () => describeProvider(githubActions, () => fakeGitHub('organization'), { names }))
describe('a self-hosted server', () =>
  describeProvider(githubActions, () => fakeGitHub('repository', { baseUrl: 'https://github.example.test' }), {
    names,
  }))

/** Encryption is randomised, so sealed boxes are compared by the plaintext that the fake decrypted. */
const wire = ({ method, path, query, json, headers }: FakeRequest) => ({
  method,
  path,
  query: Object.fromEntries(query),
  body: json === undefined ? undefined : Object.keys(Object(json)).sort(),
  type: json === undefined ? undefined : headers['content-type']?.replace(/;.*/, ''),
})

const octokitFor = (baseUrl: string, auth: string | undefined) =>
  new Octokit({ auth, baseUrl, log: { debug() {}, info() {}, warn() {}, error() {} } })

test('octokit works against the fake and sends the same requests as we do', async () => {
  const theirs = await startFake(fakeGitHub(), { plain: true })
  const client = octokitFor(theirs.url, theirs.fake.credential.token)
  const place = { owner: 'acme', repo: 'shop' }
  const ours = await startFake(fakeGitHub())
  const connection = connectionTo(ours)

  const { data: key } = await client.rest.actions.getRepoPublicKey(place)
  const { default: sodium } = await import('libsodium-wrappers')
  const seal = (value: string) =>
    Buffer.from(sodium.crypto_box_seal(value, Buffer.from(key.key, 'base64'))).toString('base64')
  await applyAll(githubActions, connection, [create('ALPHA', 'one')])
  const put = { ...place, secret_name: 'ALPHA', encrypted_value: seal('one'), key_id: key.key_id }
  expect((await client.rest.actions.createOrUpdateRepoSecret(put)).status).toBe(201)
  await client.rest.actions.getRepoSecret({ ...place, secret_name: 'ALPHA' })
  expect(ours.requests.map(wire)).toEqual(theirs.requests.map(wire))
  expect((await client.rest.actions.createOrUpdateRepoSecret(put)).status).toBe(204)
  expect(theirs.fake.state()).toEqual(ours.fake.state())

  for (const running of [ours, theirs]) running.forget()
  await listAll(githubActions, connection)
  await applyAll(githubActions, connection, [remove({ name: 'ALPHA' })])
  const { data } = await client.rest.actions.listRepoSecrets({ ...place, per_page: 100 })
  expect(data.secrets.map(({ name }) => name)).toEqual(['ALPHA'])
  await client.rest.actions.deleteRepoSecret({ ...place, secret_name: 'ALPHA' })
  expect(ours.requests.map(wire)).toEqual(theirs.requests.map(wire))
  expect(theirs.fake.state()).toEqual(new Map())
  expect([...ours.fake.violations, ...theirs.fake.violations]).toEqual([])
  await Promise.all([theirs.close(), ours.close()])
})

test('octokit lists the secrets of environments and organizations by the same requests as we do', async () => {
  const theirs = await startFake(fakeGitHub('environment'), { plain: true })
  const client = octokitFor(theirs.url, theirs.fake.credential.token)
  const environment = { owner: 'acme', repo: 'shop', environment_name: 'release/eu' }
  await client.rest.actions.getEnvironmentPublicKey(environment)
  await client.rest.actions.listEnvironmentSecrets({ ...environment, per_page: 100 })
  await client.rest.actions.getOrgPublicKey({ org: 'acme' })
  await client.rest.actions.listOrgSecrets({ org: 'acme', per_page: 100 })

  const asked: FakeRequest[] = []
  for (const scope of ['environment', 'organization']) {
    const ours = await startFake(fakeGitHub(scope))
    await applyAll(githubActions, connectionTo(ours), [create('ALPHA', 'one')])
    await listAll(githubActions, connectionTo(ours))
    asked.push(...ours.requests.filter(({ method, path }) => method === 'GET' && /(secrets|public-key)$/.test(path)))
    await ours.close()
  }
  expect(asked.map(wire)).toEqual(theirs.requests.map(wire))
  await theirs.close()
})

test.each([
  ['without the key id', { encrypted_value: 'aGVsbG8=' }],
  ['in base64url', { encrypted_value: 'aGVs-_8=', key_id: '1' }],
  ['in plaintext', { value: 'one' }],
])('GitHub’s description rejects a secret %s', async (_title, body) => {
  const running = await startFake(fakeGitHub(), { plain: true })
  const client = octokitFor(running.url, running.fake.credential.token)
  const put = client.request('PUT /repos/acme/shop/actions/secrets/ALPHA', body)
  await expect(put).rejects.toMatchObject({ status: 422 })
  expect(running.fake.violations).not.toEqual([])
  expect(running.fake.state()).toEqual(new Map())
  await running.close()
})

test('a key rotated during a run is fetched again; a rejected secret is not sent twice', async () => {
  const fake = fakeGitHub()
  const running = await startFake(fake)
  const remote = githubActions.connect(connectionTo(running))
  await Array.fromAsync(remote.apply([create('ALPHA', 'one')]))
  fake.rotateKey()
  const [result] = await Array.fromAsync(remote.apply([update('ALPHA', 'two')]))
  expect(result).toEqual({ name: 'ALPHA', mark: fake.secrets('/repos/acme/shop/actions').get('ALPHA')?.updatedAt })
  expect(fake.state().get('ALPHA')).toBe('two')

  fake.refusedNames.add('BETA')
  running.forget()
  const [refused] = await Array.fromAsync(remote.apply([create('BETA', 'one')]))
  expect(refused).toMatchObject({ name: 'BETA', fault: { kind: 'invalid' } })
  expect(running.requests.map(({ method }) => method)).toEqual(['PUT', 'GET'])
  await running.close()
})

test('a missing secret counts as deleted only if the list is readable', async () => {
  const running = await startFake(fakeGitHub())
  const gone = await applyAll(githubActions, connectionTo(running), [remove({ name: 'ALPHA' })])
  expect(gone).toEqual([{ name: 'ALPHA' }])
  running.fake.setTarget(false)
  await expect(applyAll(githubActions, connectionTo(running), [remove({ name: 'ALPHA' })])).rejects.toMatchObject({
    kind: 'gone',
  })
  await running.close()
})

test('every write to an organization includes the visibility', async () => {
  const fake = fakeGitHub('organization')
  const running = await startFake(fake)
  const secret = () => fake.secrets('/orgs/acme/actions').get('ALPHA')
  await applyAll(githubActions, connectionTo(running), [create('ALPHA', 'one')])
  expect(secret()).toMatchObject({ visibility: 'selected', repositories: [101, 102] })
  const target = { scope: 'organization', organization: 'acme', visibility: 'private' }
  await applyAll(githubActions, connectionTo(running, { target }), [update('ALPHA', 'two')])
  expect(secret()).toMatchObject({ visibility: 'private', repositories: undefined })
  expect(fake.violations).toEqual([])
  await running.close()
})

test('an empty list of organizations makes the wizard ask, since a fine-grained token sees none', async () => {
  const running = await startFake(fakeGitHub())
  running.injectFailure = () => ({ kind: 'answer', answer: { status: 200, body: [] } })
  const field = githubActions.target.find(({ id }) => id === 'organization')
  if (field?.kind !== 'select' || typeof field.options !== 'function') throw new Error('not a select')
  expect(await field.options(connectionTo(running))).toBeUndefined()
  running.injectFailure = () => ({
    kind: 'answer',
    answer: { status: 403, body: { message: 'Resource not accessible' } },
  })
  expect(await field.options(connectionTo(running))).toBeUndefined()
  await running.close()
})

test('a next page on another host is not followed', async () => {
  const running = await startFake(fakeGitHub())
  const link = '<https://elsewhere.example.test/user/repos?page=2>; rel="next"'
  running.injectFailure = () => ({
    kind: 'answer',
    answer: { status: 200, headers: { link }, body: { secrets: [] } },
  })
  await expect(listAll(githubActions, connectionTo(running))).rejects.toMatchObject({ kind: 'protocol' })
  await running.close()
})

test.each([
  ['repository', 'acme/..'],
  ['repository', 'acme'],
  ['repository', 'acme/shop/../../user'],
  ['repository', 'acme/shop?x'],
  ['environment', '..'],
  ['environment', 'a\nb'],
  ['organization', '../user'],
  ['repositories', 'shop, ..'],
  ['repositories', 'shop/../billing'],
  ['baseUrl', 'https://github.example.com/api/v3'],
  ['baseUrl', 'https://user:pass@github.example.com'],
  ['baseUrl', 'https://github.example.com?x=1'],
  ['baseUrl', 'ftp://github.example.com'],
  ['baseUrl', 'github.example.com'],
])('%s rejects %j', (id, value) => {
  const field = [...githubActions.auth, ...githubActions.target].find((candidate) => candidate.id === id)
  expect(field && field.kind !== 'copy' && field.check?.(value, {})).toMatch(/^(is not|must be) /)
})

test('names and targets are case-insensitive', () => {
  expect(githubActions.normaliseName('db_url')).toBe('DB_URL')
  const { fingerprint } = githubActions.describeTarget({ scope: 'repository', repository: 'Acme/Shop' }, {})
  expect(githubActions.describeTarget({ scope: 'repository', repository: 'acme/shop' }, {}).fingerprint).toBe(
    fingerprint,
  )
  const own = { baseUrl: 'https://GitHub.example.com/' }
  expect(githubActions.describeTarget({ scope: 'repository', repository: 'acme/shop' }, own).fingerprint).not.toBe(
    fingerprint,
  )
})
