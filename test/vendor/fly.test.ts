import { Credentials } from '@distilled.cloud/fly-io/Credentials'
import {
  MachinesList,
  MachinesUpdate,
  SecretDelete,
  SecretsList,
  SecretsUpdate,
} from '@distilled.cloud/fly-io/Operations'
import { Effect, Layer, Redacted } from 'effect'
import { FetchHttpClient } from 'effect/unstable/http'
import { expect, test } from 'vitest'
import { isFault } from '../../server/src/providers/fault.ts'
import { fly } from '../../server/src/providers/fly.ts'
import { describeProvider } from './conformance.ts'
import { fakeFly } from './fake/fly.ts'
import { type FakeRequest, type RunningFake, startFake } from './fake.ts'
import { applyAll, connectionTo, create, listAll, remove, update } from './operation.ts'

describeProvider(fly, fakeFly, { names: ['ALPHA', 'BETA', 'GAMMA'] })

const app = 'shop-production'
const wire = ({ method, url, json }: FakeRequest) => ({ method, url, json })

/** Generated from the vendor's OpenAPI description; checks each response against it. */
function generatedClient({ fake, url }: RunningFake) {
  const apiKey = Redacted.make(fake.credential.token ?? '')
  const layer = Layer.merge(Layer.succeed(Credentials, { apiKey, apiBaseUrl: `${url}/v1` }), FetchHttpClient.layer)
  const at = { app_name: app }
  return {
    set: (values: Record<string, string>) =>
      Effect.runPromise(SecretsUpdate({ ...at, values }).pipe(Effect.provide(layer))),
    remove: (name: string) => Effect.runPromise(SecretDelete({ ...at, secret_name: name }).pipe(Effect.provide(layer))),
    list: () => Effect.runPromise(SecretsList(at).pipe(Effect.provide(layer))),
    machines: () => Effect.runPromise(MachinesList(at).pipe(Effect.provide(layer))),
    updateMachine: (change: Omit<Parameters<typeof MachinesUpdate>[0], 'app_name'>) =>
      Effect.runPromise(MachinesUpdate({ ...at, ...change }).pipe(Effect.provide(layer))),
  }
}

test('a client generated from the vendor’s description works against the fake and sends the same requests as we do', async () => {
  const theirs = await startFake(fakeFly(), { plain: true })
  const client = generatedClient(theirs)
  const set = await client.set({ ALPHA: 'one', BETA: 'two' })
  await client.set({ ALPHA: 'three' })
  const { secrets = [] } = await client.list()
  expect(secrets.map(({ name }) => name)).toEqual(['ALPHA', 'BETA'])
  expect(secrets[0]?.digest).not.toBe(set.secrets?.[0]?.digest)
  expect((await client.remove('BETA')).version).toBe(3)
  expect(theirs.fake.state()).toEqual(new Map([['ALPHA', 'three']]))

  const ours = await startFake(fakeFly())
  const connection = connectionTo(ours)
  await applyAll(fly, connection, [create('ALPHA', 'one'), create('BETA', 'two')])
  await applyAll(fly, connection, [update('ALPHA', 'three')])
  await listAll(fly, connection)
  expect(ours.requests.map(wire)).toEqual(theirs.requests.slice(0, 3).map(wire))
  // Their call deletes one secret; in the vendor's Go client, null in the bulk call deletes many.
  await applyAll(fly, connection, [remove({ name: 'BETA' }), create('GAMMA', 'x')])
  expect(ours.requests.at(-1)?.json).toEqual({ values: { BETA: null, GAMMA: 'x' } })
  expect([...theirs.fake.violations, ...ours.fake.violations]).toEqual([])
  await Promise.all([theirs.close(), ours.close()])
})

test('machines are updated if chosen, like that client does, and stopped machines stay stopped', async () => {
  const theirs = await startFake(fakeFly(), { plain: true })
  const client = generatedClient(theirs)
  await client.set({ ALPHA: 'two' })
  const [first, second] = await client.machines()
  for (const machine of [first, second]) {
    await client.updateMachine({
      machine_id: machine?.id ?? '',
      config: machine?.config,
      current_version: machine?.instance_id,
      min_secrets_version: 1,
      ...(machine?.state === 'stopped' && { skip_launch: true }),
    })
  }

  const fake = fakeFly()
  const ours = await startFake(fake)
  const remote = fly.connect(connectionTo(ours, { options: { restart: 'yes' } }))
  await Array.fromAsync(remote.apply([update('ALPHA', 'two')]))
  await remote.finish?.()
  expect(ours.requests.map(wire)).toEqual(theirs.requests.map(wire))
  expect(fake.machines.map(({ secrets, launches }) => [secrets, launches])).toEqual([
    [1, 1],
    [1, 0],
    [undefined, 0],
    [undefined, 0],
  ])

  ours.forget()
  const staged = fly.connect(connectionTo(ours))
  await Array.fromAsync(staged.apply([update('ALPHA', 'three')]))
  await staged.finish?.()
  expect(ours.requests.length).toBe(1)
  expect([...theirs.fake.violations, ...fake.violations]).toEqual([])
  await Promise.all([theirs.close(), ours.close()])
})

test('a machine changed concurrently is not overwritten', async () => {
  const fake = fakeFly()
  const running = await startFake(fake)
  const remote = fly.connect(connectionTo(running, { options: { restart: 'yes' } }))
  await Array.fromAsync(remote.apply([create('ALPHA', 'one')]))
  running.injectFailure = ({ method, path }) => {
    const [first] = fake.machines
    if (method === 'POST' && path.includes('/machines/') && first) first.instance_id = 'changed'
    return undefined
  }
  const error = await remote.finish?.().catch((caught: unknown) => caught)
  expect(isFault(error, 'conflict')).toBe(true)
  expect(fake.machines[0]?.launches).toBe(0)
  await running.close()
})

test.each([
  ['a macaroon as printed', 'FlyV1 fm2_bWFjYXJvb24tb2YtdGhlLWZha2U=,fm2_ZGlzY2hhcmdl'],
  ['a macaroon without its scheme', 'fm2_bWFjYXJvb24tb2YtdGhlLWZha2U=,fm2_ZGlzY2hhcmdl'],
  ['a macaroon with the Bearer scheme and a newline', 'Bearer fm2_bWFjYXJvb24tb2YtdGhlLWZha2U=,fm2_ZGlzY2hhcmdl\n'],
])('%s is sent with its own scheme', async (_title, token) => {
  const running = await startFake(fakeFly())
  expect(await fly.verify(connectionTo(running, { credential: { token } }))).toBe('deploy-token@example.com')
  expect(running.requests[0]?.headers.authorization).toMatch(/^FlyV1 fm2_/)
  const person = connectionTo(running, { credential: { token: 'fo1_person' } })
  await fly.verify(person).catch(() => undefined)
  expect(running.requests[1]?.headers.authorization).toBe('Bearer fo1_person')
  await running.close()
})

test('apps are listed page by page, and the wizard asks for the name if the token may not list them', async () => {
  const fake = fakeFly()
  fake.pageSize = 1
  const running = await startFake(fake)
  const [field] = fly.target
  if (field?.kind !== 'select' || typeof field.options !== 'function') throw new Error('not a select')
  expect((await field.options(connectionTo(running)))?.length).toBe(3)
  const errors = [{ message: 'Not authorized to access apps', extensions: { code: 'FORBIDDEN' } }]
  running.injectFailure = () => ({ kind: 'answer', answer: { status: 200, body: { data: null, errors } } })
  expect(await field.options(connectionTo(running))).toBeUndefined()
  for (const name of ['Shop', 'a/b', '..', '-a', '']) expect(field.check?.(name, {})).toBeDefined()
  expect(fake.violations).toEqual([])
  await running.close()
})

test('an app without secrets lists none, in every form of the vendor’s response', async () => {
  const running = await startFake(fakeFly())
  for (const body of [{ secrets: null }, { secrets: [] }, {}]) {
    running.injectFailure = () => ({ kind: 'answer', answer: { status: 200, body } })
    expect(await listAll(fly, connectionTo(running))).toEqual([])
  }
  await running.close()
})
