import { AzureAuthorityHosts, ClientSecretCredential } from '@azure/identity'
import { SecretClient } from '@azure/keyvault-secrets'
import { expect, test } from 'vitest'
import { azureKeyVault as provider } from '../../server/src/providers/azure-key-vault.ts'
import type { OpResult } from '../../server/src/providers/provider.ts'
import { vendorCertificate } from './certificate.ts'
import { describeProvider } from './conformance.ts'
import { azureCredential, type FakeKeyVault, fakeKeyVault } from './fake/azure-key-vault.ts'
import { type FakeRequest, type RunningFake, startFake } from './fake.ts'
import { applyAll, connectionTo, create, listAll, remove, update } from './operation.ts'

const syncId = '0199a000-0000-7000-8000-000000000001'
const ours = { 'managed-by': 'coffer', 'coffer-sync': syncId }

describeProvider(provider, fakeKeyVault, { names: ['ALPHA', 'BETA', 'GAMMA'] })

const kindsOf = (results: OpResult[]) =>
  results.map((result) => ('fault' in result ? Reflect.get(result.fault, 'kind') : 'done'))

async function scene(play: (fake: FakeKeyVault, running: RunningFake) => Promise<void>): Promise<void> {
  const fake = fakeKeyVault()
  const running = await startFake(fake)
  await play(fake, running)
  await running.close()
  expect(fake.violations).toEqual([])
}

test('the official clients work against the fake and send the same requests as we do', async () => {
  const theirs = await startFake(fakeKeyVault())
  const tlsOptions = { ca: vendorCertificate }
  const { tenantId, clientId, clientSecret } = azureCredential
  const credential = new ClientSecretCredential(tenantId, clientId, clientSecret, {
    authorityHost: theirs.url,
    disableInstanceDiscovery: true,
    tlsOptions,
  })
  const client = new SecretClient(theirs.url, credential, {
    serviceVersion: '7.6',
    disableChallengeResourceVerification: true,
    tlsOptions,
  })
  const made = await client.setSecret('ALPHA', 'one', { tags: ours })
  expect(made).toMatchObject({ name: 'ALPHA', value: 'one' })
  await client.setSecret('ALPHA', 'two', { tags: ours })
  for await (const page of client.listPropertiesOfSecrets().byPage({ maxPageSize: 25 })) {
    expect(page).toMatchObject([{ name: 'ALPHA', tags: ours }])
  }
  await client.beginDeleteSecret('ALPHA')
  await expect(client.setSecret('ALPHA', 'three', { tags: ours })).rejects.toThrow(/deleted but recoverable/)
  expect((await client.getDeletedSecret('ALPHA')).properties.tags).toEqual(ours)
  await client.beginRecoverDeletedSecret('ALPHA')
  await client.setSecret('ALPHA', 'three', { tags: ours })
  expect((await client.getSecret('ALPHA')).value).toBe('three')
  await expect(client.getSecret('NOBODY')).rejects.toThrow(/was not found/)

  const mine = await startFake(fakeKeyVault())
  const remote = provider.connect(connectionTo(mine))
  await Array.fromAsync(remote.apply([create('ALPHA', 'one')]))
  await Array.fromAsync(remote.apply([update('ALPHA', 'two')]))
  await Array.fromAsync(remote.list(new Set()))
  await Array.fromAsync(remote.apply([remove({ name: 'ALPHA' })]))
  await Array.fromAsync(remote.apply([create('ALPHA', 'three')]))

  const wire = ({ method, path, query, json }: FakeRequest) => ({
    method,
    path,
    query: [...query].sort(),
    json: Object.fromEntries(Object.entries(json ?? {}).filter(([, value]) => JSON.stringify(value) !== '{}')),
  })
  // The client also sends one request without a token to discover the login, and polls after each delete and recovery.
  const known = theirs.requests.filter(({ headers }) => headers.authorization !== undefined)
  const same = known.filter(
    ({ method, path }, index) =>
      method !== 'GET' || !(path.startsWith('/secrets/') || known[index - 1]?.method === 'DELETE'),
  )
  expect(mine.requests.slice(1).map(wire)).toEqual(same.map(wire))

  const form = ({ method, path, headers, text }: FakeRequest) => ({
    method,
    path,
    type: headers['content-type'],
    form: new URLSearchParams(text)
      .getAll('grant_type')
      .concat(
        ['client_id', 'client_secret', 'scope'].flatMap(
          (name) => new URLSearchParams(text).get(name)?.split(' ')[0] ?? [],
        ),
      ),
  })
  const logins = theirs.requests.filter(({ path }) => path.endsWith('/token'))
  expect(mine.requests.slice(0, 1).map(form)).toEqual(logins.map(form))
  expect([...mine.fake.violations, ...theirs.fake.violations]).toEqual([])
  await Promise.all([theirs.close(), mine.close()])
})

test('our deleted secrets are recovered before a write, foreign ones stay unchanged', () =>
  scene(async (fake, running) => {
    await applyAll(provider, connectionTo(running), [create('A', 'one')])
    await applyAll(provider, connectionTo(running), [remove({ name: 'A' })])
    expect(await listAll(provider, connectionTo(running))).toEqual([])
    expect(kindsOf(await applyAll(provider, connectionTo(running), [create('A', 'two')]))).toEqual(['done'])
    expect(fake.secret('A')?.versions).toEqual(['one', 'two'])

    const ofAnotherSync = connectionTo(running, { syncId: '0199a000-0000-7000-8000-00000000ffff' })
    await applyAll(provider, ofAnotherSync, [create('B', 'theirs')])
    await applyAll(provider, ofAnotherSync, [remove({ name: 'B' })])
    expect(kindsOf(await applyAll(provider, connectionTo(running), [create('B', 'x')]))).toEqual(['conflict'])
    expect(fake.secret('B')).toMatchObject({ isDeleted: true, versions: ['theirs'] })
  }))

test('a secret that the vault is busy with is retried later', () =>
  scene(async (fake, running) => {
    await applyAll(provider, connectionTo(running), [create('A', 'one')])
    fake.lag = 1
    const later = { kind: 'transient', facts: { retryAfterMs: 5_000 } }
    await applyAll(provider, connectionTo(running), [remove({ name: 'A' })])
    expect(kindsOf(await applyAll(provider, connectionTo(running), [remove({ name: 'A' })]))).toEqual(['done'])
    await expect(applyAll(provider, connectionTo(running), [create('A', 'two')])).rejects.toMatchObject(later)
    expect(await listAll(provider, connectionTo(running))).toMatchObject([{ name: 'A', isOurs: true }])
    expect(kindsOf(await applyAll(provider, connectionTo(running), [create('A', 'two')]))).toEqual(['done'])
    await applyAll(provider, connectionTo(running), [remove({ name: 'A' })])
    await expect(applyAll(provider, connectionTo(running), [create('A', 'x')])).rejects.toMatchObject(later)
    expect(fake.secret('A')?.isDeleted).toBe(true)
  }))

test('a next page is followed only on the vault’s own host', () =>
  scene(async (fake, running) => {
    await applyAll(provider, connectionTo(running), [create('A', 'one'), create('B', 'two')])
    fake.pageSize = 1
    for (const origin of [
      'https://evil.example.test',
      'http://shop-production.vault.azure.net',
      'https://other.vault.azure.net',
    ]) {
      fake.nextPageOrigin = origin
      running.forget()
      await expect(listAll(provider, connectionTo(running))).rejects.toMatchObject({ kind: 'protocol' })
      expect(running.requests).toHaveLength(2)
    }
  }))

test('the private key of a certificate is foreign, whatever its tags say', () =>
  scene(async (fake, running) => {
    fake.plantCertificate('WEB-TLS')
    Object.assign(fake.secret('WEB-TLS')?.tags ?? {}, ours)
    expect(await listAll(provider, connectionTo(running))).toMatchObject([{ name: 'WEB-TLS', isOurs: false }])
  }))

test.each([
  ['tenantId', '99999999-2222-4333-8444-555555555555'],
  ['clientId', '99999999-7777-4888-8999-aaaaaaaaaaaa'],
  ['clientSecret', 'wrong'],
])('a failed login names the wrong field: %s', (field, value) =>
  scene(async (fake, running) => {
    const credential = { ...fake.credential, [field]: value }
    await expect(provider.verify(connectionTo(running, { credential }))).rejects.toMatchObject({
      kind: 'auth',
      facts: { field },
    })
  }),
)

test('an unresolvable vault counts as deleted only after the login was reached', () =>
  scene(async (fake, running) => {
    fake.setTarget(false)
    await expect(listAll(provider, connectionTo(running))).rejects.toMatchObject({
      kind: 'gone',
      facts: { field: 'vaultUri' },
    })
    const credential = { ...fake.credential, cloud: 'china' }
    const target = { vaultUri: 'https://shop-production.vault.azure.cn' }
    await expect(listAll(provider, connectionTo(running, { credential, target }))).rejects.toMatchObject({
      kind: 'transient',
    })
  }))

test('each cloud uses the login of the official client and accepts only its own vaults', async () => {
  const hosts = { AzurePublicCloud: 'public', AzureGovernment: 'government', AzureChina: 'china' } as const
  const vaults = { public: 'vault.azure.net', government: 'vault.usgovcloudapi.net', china: 'vault.azure.cn' } as const
  for (const [authority, cloud] of Object.entries(hosts)) {
    const asked: string[] = []
    const connection = (domain: string) => ({
      http: {
        send: async ({ url, body }: { url: string; body?: string | Uint8Array }) => {
          asked.push(url, String(body))
          throw new Error('stop after the first request')
        },
      },
      credential: { ...azureCredential, cloud },
      target: { vaultUri: `https://shop-production.${domain}/` },
      options: {},
      syncId,
      now: Date.now,
    })
    const list = (domain: string) => Array.fromAsync(provider.connect(connection(domain)).list(new Set()))
    await expect(list(vaults[cloud])).rejects.toThrow('stop after the first request')
    expect(asked[0]).toBe(
      `${AzureAuthorityHosts[authority as keyof typeof AzureAuthorityHosts]}/${azureCredential.tenantId}/oauth2/v2.0/token`,
    )
    expect(new URLSearchParams(asked[1]).get('scope')).toBe(`https://${vaults[cloud]}/.default`)
    for (const foreign of Object.values(vaults).filter((domain) => domain !== vaults[cloud])) {
      await expect(list(foreign)).rejects.toMatchObject({ kind: 'gone', facts: { field: 'vaultUri' } })
    }
  }
})

test.each([
  ['https://shop-production.vault.azure.net', true],
  ['https://Shop-Production.vault.azure.net/', true],
  ['https://shop.vault.usgovcloudapi.net', true],
  ['http://shop-production.vault.azure.net', false],
  ['https://shop-production.vault.azure.net.example.com', false],
  ['https://shop-production.vault.azure.net@example.com', false],
  ['https://a.b.vault.azure.net', false],
  ['https://shop-production.vault.azure.net:8443', false],
  ['https://shop-production.vault.azure.net/secrets', false],
  ['https://shop--production.vault.azure.net', false],
  ['https://1shop.vault.azure.net', false],
  ['https://ab.vault.azure.net', false],
])('the vault URI %s is accepted: %s', (value, isAccepted) => {
  const [field] = provider.target
  expect(field?.kind === 'text' && field.check?.(value, {}) === undefined).toBe(isAccepted)
})

test.each([
  ['tenantId', 'contoso.onmicrosoft.com', true],
  ['tenantId', 'common/../x', false],
  ['tenantId', '', false],
  ['clientId', 'contoso', false],
])('%s: %s is accepted: %s', (id, value, isAccepted) => {
  const field = provider.auth.find((one) => one.id === id)
  expect(field?.kind === 'text' && field.check?.(value, {}) === undefined).toBe(isAccepted)
})

test('a credential that may list but not get secrets reads the list before an update', () =>
  scene(async (fake, running) => {
    await applyAll(provider, connectionTo(running), [create('A', 'one')])
    fake.tamper('B', 'theirs')
    running.injectFailure = ({ method, path }) =>
      method === 'GET' && path.startsWith('/secrets/') ? { kind: 'answer', answer: { status: 403 } } : undefined
    const found = provider.connect(connectionTo(running)).find?.([{ name: 'a' }, { name: 'B' }, { name: 'C' }]) ?? []
    expect(await Array.fromAsync(found)).toMatchObject([
      { name: 'A', isOurs: true },
      { name: 'B', isOurs: false },
    ])
  }))

test('underscores become hyphens, and the fingerprint of a vault ignores case', () => {
  expect(provider.normaliseName('DATABASE_URL')).toBe('DATABASE-URL')
  const place = (vaultUri: string) => provider.describeTarget({ vaultUri }, {}).fingerprint
  expect(place('https://Shop.vault.azure.net')).toBe(place('https://shop.vault.azure.net/'))
})
