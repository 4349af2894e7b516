/** Calls of the API against the real service. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { json, type SdkService, startScripted, startSdkService } from '../../test/sdk-service.ts'
import { type Api, coffer, listAll } from './coffer.ts'

let running: SdkService
let api: Api
beforeAll(async () => {
  running = await startSdkService()
  api = coffer.api({ credential: running.session, platform: { env: running.env } })
})
afterAll(() => running.stop())

const project = { ws: 'main', prj: 'api' }

test('arguments become the path, the query and the body', async () => {
  const team = (await api.team.list({ ws: 'main' }))[0]
  const created = await api.project.create({ ws: 'main' }, { name: 'Web', slug: 'web', teamId: team?.id ?? '' })
  const path = { ws: 'main', prj: created.slug }
  await api.secret.create(path, {
    environments: ['development', 'staging'],
    secrets: [
      { key: 'A', value: '1' },
      { key: 'B-1', value: 'ä\n' },
    ],
  })
  const listed = await api.secret.list(path, { environmentId: ['development', 'staging'], q: 'B' })
  expect(listed.map(({ name, values }) => [name, values.length])).toEqual([['B-1', 2]])
  expect(await api.secret.diff(path, { from: 'development', to: 'staging' })).toMatchObject({ same: ['A', 'B-1'] })
  expect(await api.secret.delete({ ...path, key: 'A' }, { environmentId: 'staging' })).toEqual({ success: true })
  await api.secret.putReminder(
    { ...path, key: 'A' },
    { environmentId: 'development', type: 'one_time', nextReminderDate: '2030-01-01T00:00:00Z' },
  )
  expect(await api.secret.deleteReminder({ ...path, key: 'A' }, { environmentId: 'development' })).toEqual({
    success: true,
  })
  expect(await api.secret.export(path, { environmentId: 'development', format: 'json' })).toEqual({
    A: '1',
    'B-1': 'ä\n',
  })
  expect(await api.secret.export(path, { environmentId: 'staging', format: 'csv' })).toContain('B-1')
})

test('a change with the ETag of a read is refused with 412 once the secret has changed', async () => {
  await running.write({ GUARDED: '1' })
  const path = { ...project, key: 'GUARDED' }
  let etag = ''
  await api.secret.read(path, {}, { onResponse: (details) => (etag = details.etag ?? '') })
  const body = { environmentId: 'development', value: '2' }
  expect(await api.secret.writeValue(path, body, { ifMatch: etag })).toMatchObject({ success: true, version: 2 })
  await expect(api.secret.writeValue(path, body, { ifMatch: etag })).rejects.toMatchObject({ status: 412 })
})

test('a list with pages is read to its end', async () => {
  for (let version = 1; version <= 5; version++) await running.write({ PAGED: String(version) })
  const versions: number[] = []
  const path = { ...project, key: 'PAGED' }
  for await (const { version } of listAll(api.secret.listVersions, path, { environmentId: 'development', limit: 2 })) {
    versions.push(version)
  }
  expect(versions).toEqual([5, 4, 3, 2, 1])
  const all = await Array.fromAsync(listAll(api.audit.list, { ws: 'main' }, { limit: 3 }))
  expect(all.length).toBeGreaterThan(3)
  const streamed = await api.audit.list({ ws: 'main' }, { format: 'ndjson' })
  expect(streamed.map(({ id }) => id).slice(0, 3)).toEqual(
    all
      .map(({ id }) => id)
      .toReversed()
      .slice(0, 3),
  )
})

test('a list whose cursor stays the same is an error instead of an endless loop', async () => {
  const { url, requests } = await startScripted(json(200, [{}], { 'x-next-cursor': 'same' }))
  const stuck = listAll(coffer.api({ url, credential: 'x', platform: { env: {} } }).audit.list, { ws: 'main' })
  await expect(Array.fromAsync(stuck)).rejects.toMatchObject({ name: 'ResponseError' })
  expect(requests).toHaveLength(2)
})

test('public calls send no credential', async () => {
  const { deviceCode } = await api.auth.createDeviceCode({ clientId: 'test' })
  await expect(api.auth.pollDevice({ clientId: 'test', deviceCode })).rejects.toMatchObject({
    status: 400,
    message: 'authorization_pending',
  })
  const body = { email: 'owner@example.com', password: 'wrong password' }
  await expect(api.auth.login(body)).rejects.toMatchObject({ status: 401 })
})

test.each(['', '.', '..', undefined])('a path with the name %j is refused: it would be another path', async (id) => {
  const before = (await api.me.listSessions()).length
  await expect(api.me.revokeSession({ id: id as string })).rejects.toThrow('id must be a name or an id')
  expect(await api.me.listSessions()).toHaveLength(before)
})

test('a name with slashes stays one part of the path', async () => {
  await expect(api.secret.read({ ...project, key: '../../team' })).rejects.toMatchObject({ status: 404 })
})
