/** Deletion, trash, restoration and purge. */
import type { Environment } from '@coffer/contract/environment'
import type { SecretVersion } from '@coffer/contract/history'
import type { TeamGroup } from '@coffer/contract/project'
import type { Secret, TrashedSecret, WriteResults } from '@coffer/contract/secret'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  addUser,
  createProject,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../../test/harness.ts'
import { openRaw } from '../../../../../test/raw-database.ts'

let service: TestService
let owner: TestUser
let developer: TestUser

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
  const workspace = await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: owner.session })
  developer = await addUser(service, 'developer@example.com', { workspaceId: workspace.body.id, role: 'developer' })
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
const read = async (place: Place, key: string) => (await send<Secret>('GET', `${place.secret}/${key}`)).body
const versionsOf = async (place: Place, key: string, environment = place.dev) =>
  (await send<SecretVersion[]>('GET', `${place.secret}/${key}/version?limit=200&environmentId=${environment}`)).body

test('the value of one environment is removed, and its versions continue when it is written again', async () => {
  const place = await newPlace()
  await create(place, { A: '1' }, [place.dev, place.staging])
  expect((await send('DELETE', `${place.secret}/A?environmentId=development`)).body).toEqual({ success: true })
  expect((await read(place, 'A')).values).toMatchObject([{ environmentId: place.staging }])
  expect((await send('GET', `${place.secret}/A?environmentId=${place.dev}`)).status).toBe(404)
  expect((await send('DELETE', `${place.secret}/A?environmentId=${place.dev}`)).status).toBe(404)
  expect((await create(place, { A: '2' })).results).toMatchObject([{ status: 'created', version: 3 }])
  expect((await versionsOf(place, 'A')).map(({ deleted }) => deleted)).toEqual([false, true, false])
})

test('a deleted secret stays in the trash for 30 days and is restored with its values', async () => {
  const place = await newPlace()
  await create(place, { A: 'dev', KEPT: '1' })
  await send('POST', place.secret, { body: { environments: ['staging'], secrets: [{ key: 'A', value: 'st' }] } })
  await create(place, { A: 'gone before' }, [place.production])
  await send('DELETE', `${place.secret}/A?environmentId=production`)
  const { id } = await read(place, 'A')
  expect((await send('DELETE', `${place.secret}/A`)).body).toEqual({ success: true })
  expect((await send('GET', `${place.secret}/A`)).status).toBe(404)
  expect((await send('GET', `${place.secret}/${id}`)).status).toBe(404)
  expect((await send('DELETE', `${place.secret}/A`)).status).toBe(404)
  expect(await valuesIn(place, place.dev)).toEqual({ KEPT: '1' })
  const { body: trash } = await send<TrashedSecret[]>('GET', `${place.secret}/trash`)
  expect(trash).toMatchObject([{ id, name: 'A' }])
  const [trashed] = trash
  expect(Date.parse(trashed?.purgeAt ?? '') - Date.parse(trashed?.deletedAt ?? '')).toBe(30 * 86_400_000)
  expect((await send('POST', `${place.secret}/${id}/restore`)).body).toEqual({ success: true })
  const restored = await read(place, 'A')
  expect(restored.id).toBe(id)
  expect(restored.values.map(({ value, version }) => `${value} ${version}`)).toEqual(['dev 3', 'st 3'])
  expect((await send('GET', `${place.secret}/trash`)).body).toEqual([])
  expect((await send('POST', `${place.secret}/${id}/restore`)).status).toBe(404)
})

test('a secret whose name was taken meanwhile stays in the trash', async () => {
  const place = await newPlace()
  await create(place, { A: '1' })
  const { id } = await read(place, 'A')
  await send('DELETE', `${place.secret}/A`)
  await create(place, { A: 'other' })
  expect(await expectRefused(place, ['POST', `${place.secret}/${id}/restore`], 409)).toContain('A')
  await send('PUT', `${place.secret}/A`, { body: { name: 'MOVED', values: [] } })
  expect((await send('POST', `${place.secret}/A/restore`)).status).toBe(200)
  expect(await valuesIn(place, place.dev)).toEqual({ A: '1', MOVED: 'other' })
})

test('a purge destroys every version, in the trash or not, and needs an admin', async () => {
  const place = await newPlace()
  await create(place, { LIVE: '1', TRASHED: '1' }, [place.dev, place.staging])
  await send('PUT', `${place.secret}/LIVE/value`, { body: { environmentId: place.dev, value: '2' } })
  await send('DELETE', `${place.secret}/TRASHED`)
  const ids = [(await read(place, 'LIVE')).id]
  const { body: trash } = await send<TrashedSecret[]>('GET', `${place.secret}/trash`)
  ids.push(trash[0]?.id ?? '')
  for (const id of ids) {
    const path = `${place.secret}/${id}?purge=true`
    expect((await send('DELETE', path, { token: developer.session })).status).toBe(403)
    expect((await send('DELETE', path)).body).toEqual({ success: true })
    expect((await send('DELETE', path)).status).toBe(404)
    expect((await send('GET', `${place.secret}/${id}/version?environmentId=${place.dev}`)).status).toBe(404)
    expect((await send('POST', `${place.secret}/${id}/restore`)).status).toBe(404)
  }
  const raw = await openRaw(service)
  for (const table of ['secret_value', 'secret_version']) {
    expect(await raw.query(`select secret_id from ${table} where secret_id in (?, ?)`, ids), table).toEqual([])
  }
  await raw.close()
})

test('counts follow every write, deletion, restoration and purge', async () => {
  const place = await newPlace()
  const counts = async () => {
    const { body } = await send<Environment[]>('GET', `${place.path}/environment`)
    const { body: groups } = await send<TeamGroup[]>('GET', '/v1/workspace/main/project')
    const project = groups.flatMap(({ projects }) => projects).find(({ slug }) => slug === place.slug)
    return [project?.secrets, ...body.map(({ totalSecrets }) => totalSecrets)]
  }
  expect(await counts()).toEqual([0, 0, 0, 0])
  await create(place, { A: '1', B: '1' }, [place.dev, place.staging])
  await create(place, { C: '1' }, [place.production])
  expect(await counts()).toEqual([3, 2, 2, 1])
  await send('DELETE', `${place.secret}/A?environmentId=${place.dev}`)
  expect(await counts()).toEqual([3, 1, 2, 1])
  await send('DELETE', `${place.secret}/B`)
  expect(await counts()).toEqual([2, 0, 1, 1])
  await send('POST', `${place.secret}/B/restore`)
  expect(await counts()).toEqual([3, 1, 2, 1])
  const operations = [
    { op: 'delete', key: 'B' },
    { op: 'set', key: 'D', value: '' },
    { op: 'set', key: 'A', value: '' },
  ]
  await send('POST', `${place.secret}/batch`, { body: { environmentId: place.dev, operations } })
  expect(await counts()).toEqual([4, 2, 2, 1])
  await send('DELETE', `${place.secret}/C?purge=true`)
  await send('DELETE', `${place.secret}/B`)
  await send('DELETE', `${place.secret}/B?purge=true`)
  expect(await counts()).toEqual([2, 2, 1, 0])
})
