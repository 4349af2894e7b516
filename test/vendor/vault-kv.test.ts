import nodeVault from 'node-vault'
import { describe, expect, test } from 'vitest'
import { isFault } from '../../server/src/providers/fault.ts'
import { vaultKv } from '../../server/src/providers/vault-kv.ts'
import { describeProvider } from './conformance.ts'
import { type FakeVault, fakeVault } from './fake/vault-kv.ts'
import { type RunningFake, startFake } from './fake.ts'
import { applyAll, connectionTo, create, listAll, remove, update } from './operation.ts'

const names = ['ALPHA', 'beta key', 'GAMMA'] as const
describeProvider(vaultKv, fakeVault, { names })
describeProvider(vaultKv, () => fakeVault({ method: 'approle' }), { names })

const path = 'secret/data/shop/production'

async function playing(fake: FakeVault, work: (running: RunningFake) => Promise<void>): Promise<void> {
  const running = await startFake(fake)
  try {
    await work(running)
    expect(fake.violations).toEqual([])
  } finally {
    await running.close()
  }
}

test('node-vault works against the fake and sends the same requests as we do', async () => {
  const theirs = await startFake(fakeVault(), { plain: true })
  const { token = '', namespace = '' } = theirs.fake.credential
  const client = nodeVault({ endpoint: theirs.url, token, namespace })
  await expect(client.read(path)).rejects.toMatchObject({ response: { statusCode: 404 } })
  const mount = await client.read('sys/internal/ui/mounts/secret/shop/production')
  expect(mount.data).toMatchObject({ type: 'kv', options: { version: '2' } })
  const first = await client.write(path, { data: { ALPHA: 'one', BETA: 'two' }, options: { cas: 0 } })
  expect(first.data.version).toBe(1)
  await client.read(path)
  await client.write(path, { data: { ALPHA: 'three', BETA: 'two' }, options: { cas: 1 } })
  await client.read(path)
  await client.write(path, { data: { ALPHA: 'three' }, options: { cas: 2 } })
  expect((await client.read(path)).data).toMatchObject({ data: { ALPHA: 'three' }, metadata: { version: 3 } })
  await expect(client.write(path, { data: {}, options: { cas: 1 } })).rejects.toThrow('did not match')

  const ours = await startFake(fakeVault())
  const connection = connectionTo(ours)
  await applyAll(vaultKv, connection, [create('ALPHA', 'one'), create('BETA', 'two')])
  await applyAll(vaultKv, connection, [update('ALPHA', 'three')])
  await applyAll(vaultKv, connection, [remove({ name: 'BETA' })])
  await listAll(vaultKv, connection)
  const wire = ({ method, path, headers, json }: (typeof ours.requests)[number]) => ({
    method,
    path,
    token: headers['x-vault-token'],
    namespace: headers['x-vault-namespace'],
    ...(method !== 'GET' && { type: headers['content-type'] }),
    json,
  })
  expect(ours.requests.map(wire)).toEqual(theirs.requests.slice(0, -1).map(wire))
  await Promise.all([theirs.close(), ours.close()])
})

test('node-vault logs in by AppRole with the same request as we do', async () => {
  const theirs = await startFake(fakeVault({ method: 'approle' }), { plain: true })
  const { roleId = '', secretId = '', namespace = '' } = theirs.fake.credential
  const client = nodeVault({ endpoint: theirs.url, namespace })
  await client.approleLogin({ role_id: roleId, secret_id: secretId })
  const ours = await startFake(fakeVault({ method: 'approle' }))
  expect(await vaultKv.verify(connectionTo(ours))).toBe('coffer')
  const [one, other] = [ours.requests[0], theirs.requests[0]]
  expect([one?.method, one?.path, one?.json]).toEqual([other?.method, other?.path, other?.json])
  await Promise.all([theirs.close(), ours.close()])
})

describe('a path shared with others', () => {
  test('a concurrent write of someone else survives', async () => {
    const fake = fakeVault()
    await playing(fake, async (running) => {
      let races = 3
      running.injectFailure = ({ method }) => {
        if (method !== 'GET' && races-- > 0) fake.tamper(`THEIRS${races}`, 'x')
        return undefined
      }
      const results = await applyAll(vaultKv, connectionTo(running), [create('ALPHA', 'one')])
      expect(results).toEqual([{ name: 'ALPHA' }])
      expect([...fake.state().keys()].sort()).toEqual(['ALPHA', 'THEIRS0', 'THEIRS1', 'THEIRS2'])
    })
  })

  test('endless concurrent writes make the push fail until the next run', async () => {
    const fake = fakeVault()
    await playing(fake, async (running) => {
      running.injectFailure = ({ method }) => {
        if (method === 'POST') fake.tamper('THEIRS', String(Math.random()))
        return undefined
      }
      const fault = await applyAll(vaultKv, connectionTo(running), [create('ALPHA', 'one')]).catch((error) => error)
      expect(isFault(fault, 'transient')).toBe(true)
      expect(running.requests.filter(({ method }) => method === 'POST').length).toBe(5)
      expect(fake.state().has('ALPHA')).toBe(false)
    })
  })

  test('a key created concurrently by someone else is a conflict of that name only', async () => {
    const fake = fakeVault()
    await playing(fake, async (running) => {
      fake.tamper('ALPHA', 'theirs')
      const results = await applyAll(vaultKv, connectionTo(running), [create('ALPHA', 'one'), create('BETA', 'two')])
      expect(results.map((result) => 'fault' in result && isFault(result.fault, 'conflict'))).toEqual([true, false])
      expect(fake.state()).toEqual(
        new Map([
          ['ALPHA', 'theirs'],
          ['BETA', 'two'],
        ]),
      )
    })
  })

  test('foreign values of any type stay unchanged', async () => {
    const fake = fakeVault()
    await playing(fake, async (running) => {
      fake.setData({ list: [1, { deep: null }], number: 1.5, flag: true, text: 'x', nothing: '' })
      await applyAll(vaultKv, connectionTo(running), [create('ALPHA', 'one')])
      await applyAll(vaultKv, connectionTo(running), [remove({ name: 'ALPHA' })])
      expect(fake.versions().at(-1)).toEqual({
        list: [1, { deep: null }],
        number: 1.5,
        flag: true,
        text: 'x',
        nothing: '',
      })
    })
  })

  test('a number too large for JavaScript is written back exactly', async () => {
    const fake = fakeVault()
    await playing(fake, async (running) => {
      const body = '{"data":{"data":{"ID":12345678901234567890},"metadata":{"version":1}}}'
      fake.setData({ ID: 0 })
      running.injectFailure = ({ method }) =>
        method === 'GET' ? { kind: 'answer', answer: { status: 200, body } } : undefined
      await applyAll(vaultKv, connectionTo(running), [create('ALPHA', 'one')])
      const written = running.requests.find(({ method }) => method === 'POST')
      expect(written?.text).toContain('"ID":12345678901234567890,')
    })
  })

  test('an unchanged value makes no new version', async () => {
    const fake = fakeVault()
    await playing(fake, async (running) => {
      await applyAll(vaultKv, connectionTo(running), [create('ALPHA', 'one')])
      await applyAll(vaultKv, connectionTo(running), [update('ALPHA', 'one'), remove({ name: 'BETA' })])
      expect(fake.versions().length).toBe(1)
    })
  })
})

test('a write to a deleted path continues at its version', async () => {
  const fake = fakeVault()
  await playing(fake, async (running) => {
    fake.setData({ THEIRS: 'x' })
    fake.deletePath()
    expect(await listAll(vaultKv, connectionTo(running))).toEqual([])
    await applyAll(vaultKv, connectionTo(running), [update('ALPHA', 'one')])
    expect(fake.versions()).toEqual([{ THEIRS: 'x' }, { ALPHA: 'one' }])
    fake.wipePath()
    await applyAll(vaultKv, connectionTo(running), [update('ALPHA', 'two')])
    expect(fake.versions()).toEqual([{ ALPHA: 'two' }])
  })
})

test('a key changed concurrently keeps the foreign value; the other keys are written', async () => {
  const fake = fakeVault()
  await playing(fake, async (running) => {
    const remote = vaultKv.connect(connectionTo(running))
    await Array.fromAsync(remote.apply([create('ALPHA', 'one'), create('BETA', 'one'), create('GAMMA', 'one')]))
    await Array.fromAsync(remote.list(new Set()))
    fake.tamper('ALPHA', 'theirs')
    fake.tamper('GAMMA', undefined)
    const ops = [update('ALPHA', 'two'), update('BETA', 'two'), update('GAMMA', 'two')]
    const results = await Array.fromAsync(remote.apply(ops))
    expect(results.map((result) => 'fault' in result && isFault(result.fault, 'conflict'))).toEqual([
      true,
      false,
      false,
    ])
    expect(Object.fromEntries(fake.state())).toEqual({ ALPHA: 'theirs', BETA: 'two', GAMMA: 'two' })
  })
})

test('a KV version 1 mount is rejected before anything is written', async () => {
  const fake = fakeVault({ kvVersion: '1' })
  await playing(fake, async (running) => {
    const fault = await applyAll(vaultKv, connectionTo(running), [create('ALPHA', 'one')]).catch((error) => error)
    expect(isFault(fault, 'gone') && fault.facts.field).toBe('mount')
    expect(running.requests.every(({ method }) => method === 'GET')).toBe(true)
  })
})

test('a KV version 1 mount is rejected by a look too, whether or not the token may read the path', async () => {
  const fake = fakeVault({ kvVersion: '1' })
  await playing(fake, async (running) => {
    const look = (path = 'shop/production') =>
      listAll(vaultKv, connectionTo(running, { target: { mount: 'secret', path } })).catch((error) => error)
    const named = { kind: 'gone', message: 'The mount secret is a KV store of version 1.', facts: { field: 'mount' } }
    expect([await look(), await look('other')]).toMatchObject([named, named])
    fake.setData({ ALPHA: 'stored under data/ by somebody' })
    expect(await look()).toMatchObject(named)
  })
})

test('a policy without patch, as the wizard prints it, is all that a push needs', async () => {
  const field = vaultKv.auth.find(({ id }) => id === 'policy')
  const facts = { syncId: '', values: {}, mapping: {}, takesOver: false }
  const text = (target: Record<string, string>) => field?.kind === 'copy' && field.text({ ...facts, target })
  expect(text({ mount: 'secret', path: 'shop/production' })).toBe(
    'path "secret/data/shop/production" {\n  capabilities = ["create", "read", "update"]\n}',
  )
  expect(text({})).toContain('# Put the mount and the path')
  const fake = fakeVault()
  await playing(fake, async (running) => {
    await applyAll(vaultKv, connectionTo(running), [create('ALPHA', 'one')])
    await applyAll(vaultKv, connectionTo(running), [update('ALPHA', 'two'), create('BETA', 'x')])
    await applyAll(vaultKv, connectionTo(running), [remove({ name: 'BETA' })])
    expect(Object.fromEntries(fake.state())).toEqual({ ALPHA: 'two' })
    expect(new Set(running.requests.map(({ method }) => method))).toEqual(new Set(['GET', 'POST']))
  })
})

test('a token without access to the path is a scope fault, an expired token an auth fault', async () => {
  const fake = fakeVault()
  await playing(fake, async (running) => {
    const elsewhere = connectionTo(running, { target: { mount: 'secret', path: 'other' } })
    await expect(listAll(vaultKv, elsewhere)).rejects.toMatchObject({ kind: 'scope' })
    const late = connectionTo(running, { credential: fake.wrongCredential })
    await expect(listAll(vaultKv, late)).rejects.toMatchObject({ kind: 'auth' })
  })
})

test('the wizard asks for the mount if the token may not list mounts', async () => {
  const fake = fakeVault()
  await playing(fake, async (running) => {
    const field = vaultKv.target.find(({ id }) => id === 'mount')
    if (field?.kind !== 'select' || typeof field.options !== 'function') throw new Error('not a select')
    expect(await field.options(connectionTo(running))).toEqual([{ label: 'secret', value: 'secret' }])
    expect(await field.options(connectionTo(running, { credential: fake.wrongCredential }))).toBeUndefined()
  })
})

test.each([
  ['address', 'https://vault.example.com/ui'],
  ['address', 'https://user@vault.example.com'],
  ['address', 'https://vault.example.com?x'],
  ['address', 'vault.example.com'],
  ['address', 'file:///etc/passwd'],
  ['address', 'https://vault.example.com:99999'],
  ['namespace', 'team\r\nx-other: 1'],
  ['mount', '../sys'],
  ['mount', 'secret/'],
  ['path', '/app'],
  ['path', 'a/../../sys/raw'],
  ['path', 'a//b'],
  ['path', 'a?version=1'],
  ['path', 'a%2fb'],
])('%s rejects %s', (id, value) => {
  const field = [...vaultKv.auth, ...vaultKv.target].find((candidate) => candidate.id === id)
  expect(field && field.kind !== 'copy' && field.check?.(value, {})).toMatch(/^is not /)
})

test('two spellings of one target have the same fingerprint', () => {
  const fingerprint = (address: string) =>
    vaultKv.describeTarget({ mount: 'secret', path: 'app' }, { address }).fingerprint
  expect(fingerprint('https://Vault.example.com:443')).toBe(fingerprint('https://vault.example.com'))
  expect(fingerprint('https://vault.example.com:8200')).not.toBe(fingerprint('https://vault.example.com'))
})

test.each([
  ['data/shop/production', 'shop/production'],
  ['metadata/shop', 'shop'],
])('the path %s is rejected, because its first word is added by Coffer', (value, path) => {
  const field = vaultKv.target.find(({ id }) => id === 'path')
  const problem = field?.kind === 'text' ? field.check?.(value, {}) : undefined
  expect(problem).toBe(`begins with a word of the API, which Coffer adds itself: enter ${path}.`)
})
