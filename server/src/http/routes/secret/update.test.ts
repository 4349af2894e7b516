/** Updates of a secret and of its values. */
import type { Revision } from '@coffer/contract/history'
import type { Reminder, Secret, WriteResults } from '@coffer/contract/secret'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  createProject,
  createToken,
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

test('a secret sent back unchanged is accepted and creates no version', async () => {
  const place = await newPlace()
  await create(place, { A: ref('MISSING'), B: '1' }, [place.dev, place.staging])
  const reminder = { environmentId: place.dev, type: 'one_time', nextReminderDate: '2030-01-01T00:00:00Z' }
  expect((await send('PUT', `${place.secret}/A/reminder`, { body: reminder })).status).toBe(200)
  const { body: secret } = await send<Secret>('GET', `${place.secret}/A?resolve=true`)
  expect(secret.values[0]).toMatchObject({ unresolved: ['MISSING'], reminder: { type: 'one_time' } })
  const before = await stateOf(place)
  const { name, type, dataType, note, values } = secret
  const answer = await send('PUT', `${place.secret}/${secret.id}`, { body: { name, type, dataType, note, values } })
  expect(answer).toMatchObject({ status: 200, body: { success: true } })
  expect(await stateOf(place)).toBe(before)
})

test('an update writes only the rows that it lists', async () => {
  const place = await newPlace()
  await create(place, { A: '1', B: '1' }, [place.dev, place.staging, place.production])
  const values = [
    { environmentId: place.staging, value: '2', isPersonal: false },
    { environmentId: 'development', value: '1' },
  ]
  expect((await send('PUT', `${place.secret}/A`, { body: { name: 'A', values } })).status).toBe(200)
  const { values: rows } = await read(place, 'A')
  expect(rows.map(({ value, version }) => `${value} ${version}`)).toEqual(['1 1', '2 2', '1 1'])
  expect((await read(place, 'B')).values.map(({ version }) => version)).toEqual([1, 1, 1])
  expect((await send('PUT', `${place.secret}/A`, { body: { name: 'A', values: [] } })).status).toBe(200)
  expect((await read(place, 'A')).values).toEqual(rows)
})

test('an update renames, and changes type, data type and note', async () => {
  const place = await newPlace()
  await create(place, { A: '1' }, [place.dev, place.staging])
  const { id } = await read(place, 'A')
  const body = {
    name: 'Z',
    type: 'build',
    dataType: 'url',
    note: 'n',
    values: [{ environmentId: place.dev, value: '2' }],
  }
  expect((await send('PUT', `${place.secret}/A`, { body })).status).toBe(200)
  expect(await read(place, 'Z')).toMatchObject({ id, name: 'Z', type: 'build', dataType: 'url', note: 'n' })
  expect((await read(place, 'Z')).values.map(({ value }) => value)).toEqual(['2', '1'])
  expect((await send('GET', `${place.secret}/A`)).status).toBe(404)
  expect(await revisionsOf(place)).toMatchObject([{ revision: 2 }, { revision: 1 }])
  expect(await revisionsOf(place, place.staging)).toMatchObject([
    { revision: 2, changes: [{ key: 'Z', action: 'renamed', from: 'A' }] },
    { revision: 1 },
  ])
})

test('a refused update changes nothing', async () => {
  const place = await newPlace()
  await create(place, { A: '1', TAKEN: '1' })
  const row = { environmentId: place.dev, value: '2' }
  const put = (body: unknown, status: number, key = 'A') =>
    expectRefused(place, ['PUT', `${place.secret}/${key}`, body], status)
  expect(await put({ name: 'TAKEN', values: [row] }, 409)).toContain('TAKEN')
  await put({ name: 'A', values: [row, { environmentId: 'nowhere', value: '' }] }, 404)
  await put({ name: 'NONE', values: [row] }, 404, 'NONE')
  expect(await put({ name: 'A', values: [row, row] }, 400)).toMatch(/^values: .*development/)
  expect(await put({ name: '0190a1dc-b912-73cb-9386-016275561f1a', values: [row] }, 400)).toMatch(/^name: /)
  expect(await put({ name: 'B', note: 'n', values: [{ ...row, value: '•••••' }] }, 400)).toMatch(/mask/)
  await put({ name: 'A', values: [{ ...row, surprise: true }] }, 400)
  await put({ values: [row] }, 400)
  await put({ name: 'A', dataType: 'binary', values: [] }, 400)
})

test('an update that lists an environment outside the scope is refused as a whole', async () => {
  const place = await newPlace()
  await create(place, { A: '1' }, [place.dev, place.production])
  const { token } = await createToken(service, owner.session, { scope: { environments: [place.dev] } })
  const before = await stateOf(place)
  const rows = [place.dev, place.production].map((environmentId) => ({ environmentId, value: '2' }))
  expect((await send('PUT', `${place.secret}/A`, { token, body: { name: 'A', values: rows } })).status).toBe(404)
  const body = { environments: [place.dev, place.production], secrets: [{ key: 'B', value: '' }] }
  expect((await send('POST', place.secret, { token, body })).status).toBe(404)
  expect((await send('PUT', `${place.secret}/A`, { token, body: { name: 'B', values: [] } })).status).toBe(403)
  expect((await send('DELETE', `${place.secret}/A`, { token })).status).toBe(403)
  expect((await send('DELETE', `${place.secret}/A?environmentId=${place.production}`, { token })).status).toBe(404)
  expect(await stateOf(place)).toBe(before)
})

test('a value is written only if ifVersion is its current version', async () => {
  const place = await newPlace()
  await create(place, { A: '1' })
  const path = `${place.secret}/A/value`
  const put = (value: string, ifVersion?: number, environmentId = place.dev) =>
    send<{ version: number; message: string }>('PUT', path, { body: { environmentId, value, ifVersion } })
  expect((await put('2', 1)).body).toEqual({ success: true, version: 2 })
  expect(await put('3', 1)).toMatchObject({ status: 412, body: { message: expect.stringContaining('version 2') } })
  expect((await put('2', 2)).body.version).toBe(2)
  expect((await put('3')).body.version).toBe(3)
  expect((await put('new', 1, place.staging)).status).toBe(412)
  expect((await put('new', 0, place.staging)).body.version).toBe(1)
  expect((await put('new', 0, place.staging)).status).toBe(412)
  expect(
    (await send('PUT', `${place.secret}/NONE/value`, { body: { environmentId: place.dev, value: '' } })).status,
  ).toBe(404)
})

test('a reminder is created, replaced, returned only with its row, and deleted', async () => {
  const place = await newPlace()
  await create(place, { A: '1' }, [place.dev, place.staging])
  const path = `${place.secret}/A/reminder`
  const once = { environmentId: 'development', type: 'one_time', nextReminderDate: '2030-01-01T02:00:00+02:00' }
  const first = await send<Reminder>('PUT', path, { body: once })
  expect(first.body).toMatchObject({ success: true, type: 'one_time', nextReminderDate: '2030-01-01T00:00:00.000Z' })
  const again = { ...once, type: 'recurring', everyDays: 90 }
  const second = await send<Reminder>('PUT', path, { body: again })
  expect(second.body).toMatchObject({ id: first.body.id, type: 'recurring' })
  const { values } = await read(place, 'A')
  const { id, type, nextReminderDate } = second.body
  expect(values.map(({ reminder }) => reminder)).toEqual([{ id, type, nextReminderDate }, undefined])
  const listed = await send<Secret[]>('GET', place.secret)
  expect(listed.body[0]?.values[0]?.reminder).toEqual({ id, type, nextReminderDate })
  expect((await send('DELETE', `${path}?environmentId=${place.dev}`)).body).toEqual({ success: true })
  expect((await send('DELETE', `${path}?environmentId=${place.dev}`)).status).toBe(404)
  expect((await read(place, 'A')).values[0]).not.toHaveProperty('reminder')
})
