import { CoreV1Api, KubeConfig, PatchStrategy, setHeaderOptions } from '@kubernetes/client-node'
import { describe, expect, test } from 'vitest'
import { readCertificates } from '../../server/src/providers/certificate-text.ts'
import { isFault } from '../../server/src/providers/fault.ts'
import { kubernetes } from '../../server/src/providers/kubernetes.ts'
import { unrelatedCertificate, vendorCertificate } from './certificate.ts'
import { describeProvider } from './conformance.ts'
import { type FakeKubernetes, fakeKubernetes } from './fake/kubernetes.ts'
import { type RunningFake, startFake } from './fake.ts'
import { applyAll, connectionTo, create, listAll, remove, update } from './operation.ts'

describeProvider(kubernetes, fakeKubernetes, { names: ['ALPHA', 'beta.key', 'tls.crt'] })

const encode = (value: string) => Buffer.from(value).toString('base64')
const place = { name: 'shop-secrets', namespace: 'shop' }

async function playing(fake: FakeKubernetes, work: (running: RunningFake) => Promise<void>): Promise<void> {
  const running = await startFake(fake)
  try {
    await work(running)
    expect(fake.violations).toEqual([])
  } finally {
    await running.close()
  }
}

/** The vendor's client, which also checks the certificate. */
function clientOf({ url, fake }: RunningFake): CoreV1Api {
  const config = new KubeConfig()
  config.loadFromClusterAndUser(
    { name: 'fake', server: url, caData: fake.credential.ca ?? '', skipTLSVerify: false },
    { name: 'ops', token: fake.credential.token ?? '' },
  )
  return config.makeApiClient(CoreV1Api)
}

const applying = setHeaderOptions('Content-Type', PatchStrategy.ServerSideApply)

test('the vendor’s client works against the fake and applies the same patches as we do', async () => {
  const theirs = await startFake(fakeKubernetes())
  const client = clientOf(theirs)
  const fieldManager = 'coffer-0199a000-0000-7000-8000-000000000001'
  const applyData = (data: Record<string, string>) =>
    client.patchNamespacedSecret(
      { ...place, fieldManager, body: { apiVersion: 'v1', kind: 'Secret', metadata: place, type: 'Opaque', data } },
      applying,
    )
  await expect(client.readNamespacedSecret(place)).rejects.toMatchObject({ code: 404 })
  await client.readNamespace({ name: 'shop' })
  const made = await applyData({ ALPHA: encode('one'), BETA: encode('two') })
  expect(made.metadata?.managedFields?.[0]).toMatchObject({ manager: fieldManager, operation: 'Apply' })
  await client.readNamespacedSecret(place)
  await applyData({ ALPHA: encode('three'), BETA: encode('two') })
  await client.readNamespacedSecret(place)
  await applyData({ ALPHA: encode('three') })
  expect((await client.readNamespacedSecret(place)).data).toEqual({ ALPHA: encode('three') })

  const ours = await startFake(fakeKubernetes())
  const connection = connectionTo(ours)
  await applyAll(kubernetes, connection, [create('ALPHA', 'one'), create('BETA', 'two')])
  await applyAll(kubernetes, connection, [update('ALPHA', 'three')])
  await applyAll(kubernetes, connection, [remove({ name: 'BETA' })])
  await listAll(kubernetes, connection)
  const wire = ({ method, path, query, headers, json }: (typeof ours.requests)[number]) => ({
    method,
    path,
    query: [...query],
    authorization: headers.authorization,
    ...(method !== 'GET' && { type: headers['content-type'] }),
    json,
  })
  expect(ours.requests.map(wire)).toEqual(theirs.requests.map(wire))
  await Promise.all([theirs.close(), ours.close()])
})

test('the vendor’s client creates, replaces, conflicts, takes over and deletes in the fake', async () => {
  await playing(fakeKubernetes(), async (running) => {
    const client = clientOf(running)
    const body = { apiVersion: 'v1', kind: 'Secret', metadata: place, data: { ALPHA: encode('one') } }
    await client.createNamespacedSecret({ ...place, body, fieldManager: 'kubectl-create' })
    await expect(client.createNamespacedSecret({ ...place, body })).rejects.toMatchObject({ code: 409 })
    const other = { ...body, data: { ALPHA: encode('two') } }
    const clash = client.patchNamespacedSecret({ ...place, body: other, fieldManager: 'me' }, applying)
    await expect(clash).rejects.toMatchObject({ code: 409 })
    const forced = { ...place, body: other, fieldManager: 'me', force: true }
    expect((await client.patchNamespacedSecret(forced, applying)).data).toEqual(other.data)
    const stale = { ...other, metadata: { ...place, resourceVersion: '1' } }
    const outdated = client.patchNamespacedSecret({ ...forced, body: stale }, applying)
    await expect(outdated).rejects.toMatchObject({ code: 409 })
    const merging = setHeaderOptions('Content-Type', PatchStrategy.MergePatch)
    const removal = { ...place, fieldManager: 'me', body: { data: { ALPHA: null } } }
    expect((await client.patchNamespacedSecret(removal, merging)).data).toBeUndefined()
    await client.replaceNamespacedSecret({ ...place, body, fieldManager: 'kubectl-replace' })
    const { metadata } = await client.readNamespacedSecret(place)
    expect(metadata?.managedFields?.map(({ manager }) => manager)).toEqual(['kubectl-replace'])
    await client.deleteNamespacedSecret(place)
    await expect(client.readNamespacedSecret(place)).rejects.toMatchObject({ code: 404 })
    expect((await client.listNamespace({ limit: 500 })).items.map((item) => item.metadata?.name)).toContain('shop')
  })
})

describe('a Secret shared with others', () => {
  test('changing one key keeps our other keys and every foreign key', async () => {
    const fake = fakeKubernetes()
    await playing(fake, async (running) => {
      fake.tamper('THEIRS', 'x')
      fake.applyAs('argocd', { ARGO: 'y' })
      const connection = connectionTo(running)
      await applyAll(kubernetes, connection, [create('A', '1'), create('B', '2'), create('C', '3')])
      await applyAll(kubernetes, connection, [update('B', '22'), remove({ name: 'C' })])
      expect(Object.fromEntries(fake.state())).toEqual({ THEIRS: 'x', ARGO: 'y', A: '1', B: '22' })
      const items = await listAll(kubernetes, connection)
      expect(Object.fromEntries(items.map(({ name, isOurs }) => [name, isOurs]))).toEqual({
        THEIRS: false,
        ARGO: false,
        A: true,
        B: true,
      })
    })
  })

  test('two syncs into one Secret do not affect each other', async () => {
    const fake = fakeKubernetes()
    await playing(fake, async (running) => {
      const other = connectionTo(running, { syncId: '0199a000-0000-7000-8000-000000000002' })
      await applyAll(kubernetes, connectionTo(running), [create('A', '1')])
      await applyAll(kubernetes, other, [create('B', '2')])
      await applyAll(kubernetes, connectionTo(running), [remove({ name: 'A' })])
      expect(Object.fromEntries(fake.state())).toEqual({ B: '2' })
    })
  })

  test('foreign binary values stay unchanged', async () => {
    const fake = fakeKubernetes()
    await playing(fake, async (running) => {
      const binary = Buffer.from([0, 255, 254, 128]).toString('base64')
      fake.tamper('X', 'x')
      fake.secret()?.data.set('BINARY', binary)
      await applyAll(kubernetes, connectionTo(running), [create('A', '1')])
      expect(fake.secret()?.data.get('BINARY')).toBe(binary)
    })
  })

  test.each([
    ['by an edit', (fake: FakeKubernetes) => fake.tamper('A', 'theirs')],
    ['by an apply', (fake: FakeKubernetes) => void fake.applyAs('argocd', { A: 'theirs' })],
    [
      'before field managers were tracked',
      (fake: FakeKubernetes) => {
        fake.tamper('A', 'theirs')
        fake.forgetManagers()
      },
    ],
  ])('a foreign key made %s is a conflict of that name only', async (_title, make) => {
    const fake = fakeKubernetes()
    await playing(fake, async (running) => {
      make(fake)
      const results = await applyAll(kubernetes, connectionTo(running), [create('A', '1'), create('B', '2')])
      const byName = new Map(results.map((result) => [result.name, result]))
      const bad = byName.get('A')
      expect(bad && 'fault' in bad && isFault(bad.fault, 'conflict')).toBe(true)
      expect(byName.get('B')).toEqual({ name: 'B' })
      expect(Object.fromEntries(fake.state())).toEqual({ A: 'theirs', B: '2' })
    })
  })

  test('our key edited by someone else becomes foreign: it is neither pushed nor deleted without takeover', async () => {
    const fake = fakeKubernetes()
    await playing(fake, async (running) => {
      await applyAll(kubernetes, connectionTo(running), [create('A', '1'), create('B', '2')])
      fake.tamper('A', 'theirs')
      const [pushed] = await applyAll(kubernetes, connectionTo(running), [update('A', '11')])
      expect(pushed && 'fault' in pushed && isFault(pushed.fault, 'conflict')).toBe(true)
      const [deleted] = await applyAll(kubernetes, connectionTo(running), [remove({ name: 'A' })])
      expect(deleted && 'fault' in deleted && isFault(deleted.fault, 'conflict')).toBe(true)
      expect(Object.fromEntries(fake.state())).toEqual({ A: 'theirs', B: '2' })
      const forcing = connectionTo(running, { options: { onConflict: 'force' } })
      expect(await applyAll(kubernetes, forcing, [update('A', '11')])).toEqual([{ name: 'A' }])
      expect(Object.fromEntries(fake.state())).toEqual({ A: '11', B: '2' })
      expect((await listAll(kubernetes, connectionTo(running))).every(({ isOurs }) => isOurs)).toBe(true)
    })
  })

  test('a concurrent edit of a key survives a forced push that takes the key over', async () => {
    const fake = fakeKubernetes()
    await playing(fake, async (running) => {
      await applyAll(kubernetes, connectionTo(running), [create('A', '1'), create('B', '2')])
      fake.tamper('B', 'edited')
      const edits = ['theirs']
      running.injectFailure = ({ method }) => {
        if (method === 'PATCH') for (const value of edits.splice(0)) fake.tamper('A', value)
        return undefined
      }
      const taking = { ...update('B', '22'), takesOver: true as const }
      expect(await applyAll(kubernetes, connectionTo(running), [taking])).toEqual([{ name: 'B' }])
      expect(Object.fromEntries(fake.state())).toEqual({ A: 'theirs', B: '22' })
    })
  })

  test.each([
    ['an edit', (fake: FakeKubernetes) => fake.tamper('A', '1'), undefined],
    ['an apply, which keeps the key', (fake: FakeKubernetes) => void fake.applyAs('argocd', { A: '1' }), '1'],
  ])('our key that someone edited and reverted is deleted; reverted by %s', async (_title, putBack, left) => {
    const fake = fakeKubernetes()
    await playing(fake, async (running) => {
      await applyAll(kubernetes, connectionTo(running), [create('A', '1'), create('B', '2')])
      fake.tamper('A', undefined)
      putBack(fake)
      const removal = { ...remove({ name: 'A' }), isOurValue: (value: string) => value === '1' }
      const [result] = await applyAll(kubernetes, connectionTo(running), [removal, update('B', '22')])
      expect(result && 'fault' in result).toBe(false)
      expect(fake.state().get('A')).toBe(left)
      expect(fake.state().get('B')).toBe('22')
    })
  })

  test('a concurrent edit of our key survives a push of other keys', async () => {
    const fake = fakeKubernetes()
    await playing(fake, async (running) => {
      await applyAll(kubernetes, connectionTo(running), [create('A', '1'), create('B', '2')])
      let isFirst = true
      running.injectFailure = ({ method }) => {
        if (method === 'PATCH' && isFirst) fake.tamper('A', 'theirs')
        if (method === 'PATCH') isFirst = false
        return undefined
      }
      expect(await applyAll(kubernetes, connectionTo(running), [update('B', '22')])).toEqual([{ name: 'B' }])
      expect(Object.fromEntries(fake.state())).toEqual({ A: 'theirs', B: '22' })
    })
  })

  test('a key co-owned with the same value stays after our delete, and the result says so', async () => {
    const fake = fakeKubernetes()
    await playing(fake, async (running) => {
      fake.applyAs('argocd', { A: '1' })
      expect(await applyAll(kubernetes, connectionTo(running), [create('A', '1')])).toEqual([{ name: 'A' }])
      expect((await listAll(kubernetes, connectionTo(running)))[0]?.isOurs).toBe(true)
      const [result] = await applyAll(kubernetes, connectionTo(running), [remove({ name: 'A' })])
      expect(result && 'note' in result && result.note).toMatch(/stays/)
      expect(fake.state().get('A')).toBe('1')
    })
  })
})

test('later pushes keep the type that we set, and never change a foreign one', async () => {
  const fake = fakeKubernetes()
  await playing(fake, async (running) => {
    const connection = connectionTo(running, { target: { ...fake.target, type: 'kubernetes.io/tls' } })
    await applyAll(kubernetes, connection, [create('tls.crt', 'c'), create('tls.key', 'k')])
    await applyAll(kubernetes, connection, [update('tls.key', 'kk')])
    expect(fake.secret()?.type).toBe('kubernetes.io/tls')
  })
  const theirs = fakeKubernetes()
  await playing(theirs, async (running) => {
    theirs.tamper('X', 'x')
    const connection = connectionTo(running, { target: { ...theirs.target, type: 'kubernetes.io/tls' } })
    await applyAll(kubernetes, connection, [create('tls.crt', 'c')])
    expect(theirs.secret()?.type).toBe('Opaque')
  })
})

test('a type that requires a key that is not pushed fails with the cluster’s message, without retries', async () => {
  const fake = fakeKubernetes()
  await playing(fake, async (running) => {
    const connection = connectionTo(running, { target: { ...fake.target, type: 'kubernetes.io/tls' } })
    await expect(applyAll(kubernetes, connection, [create('A', '1'), create('tls.crt', 'c')])).rejects.toMatchObject({
      kind: 'invalid',
      facts: { vendorMessage: expect.stringContaining('data[tls.key]: Required value') },
    })
    expect(fake.secret()).toBeUndefined()
  })
})

test('an invalid name is a fault of that name only, an immutable Secret a fault of all', async () => {
  const fake = fakeKubernetes()
  await playing(fake, async (running) => {
    const results = await applyAll(kubernetes, connectionTo(running), [create('bad key', 'x'), create('B', '2')])
    expect(results.map((result) => [result.name, 'fault' in result])).toEqual([
      ['bad key', true],
      ['B', false],
    ])
    fake.setImmutable()
    await expect(applyAll(kubernetes, connectionTo(running), [update('B', '3')])).rejects.toMatchObject({
      kind: 'gone',
      message: 'The Secret is immutable.',
      facts: { remedy: expect.stringMatching(/^Delete it in the cluster/) },
    })
    expect(fake.state().get('B')).toBe('2')
  })
})

test('namespaces are read page by page; the wizard asks for one if they may not be listed', async () => {
  const field = kubernetes.target.find(({ id }) => id === 'namespace')
  if (field?.kind !== 'select' || typeof field.options !== 'function') throw new Error('not a select')
  const { options } = field
  const fake = fakeKubernetes()
  await playing(fake, async (running) => {
    fake.pageSize = 1
    const offered = await options(connectionTo(running))
    expect(offered?.map(({ value }) => value)).toEqual(['default', 'shop', 'kube-system'])
  })
  await playing(fakeKubernetes({ mayListNamespaces: false }), async (running) => {
    expect(await options(connectionTo(running))).toBeUndefined()
  })
})

test('verify names the service account, or the cluster if the account is unknown', async () => {
  await playing(fakeKubernetes(), async (running) => {
    expect(await kubernetes.verify(connectionTo(running))).toBe('system:serviceaccount:shop:coffer')
  })
  await playing(fakeKubernetes({ knowsWhoami: false }), async (running) => {
    expect(await kubernetes.verify(connectionTo(running))).toBe('Kubernetes v1.33.1')
  })
})

test('a server whose certificate the given CA did not sign is rejected', async () => {
  const fake = fakeKubernetes()
  await playing(fake, async (running) => {
    const stranger = connectionTo(running, { credential: { ...fake.credential, ca: encode(unrelatedCertificate) } })
    await expect(kubernetes.verify(stranger)).rejects.toMatchObject({ kind: 'transient' })
    expect(running.requests).toEqual([])
  })
})

test.each([
  ['PEM', vendorCertificate],
  ['PEM with spaces instead of newlines', vendorCertificate.replaceAll('\n', ' ')],
  ['PEM without newlines', vendorCertificate.replaceAll('\n', '')],
  ['PEM with escaped newlines', vendorCertificate.replaceAll('\n', '\\n')],
  ['base64 of PEM', encode(vendorCertificate)],
])('a CA is accepted as %s', (_title, text) => {
  expect(readCertificates(text)).toBe(vendorCertificate)
})

test.each([
  ['ca', 'nonsense'],
  ['ca', '-----BEGIN CERTIFICATE-----AAAA-----END CERTIFICATE-----'],
  ['ca', encode('-----BEGIN PRIVATE KEY-----AAAA-----END PRIVATE KEY-----')],
  ['server', 'https://cluster.example.com/k8s'],
  ['token', 'two words'],
  ['namespace', 'shop/secrets'],
  ['namespace', '..'],
  ['secret', '../configmaps/x'],
  ['secret', 'Upper'],
  ['secret', `${'a'.repeat(254)}`],
])('%s rejects %s', (id, value) => {
  const field = [...kubernetes.auth, ...kubernetes.target].find((candidate) => candidate.id === id)
  expect(field && field.kind !== 'copy' && field.check?.(value, {})).toMatch(/^is not /)
})
