/** Batches of writes: one revision, or nothing. */
import type { Revision } from '@coffer/contract/history'
import type { RevisionResults, Secret, WriteResults } from '@coffer/contract/secret'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  createProject,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../../test/harness.ts'

let service: TestService
let owner: TestUser

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
})
afterAll(() => service.stop())

type Place = { slug: string; path: string; secret: string; dev: string; staging: string; production: string }
let places = 0

/** A project of its own for each test. */
async function newPlace(): Promise<Place> {
  const slug = `place-${++places}`
  const { environments } = await createProject(service, owner.session, slug)
  const [dev = '', staging = '', production = ''] = environments.map(({ id }) => id)
  const path = `/v1/workspace/main/project/${slug}`
  return { slug, path, secret: `${path}/secret`, dev, staging, production }
}

type Sent = { token?: string; body?: unknown }
const send = <Body = { message: string }>(method: string, path: string, { token = owner.session, body }: Sent = {}) =>
  service.call<Body>(method, path, { token, body })

async function create(place: Place, values: Record<string, string>, environments = [place.dev]): Promise<WriteResults> {
  const secrets = Object.entries(values).map(([key, value]) => ({ key, value }))
  const answer = await send<WriteResults>('POST', place.secret, { body: { environments, secrets } })
  expect(answer.status, answer.text).toBe(201)
  return answer.body
}

/** The values of one environment, by name. */
async function valuesIn(place: Place, environment: string): Promise<Record<string, string>> {
  const { body } = await send<Secret[]>('GET', `${place.secret}?environmentId=${environment}`)
  return Object.fromEntries(body.flatMap(({ name, values }) => values.map(({ value }) => [name, value ?? ''])))
}

/** Everything that the owner can read of a project; a refused request must not change it. */
async function stateOf(place: Place): Promise<string> {
  const parts = [place.secret, `${place.path}/environment`, `${place.secret}/trash`]
  const texts = await Promise.all(parts.map(async (path) => (await send('GET', path)).text))
  const revisions = [place.dev, place.staging, place.production].map(
    async (id) => (await send('GET', `${place.path}/environment/${id}/revision`)).text,
  )
  return [...texts, ...(await Promise.all(revisions))].join('\n')
}

async function expectRefused(place: Place, sent: [method: string, path: string, body?: unknown], status: number) {
  const before = await stateOf(place)
  const [method, path, body] = sent
  const answer = await send(method, path, { body })
  expect(answer.status, answer.text).toBe(status)
  expect(await stateOf(place)).toBe(before)
  return answer.body.message
}

const ref = (name: string) => `\${${name}}`
const read = async (place: Place, key: string) => (await send<Secret>('GET', `${place.secret}/${key}`)).body
const revisionsOf = async (place: Place, environment = place.dev) =>
  (await send<Revision[]>('GET', `${place.path}/environment/${environment}/revision?limit=200`)).body

test('a batch sets, renames and deletes as one revision', async () => {
  const place = await newPlace()
  await create(place, { OLD: '1', GONE: '1', SAME: '1', CHANGED: '1' })
  const operations = [
    { op: 'set', key: 'NEW', value: 'n', note: 'of the batch' },
    { op: 'set', key: 'CHANGED', value: '2', ifVersion: 1 },
    { op: 'set', key: 'SAME', value: '1' },
    { op: 'rename', key: 'OLD', to: 'RENAMED' },
    { op: 'delete', key: 'GONE', ifVersion: 1 },
  ]
  const body = { environmentId: 'development', message: 'all at once', operations }
  const before = await stateOf(place)
  const tried = await send<RevisionResults>('POST', `${place.secret}/batch`, { body: { ...body, dryRun: true } })
  expect(tried.status).toBe(200)
  expect(await stateOf(place)).toBe(before)
  const done = await send<RevisionResults>('POST', `${place.secret}/batch`, { body })
  const statusOf = (answer: RevisionResults) =>
    Object.fromEntries(answer.results.map(({ key, status, version }) => [key, `${status} ${version}`]))
  expect(statusOf(done.body)).toMatchObject({ NEW: 'created 1', CHANGED: 'updated 2', SAME: 'unchanged 1' })
  expect(statusOf(done.body)).toMatchObject({ RENAMED: expect.stringMatching(/^renamed/), GONE: 'deleted 2' })
  expect(statusOf(tried.body)).toEqual(statusOf(done.body))
  expect(done.body.revision).toBe(2)
  expect(await valuesIn(place, place.dev)).toEqual({ NEW: 'n', CHANGED: '2', SAME: '1', RENAMED: '1' })
  expect((await read(place, 'NEW')).note).toBe('of the batch')
  const [newest, ...older] = await revisionsOf(place)
  expect(older).toHaveLength(1)
  expect(newest).toMatchObject({ revision: 2, message: 'all at once' })
  expect(newest?.changes.map(({ key, action }) => `${key} ${action}`).sort()).toEqual([
    'CHANGED updated',
    'GONE deleted',
    'NEW created',
    'RENAMED renamed',
  ])
})

test('a batch of renames only and a batch without changes are accepted', async () => {
  const place = await newPlace()
  await create(place, { A: '1' })
  const batch = (operations: unknown[]) =>
    send<RevisionResults>('POST', `${place.secret}/batch`, { body: { environmentId: place.dev, operations } })
  expect(await batch([{ op: 'rename', key: 'A', to: 'B' }])).toMatchObject({ status: 200, body: { revision: 2 } })
  expect(await batch([{ op: 'set', key: 'B', value: '1' }])).toMatchObject({ status: 200, body: { revision: 2 } })
})

test('a batch with one failing operation applies none of them', async () => {
  const place = await newPlace()
  await create(place, { A: '1', B: '1' })
  const good = { op: 'set', key: 'GOOD', value: '1' }
  const bad: [operation: unknown, status: number, message: string][] = [
    [{ op: 'set', key: 'A', value: '2', ifVersion: 7 }, 412, 'A is at version 1'],
    [{ op: 'set', key: 'NEW', value: '2', ifVersion: 1 }, 412, 'NEW'],
    [{ op: 'delete', key: 'A', ifVersion: 2 }, 412, 'A'],
    [{ op: 'delete', key: 'NONE' }, 404, 'NONE has no value in development.'],
    [{ op: 'rename', key: 'NONE', to: 'C' }, 404, 'There is no secret NONE to rename.'],
    [{ op: 'rename', key: 'A', to: 'B' }, 409, 'B'],
    [{ op: 'set', key: 'GOOD', value: '2' }, 400, 'GOOD'],
    [{ op: 'set', key: 'A', value: ref('A') }, 409, 'A'],
    [{ op: 'put', key: 'A', value: '' }, 400, 'operations.1.op: must be one of: set, rename, delete.'],
    [{ key: 'A', value: '' }, 400, 'operations.1.op: is required.'],
    [{ op: 1, key: 'A', value: '' }, 400, 'operations.1.op: '],
    [{ op: 'delete', key: 'A', extra: 1 }, 400, 'operations.1.extra: is not a known field.'],
    [{ op: 'delete', key: 'A', value: '' }, 400, 'operations.1.value: is not a known field.'],
    [{ op: 'rename', key: 'A', too: 'C' }, 400, 'operations.1.to: is required.'],
    [{ op: 'rename', key: 'A', to: '0190a1dc-b912-73cb-9386-016275561f1a' }, 400, 'to: must not look like an id.'],
    [{ op: 'rename', key: 'A', to: 'C', value: '' }, 400, 'operations.1.value: is not a known field.'],
    [{ op: 'set', key: 'A' }, 400, 'operations.1.value: is required.'],
    [{ op: 'set', key: 'a.b', value: '' }, 400, 'operations.1.key: '],
    [{ op: 'rename', key: 'A', to: 'GOOD' }, 400, 'operations: GOOD is written before A is renamed to it'],
    ['set', 400, 'operations.1: must be an object.'],
  ]
  for (const [operation, status, message] of bad) {
    const body = { environmentId: place.dev, operations: [good, operation] }
    expect(await expectRefused(place, ['POST', `${place.secret}/batch`, body], status)).toContain(message)
  }
})

test('a batch may write to a new name after the rename to it, and not before', async () => {
  const place = await newPlace()
  await create(place, { A: '1', B: '1' })
  const rename = { op: 'rename', key: 'A', to: 'C' }
  const batch = (operations: unknown[]) => ({ environmentId: place.dev, operations })
  for (const early of [
    { op: 'set', key: 'C', value: '2' },
    { op: 'delete', key: 'C' },
  ]) {
    const message = await expectRefused(place, ['POST', `${place.secret}/batch`, batch([early, rename])], 400)
    expect(message).toMatch(/^operations: C /)
  }
  const set = { op: 'set', key: 'C', value: '2' }
  expect((await send('POST', `${place.secret}/batch`, { body: batch([rename, set]) })).status).toBe(200)
  expect(await valuesIn(place, place.dev)).toEqual({ B: '1', C: '2' })
})

test('a stale ifVersion is refused with the current state; a removed value accepts 0 and the version of its removal', async () => {
  const place = await newPlace()
  await create(place, { A: '1' })
  const put = (ifVersion: number) =>
    send('PUT', `${place.secret}/A/value`, { body: { environmentId: place.dev, value: 'again', ifVersion } })
  const remove = () => send('DELETE', `${place.secret}/A?environmentId=${place.dev}`)
  expect(await put(0)).toMatchObject({ status: 412, body: { message: 'A is at version 1 now: read it again.' } })
  await remove()
  for (const stale of [1, 3, 99]) {
    const absent = { message: 'A has no value in development now: read it again.' }
    expect(await put(stale)).toMatchObject({ status: 412, body: absent })
  }
  expect(await put(2)).toMatchObject({ status: 200, body: { version: 3 } })
  await remove()
  expect(await put(0)).toMatchObject({ status: 200, body: { version: 5 } })
})

test('a batch writes the note of a secret whose value does not change', async () => {
  const place = await newPlace()
  await create(place, { A: '1' })
  const operations = [{ op: 'set', key: 'A', value: '1', note: 'told' }]
  await send('POST', `${place.secret}/batch`, { body: { environmentId: place.dev, operations } })
  expect((await read(place, 'A')).note).toBe('told')
})
