import { createDigitalOceanClient, DigitalOceanApiKeyAuthenticationProvider, type Env } from '@digitalocean/dots'
import { FetchRequestAdapter } from '@microsoft/kiota-http-fetchlibrary'
import { expect, test } from 'vitest'
import { digitaloceanApps } from '../../server/src/providers/digitalocean-apps.ts'
import { isFault } from '../../server/src/providers/fault.ts'
import { describeProvider } from './conformance.ts'
import { type FakeApps, fakeApps, reference } from './fake/digitalocean-apps.ts'
import { type RunningFake, startFake } from './fake.ts'
import { applyAll, connectionTo, create, listAll, remove, update } from './operation.ts'

const names = ['ALPHA', 'BETA', '_GAMMA'] as const
describeProvider(digitaloceanApps, fakeApps, { names })
describeProvider(digitaloceanApps, () => fakeApps({ component: '*' }), { names })

async function playing(fake: FakeApps, work: (running: RunningFake) => Promise<void>): Promise<void> {
  const running = await startFake(fake)
  try {
    await work(running)
    expect(fake.violations).toEqual([])
  } finally {
    await running.close()
  }
}

const app = '00000000-0000-4000-8000-000000000001'

function clientOf({ url, fake }: RunningFake) {
  // The adapter expects its own library's interface, which the vendor's class satisfies without declaring it.
  const provider = new DigitalOceanApiKeyAuthenticationProvider(fake.credential.token ?? '') as never
  const adapter = new FetchRequestAdapter(provider)
  adapter.baseUrl = url
  return createDigitalOceanClient(adapter)
}

test('the vendor’s client works against the fake and writes the same spec as we do', async () => {
  const [theirFake, ourFake] = [fakeApps(), fakeApps()]
  const theirs = await startFake(theirFake, { plain: true })
  const client = clientOf(theirs)
  const builder = client.v2.apps.byApp_Id(app)
  const scope = 'RUN_AND_BUILD_TIME'

  async function edit(change: (envs: Env[]) => Env[]) {
    const { spec } = (await builder.get()).app
    const services = (spec.services ?? []).map((service) =>
      service.name === 'web' ? { ...service, envs: change(service.envs ?? []) } : service,
    )
    return builder.put({ spec: { ...spec, services } })
  }
  await edit((envs) => [
    ...envs,
    { key: 'ALPHA', value: 'one', scope, type: 'SECRET' },
    { key: 'BETA', value: 'two', scope, type: 'SECRET' },
  ])
  await edit((envs) => envs.map((env) => (env.key === 'ALPHA' ? { ...env, value: 'three' } : env)))
  const { app: last } = await edit((envs) => envs.filter((env) => env.key !== 'BETA'))
  expect(last.spec.services?.[0]?.envs?.map(({ key }) => key)).toEqual(['ALPHA'])
  expect(theirFake.state()).toEqual(new Map([['ALPHA', 'three']]))

  const ours = await startFake(ourFake)
  const connection = connectionTo(ours)
  await applyAll(digitaloceanApps, connection, [create('ALPHA', 'one'), create('BETA', 'two')])
  await applyAll(digitaloceanApps, connection, [update('ALPHA', 'three')])
  await applyAll(digitaloceanApps, connection, [remove({ name: 'BETA' })])
  const wire = ({ method, path, query, headers, text }: (typeof ours.requests)[number]) => ({
    method,
    path,
    query: [...query],
    authorization: headers.authorization,
    json: text === '' ? undefined : JSON.parse(text.replace(/EV\[1:[^\]]*\]/g, 'EV[1:sealed]')),
  })
  expect(ours.requests.map(wire)).toEqual(theirs.requests.map(wire))
  expect([...theirFake.violations, ...ourFake.violations]).toEqual([])
  await Promise.all([theirs.close(), ours.close()])
})

test('the vendor’s client reads the account and the apps by the same requests as we do', async () => {
  const theirs = await startFake(fakeApps(), { plain: true })
  const client = clientOf(theirs)
  expect((await client.v2.account.get()).account.email).toBe('ops@example.com')
  expect((await client.v2.apps.get({ queryParameters: { perPage: 200 } })).apps.map(({ id }) => id)).toContain(app)
  const fake = fakeApps()
  await playing(fake, async (running) => {
    expect(await digitaloceanApps.verify(connectionTo(running))).toBe('ops@example.com')
    await optionsOf('app')(connectionTo(running))
    const wire = ({ method, path, query }: RunningFake['requests'][number]) => [method, path, [...query]]
    expect(running.requests.map(wire)).toEqual(theirs.requests.map(wire))
  })
  await theirs.close()
})

function optionsOf(id: string) {
  const field = digitaloceanApps.target.find((candidate) => candidate.id === id)
  if (field?.kind !== 'select' || typeof field.options !== 'function') throw new Error('not a select')
  return field.options
}

test('the rest of the spec is written back unchanged, encrypted values included', async () => {
  const fake = fakeApps()
  await playing(fake, async (running) => {
    const before = structuredClone(fake.spec())
    await applyAll(digitaloceanApps, connectionTo(running), [create('ALPHA', 'one'), create('BETA', 'two')])
    await applyAll(digitaloceanApps, connectionTo(running), [update('BETA', 'three')])
    const sealed = fake.spec().services?.[0]?.envs?.[0]?.value
    await applyAll(digitaloceanApps, connectionTo(running), [remove({ name: 'BETA' })])
    expect(fake.spec().services?.[0]?.envs).toEqual([
      { key: 'ALPHA', value: sealed, scope: 'RUN_AND_BUILD_TIME', type: 'SECRET' },
    ])
    await applyAll(digitaloceanApps, connectionTo(running), [remove({ name: 'ALPHA' })])
    expect(fake.spec()).toEqual(before)
  })
})

test('the spec is read immediately before the write, so changes by others survive', async () => {
  const fake = fakeApps()
  await playing(fake, async (running) => {
    const remote = digitaloceanApps.connect(connectionTo(running))
    await Array.fromAsync(remote.list(new Set()))
    fake.spec().region = 'ams'
    fake.tamper('THEIRS', 'x')
    running.forget()
    await Array.fromAsync(remote.apply([create('ALPHA', 'one')]))
    expect(running.requests.map(({ method }) => method)).toEqual(['GET', 'PUT'])
    expect(fake.spec().region).toBe('ams')
    expect(Object.fromEntries(fake.state())).toEqual({ THEIRS: 'x', ALPHA: 'one' })
  })
})

test('a push of many changes causes one deployment, a push without changes none', async () => {
  const fake = fakeApps()
  await playing(fake, async (running) => {
    fake.tamper('OLD', 'x')
    const ops = [create('ALPHA', 'one'), create('BETA', 'two'), remove({ name: 'OLD' })]
    await applyAll(digitaloceanApps, connectionTo(running), ops)
    expect(fake.deployments()).toBe(1)
    await applyAll(digitaloceanApps, connectionTo(running), [remove({ name: 'OLD' })])
    expect(fake.deployments()).toBe(1)
  })
})

test('a create does not overwrite a plain-text variable; an update encrypts it and keeps its scope', async () => {
  const fake = fakeApps({ component: 'mail' })
  await playing(fake, async (running) => {
    const [open] = await listAll(digitaloceanApps, connectionTo(running))
    expect(open).toEqual({ name: 'OPEN', value: reference })
    const results = await applyAll(digitaloceanApps, connectionTo(running), [create('OPEN', 'x'), create('B', 'y')])
    expect(results.map((result) => 'fault' in result && isFault(result.fault, 'conflict'))).toEqual([true, false])
    await applyAll(digitaloceanApps, connectionTo(running, { options: { scope: 'BUILD_TIME' } }), [update('OPEN', 'x')])
    expect(fake.spec().workers?.[0]?.envs).toMatchObject([
      { key: 'OPEN', scope: 'RUN_TIME', type: 'SECRET' },
      { key: 'B', scope: 'RUN_AND_BUILD_TIME', type: 'SECRET' },
    ])
  })
})

test('a deleted component is a gone fault, and the spec is not written', async () => {
  const fake = fakeApps()
  await playing(fake, async (running) => {
    const connection = connectionTo(running, { target: { ...fake.target, component: 'old' } })
    await expect(listAll(digitaloceanApps, connection)).rejects.toMatchObject({ kind: 'gone' })
    await expect(applyAll(digitaloceanApps, connection, [create('A', 'x')])).rejects.toMatchObject({ kind: 'gone' })
    expect(fake.deployments()).toBe(0)
  })
})

test('apps are read page by page, on DigitalOcean’s own host only', async () => {
  const fake = fakeApps()
  await playing(fake, async (running) => {
    fake.pageSize = 1
    const offered = await optionsOf('app')(connectionTo(running))
    expect(offered?.map(({ label }) => label)).toEqual(['docs', 'shop'])
    const body = { apps: [], links: { pages: { next: 'https://elsewhere.example.test/v2/apps?page=2' } } }
    running.injectFailure = () => ({ kind: 'answer', answer: { status: 200, body } })
    await expect(optionsOf('app')(connectionTo(running))).rejects.toMatchObject({ kind: 'protocol' })
  })
})

test('the wizard offers the whole app and each component', async () => {
  await playing(fakeApps(), async (running) => {
    const offered = await optionsOf('component')(connectionTo(running))
    expect(offered?.map(({ value }) => value)).toEqual(['*', 'web', 'api', 'mail'])
  })
})

test('a token does not need permission to read the account', async () => {
  const fake = fakeApps({ hasAccountScope: false })
  await playing(fake, async (running) => {
    expect(await digitaloceanApps.verify(connectionTo(running))).toBe('DigitalOcean')
  })
})

test('a number too large for JavaScript is written back exactly', async () => {
  const fake = fakeApps()
  await playing(fake, async (running) => {
    const text = '{"app":{"spec":{"name":"shop","services":[{"name":"web","size":12345678901234567890}]}}}'
    running.injectFailure = ({ method }) =>
      method === 'GET' ? { kind: 'answer', answer: { status: 200, body: text } } : undefined
    await applyAll(digitaloceanApps, connectionTo(running), [create('ALPHA', 'one')])
    expect(running.requests.at(-1)?.text).toContain('"size":12345678901234567890')
  })
})

test.each([
  [`a${reference}c`, /contains \$\{/],
  ['EV[1:abc:def]', /starts with EV\[/],
])('the value %s is rejected', (value, expected) => {
  expect(digitaloceanApps.limits.refuseValue?.(value, {})).toMatch(expected)
})

test('the wizard asks for names that the token may not list, but reports a rejected token', async () => {
  const fake = fakeApps()
  await playing(fake, async (running) => {
    for (const field of digitaloceanApps.target) {
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
  ['app', 'shop'],
  ['app', `${app}/deployments`],
  ['component', 'Web'],
  ['component', '../x'],
])('%s rejects %s', (id, value) => {
  const field = digitaloceanApps.target.find((candidate) => candidate.id === id)
  expect(field && field.kind !== 'copy' && field.check?.(value, {})).toMatch(/^is not /)
})
