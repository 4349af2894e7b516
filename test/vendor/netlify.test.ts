import { NetlifyAPI } from '@netlify/api'
import { describe, expect, test } from 'vitest'
import { isFault } from '../../server/src/providers/fault.ts'
import { netlify } from '../../server/src/providers/netlify.ts'
import { describeProvider } from './conformance.ts'
import { type FakeNetlify, fakeNetlify } from './fake/netlify.ts'
import { type RunningFake, startFake } from './fake.ts'
import { applyAll, connectionTo, create, listAll, remove, update } from './operation.ts'

const names = ['ALPHA', 'BETA', 'GAMMA'] as const
describeProvider(netlify, fakeNetlify, { names })
describeProvider(netlify, () => fakeNetlify({ context: 'all', isShared: true }), { names })
describeProvider(netlify, () => fakeNetlify({ context: 'branch', branch: 'feature/one' }), { names })

async function playing(fake: FakeNetlify, work: (running: RunningFake) => Promise<void>): Promise<void> {
  const running = await startFake(fake)
  try {
    await work(running)
    expect(fake.violations).toEqual([])
  } finally {
    await running.close()
  }
}

/** The vendor's client creates its methods from the description at run time. */
type Client = Record<string, (request: Record<string, unknown>) => Promise<unknown>>

const site = '00000000-0000-4000-8000-000000000001'
const valuesOf = (fake: FakeNetlify, key: string) =>
  Object.fromEntries((fake.variables.get(key)?.values ?? []).map(({ context, value }) => [context, value]))

test('the vendor’s client works against the fake and sends the same requests as we do', async () => {
  const theirs = await startFake(fakeNetlify(), { plain: true })
  const { token } = theirs.fake.credential
  const client = new NetlifyAPI(token, { scheme: 'http', host: `127.0.0.1:${theirs.port}` }) as unknown as Client
  const at = { account_id: 'acme', site_id: site }
  const bodyOf = (key: string, value: string) => ({
    key,
    is_secret: true,
    scopes: ['builds', 'functions', 'runtime'],
    values: [{ context: 'production', value }],
  })
  expect(await client.getEnvVars?.(at)).toEqual([])
  await client.createEnvVars?.({ ...at, body: [bodyOf('ALPHA', 'one'), bodyOf('BETA', 'two')] })
  await client.setEnvVarValue?.({ ...at, key: 'ALPHA', body: { context: 'production', value: 'three' } })
  await client.getEnvVar?.({ ...at, key: 'BETA' })
  await client.deleteEnvVar?.({ ...at, key: 'BETA' })
  expect(await client.getEnvVars?.(at)).toMatchObject([{ key: 'ALPHA', is_secret: true }])
  expect(theirs.fake.state()).toEqual(new Map([['ALPHA', 'three']]))

  const ours = await startFake(fakeNetlify())
  const connection = connectionTo(ours)
  await applyAll(netlify, connection, [create('ALPHA', 'one'), create('BETA', 'two')])
  await applyAll(netlify, connection, [update('ALPHA', 'three')])
  await applyAll(netlify, connection, [remove({ name: 'BETA' })])
  await listAll(netlify, connection)
  const wire = ({ method, path, query, headers, json }: (typeof ours.requests)[number]) => ({
    method,
    path,
    query: [...query],
    authorization: headers.authorization,
    json,
  })
  expect(ours.requests.map(wire)).toEqual(theirs.requests.map(wire))
  expect(theirs.fake.violations).toEqual([])
  await Promise.all([theirs.close(), ours.close()])
})

test('the vendor’s client deletes one of several values and lists accounts and sites by the same requests as we do', async () => {
  const theirFake = fakeNetlify()
  const ourFake = fakeNetlify()
  for (const fake of [theirFake, ourFake]) {
    fake.setValue('ALPHA', 'production', 'p')
    fake.setValue('ALPHA', 'dev', 'd')
  }
  const theirs = await startFake(theirFake, { plain: true })
  const { token } = theirFake.credential
  const client = new NetlifyAPI(token, { scheme: 'http', host: `127.0.0.1:${theirs.port}` }) as unknown as Client
  const id = theirFake.variables.get('ALPHA')?.values[0]?.id
  await client.deleteEnvVarValue?.({ account_id: 'acme', site_id: site, key: 'ALPHA', id })
  await client.listAccountsForUser?.({})
  await client.listSitesForAccount?.({ account_slug: 'acme', per_page: 100 })
  await client.getCurrentUser?.({})

  const ours = await startFake(ourFake)
  await applyAll(netlify, connectionTo(ours), [remove({ name: 'ALPHA' })])
  for (const field of netlify.target) {
    if (field.kind === 'select' && typeof field.options === 'function') await field.options(connectionTo(ours))
  }
  await netlify.verify(connectionTo(ours))
  const wire = ({ method, path, query }: RunningFake['requests'][number]) => [method, path, [...query]]
  expect(ours.requests.slice(1).map(wire)).toEqual(theirs.requests.map(wire))
  expect(valuesOf(ourFake, 'ALPHA')).toEqual({ dev: 'd' })
  expect([...theirFake.violations, ...ourFake.violations]).toEqual([])
  await Promise.all([theirs.close(), ours.close()])
})

describe('other contexts', () => {
  test('stay unchanged when ours is created, changed and deleted', async () => {
    const fake = fakeNetlify()
    await playing(fake, async (running) => {
      fake.setValue('ALPHA', 'dev', 'd')
      fake.setValue('ALPHA', 'all', 'a')
      expect(await listAll(netlify, connectionTo(running))).toEqual([])
      const [made] = await applyAll(netlify, connectionTo(running), [create('ALPHA', 'one')])
      expect(made && 'note' in made && made.note).toMatch(/not marked as secret/)
      await applyAll(netlify, connectionTo(running), [update('ALPHA', 'two')])
      expect(valuesOf(fake, 'ALPHA')).toEqual({ dev: 'd', all: 'a', production: 'two' })
      await applyAll(netlify, connectionTo(running), [remove({ name: 'ALPHA' })])
      expect(valuesOf(fake, 'ALPHA')).toEqual({ dev: 'd', all: 'a' })
      await applyAll(netlify, connectionTo(running), [remove({ name: 'ALPHA' })])
      expect(valuesOf(fake, 'ALPHA')).toEqual({ dev: 'd', all: 'a' })
      expect(running.requests.some(({ method }) => method === 'PUT')).toBe(false)
    })
  })

  test('added by someone else just before our delete stay too', async () => {
    const fake = fakeNetlify()
    await playing(fake, async (running) => {
      const [made] = await applyAll(netlify, connectionTo(running), [create('ALPHA', 'one')])
      fake.setValue('ALPHA', 'deploy-preview', 'theirs')
      await applyAll(netlify, connectionTo(running), [remove({ name: 'ALPHA', ...made })])
      expect(valuesOf(fake, 'ALPHA')).toEqual({ 'deploy-preview': 'theirs' })
    })
  })

  test('a variable is deleted with its last context', async () => {
    const fake = fakeNetlify()
    await playing(fake, async (running) => {
      await applyAll(netlify, connectionTo(running), [create('ALPHA', 'one')])
      await applyAll(netlify, connectionTo(running), [remove({ name: 'ALPHA' })])
      expect(fake.variables.size).toBe(0)
    })
  })

  test('values of other branches are ignored', async () => {
    const fake = fakeNetlify({ context: 'branch', branch: 'feature/one' })
    await playing(fake, async (running) => {
      await applyAll(netlify, connectionTo(running), [create('ALPHA', 'one')])
      const other = connectionTo(running, { target: { ...fake.target, branch: 'feature/two' } })
      expect(await listAll(netlify, other)).toEqual([])
      await applyAll(netlify, other, [create('ALPHA', 'two')])
      await applyAll(netlify, other, [remove({ name: 'ALPHA' })])
      expect(fake.state()).toEqual(new Map([['ALPHA', 'one']]))
    })
  })
})

test('an update of a missing variable creates it as a secret', async () => {
  const fake = fakeNetlify()
  await playing(fake, async (running) => {
    await applyAll(netlify, connectionTo(running), [update('ALPHA', 'one', 'gone')])
    expect(fake.variables.get('ALPHA')).toMatchObject({ is_secret: true, scopes: ['builds', 'functions', 'runtime'] })
  })
})

test('a create does not overwrite a readable foreign value', async () => {
  const fake = fakeNetlify()
  await playing(fake, async (running) => {
    fake.setValue('ALPHA', 'production', 'theirs')
    const results = await applyAll(netlify, connectionTo(running), [create('ALPHA', 'one'), create('BETA', 'two')])
    expect(results.map((result) => [result.name, 'fault' in result && isFault(result.fault, 'conflict')])).toEqual([
      ['ALPHA', true],
      ['BETA', false],
    ])
    expect(fake.state().get('ALPHA')).toBe('theirs')
  })
})

test.each([
  ['production', undefined, true],
  ['production', 'no', false],
  ['dev', 'yes', false],
  ['dev-server', 'yes', false],
  ['all', 'yes', false],
])('in context %s with the secret option %s, a variable is secret: %s', async (context, isSecret, expected) => {
  const fake = fakeNetlify({ context })
  await playing(fake, async (running) => {
    const options = isSecret === undefined ? {} : { isSecret }
    await applyAll(netlify, connectionTo(running, { options }), [create('ALPHA', 'one')])
    expect(fake.variables.get('ALPHA')?.is_secret).toBe(expected)
    const [item] = await listAll(netlify, connectionTo(running))
    expect(item?.value).toBe(expected ? undefined : 'one')
  })
})

test('sites are read page by page', async () => {
  const fake = fakeNetlify()
  await playing(fake, async (running) => {
    fake.pageSize = 1
    const field = netlify.target.find(({ id }) => id === 'site')
    if (field?.kind !== 'select' || typeof field.options !== 'function') throw new Error('not a select')
    const offered = await field.options(connectionTo(running))
    expect(offered?.map(({ label }) => label)).toEqual(['docs', 'shop', 'All sites of the team'])
  })
})

test('the vendor’s error message is kept, in every form of its response', async () => {
  const fake = fakeNetlify()
  await playing(fake, async (running) => {
    fake.refusedNames.add('ALPHA')
    const fault = await applyAll(netlify, connectionTo(running), [create('ALPHA', 'x')]).catch((error) => error)
    expect(isFault(fault, 'invalid') && fault.facts.vendorMessage).toMatch(/ALPHA is invalid/)
  })
})

test('the wizard asks for names that the token may not list, but reports a rejected token', async () => {
  const fake = fakeNetlify()
  await playing(fake, async (running) => {
    for (const field of netlify.target) {
      if (field.kind !== 'select' || typeof field.options !== 'function') continue
      running.injectFailure = () => ({ kind: 'answer', answer: { status: 403, body: {} } })
      expect(await field.options(connectionTo(running))).toBeUndefined()
      running.injectFailure = undefined
      const refused = field.options(connectionTo(running, { credential: fake.wrongCredential }))
      await expect(refused).rejects.toMatchObject({ kind: 'auth' })
    }
  })
})

test.each([
  ['account', '../user'],
  ['account', 'a/b'],
  ['site', 'shop'],
  ['site', `${site}&site_id=x`],
  ['branch', 'a b'],
])('%s rejects %s', (id, value) => {
  const field = netlify.target.find((candidate) => candidate.id === id)
  expect(field && field.kind !== 'copy' && field.check?.(value, {})).toMatch(/^is not /)
})
