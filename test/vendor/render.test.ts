import { RenderClient } from 'render-api'
import { expect, test } from 'vitest'
import { render } from '../../server/src/providers/render.ts'
import { describeProvider } from './conformance.ts'
import { fakeRender } from './fake/render.ts'
import { type FakeRequest, startFake } from './fake.ts'
import { applyAll, connectionTo, create, listAll, remove, update } from './operation.ts'

const names = { names: ['ALPHA', 'BETA', 'GAMMA'] } as const
describeProvider(render, fakeRender, names)
describeProvider(render, () => fakeRender('env-group'), names)

const wire = ({ method, url, headers, json }: FakeRequest) => ({ method, url, json, key: headers.authorization })

test('render-api works against the fake of a service and sends the same requests as we do', async () => {
  const theirs = await startFake(fakeRender(), { plain: true })
  const client = new RenderClient({ apiKey: theirs.fake.credential.token ?? '', baseUrl: `${theirs.url}/v1` })
  const { service = '' } = theirs.fake.target
  expect((await client.users.me()).email).toBe('ops@example.com')
  await client.services.envVars.set(service, 'ALPHA', 'one')
  await client.services.envVars.set(service, 'BETA', 'two')
  await client.services.envVars.set(service, 'ALPHA', 'three')
  await client.services.envVars.delete(service, 'BETA')
  const listed = await Array.fromAsync(client.services.envVars.listAll(service, { limit: 100 }))
  expect(listed).toEqual([{ key: 'ALPHA', value: 'three' }])
  expect(await client.services.envVars.retrieve(service, 'ALPHA')).toEqual({ key: 'ALPHA', value: 'three' })
  await client.services.deploys.create(service, {})

  const ours = await startFake(fakeRender())
  const connection = connectionTo(ours, { options: { deploy: 'yes' } })
  await render.verify(connection)
  await applyAll(render, connection, [create('ALPHA', 'one'), create('BETA', 'two')])
  await applyAll(render, connection, [update('ALPHA', 'three')])
  await applyAll(render, connection, [remove({ name: 'BETA' })])
  await listAll(render, connection)
  const found = render.connect(connection).find?.([{ name: 'ALPHA' }]) ?? []
  expect(await Array.fromAsync(found)).toEqual([{ name: 'ALPHA', value: 'three' }])
  await render.connect(connection).finish?.()
  const sorted = (requests: FakeRequest[]) => requests.map(wire).map(sortQuery)
  expect(sorted(ours.requests)).toEqual(sorted(theirs.requests))
  expect([...theirs.fake.violations, ...ours.fake.violations]).toEqual([])
  await Promise.all([theirs.close(), ours.close()])
})

/** The order of query parameters does not matter. */
function sortQuery<Request extends { url: string }>(request: Request): Request {
  const url = new URL(request.url, 'https://api.render.com')
  url.searchParams.sort()
  return { ...request, url: url.pathname + url.search }
}

test('render-api works against the fake of a group and sends the same requests as we do', async () => {
  const theirs = await startFake(fakeRender('env-group'), { plain: true })
  const client = new RenderClient({ apiKey: theirs.fake.credential.token ?? '', baseUrl: `${theirs.url}/v1` })
  const { envGroup = '' } = theirs.fake.target
  await client.envGroups.updateEnvVar(envGroup, 'ALPHA', 'one')
  await client.envGroups.deleteEnvVar(envGroup, 'ALPHA')
  expect((await client.envGroups.retrieve(envGroup)).envVars).toEqual([])
  expect((await Array.fromAsync(client.envGroups.listAll({ limit: 100 }))).map(({ id }) => id)).toEqual([envGroup])

  const ours = await startFake(fakeRender('env-group'))
  const connection = connectionTo(ours)
  await applyAll(render, connection, [create('ALPHA', 'one')])
  await applyAll(render, connection, [remove({ name: 'ALPHA' })])
  await listAll(render, connection)
  const field = render.target.find(({ id }) => id === 'envGroup')
  if (field?.kind === 'select' && typeof field.options === 'function') await field.options(connection)
  const sorted = (requests: FakeRequest[]) => requests.map(wire).map(sortQuery)
  expect(sorted(ours.requests)).toEqual(sorted(theirs.requests))
  expect([...theirs.fake.violations, ...ours.fake.violations]).toEqual([])
  await Promise.all([theirs.close(), ours.close()])
})

test('a deploy is started only if chosen, and never for a group', async () => {
  for (const [kind, deploy, expected] of [
    ['service', 'no', 0],
    ['service', 'yes', 1],
    ['env-group', 'yes', 0],
  ] as const) {
    const fake = fakeRender(kind)
    const running = await startFake(fake)
    await render.connect(connectionTo(running, { options: { deploy } })).finish?.()
    expect(fake.deploys.length).toBe(expected)
    await running.close()
  }
})

test('a repeated page ends the list instead of causing a loop', async () => {
  const running = await startFake(fakeRender())
  const body = [{ cursor: 'same', envVar: { key: 'ALPHA', value: 'x' } }]
  running.injectFailure = () => ({ kind: 'answer', answer: { status: 200, body } })
  expect(new Set((await listAll(render, connectionTo(running))).map(({ name }) => name))).toEqual(new Set(['ALPHA']))
  expect(running.requests.length).toBe(2)
  await running.close()
})

test('ids that would change the path are rejected, and exactly a service or a group is required', () => {
  const field = (id: string) => render.target.find((one) => one.id === id)
  for (const [id, good] of [
    ['service', 'srv-cukouhrtq21c73e9scng'],
    ['envGroup', 'evg-cukouhrtq21c73e9sab0'],
  ] as const) {
    const one = field(id)
    if (one?.kind !== 'select') throw new Error('not a select')
    expect(one.check?.(good, {})).toBeUndefined()
    for (const bad of ['', '../users', 'srv-a/../x', `${good}/env-vars`, `${good}\n`]) {
      expect(one.check?.(bad, {})).toBeDefined()
    }
  }
  expect([field('service')?.when?.({ kind: 'env-group' }), field('envGroup')?.when?.({ kind: 'env-group' })]).toEqual([
    false,
    true,
  ])
})
