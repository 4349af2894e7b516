/** A personal value is read by its owner alone, and written only where the environment allows it. */
import type { AuditEntry } from '@coffer/contract/audit'
import type { SignedIn } from '@coffer/contract/auth'
import type { Secret } from '@coffer/contract/secret'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createToken, exchange, password, type TestService, type TestUser } from '../../../../../test/harness.ts'
import { createPersonalPlaces, type Place } from '../../../../../test/personal-place.ts'
import type { RawDatabase } from '../../../../../test/raw-database.ts'

const { start, stop, newPlace, allow, send, create, setOwn } = createPersonalPlaces()
let service: TestService
let raw: RawDatabase
let owner: TestUser
let developer: TestUser
let member: TestUser

beforeAll(async () => {
  ;({ service, raw, owner, developer, member } = await start())
})
afterAll(stop)

/** The rows of one secret in the development environment, as the credential sees them. */
async function rowsFor(place: Place, token: string, key = 'A', query = ''): Promise<string[]> {
  const { body } = await send<Secret[]>('GET', `${place.secret}?environmentId=${place.dev}${query}`, { token })
  const rows = body.find(({ name }) => name === key)?.values ?? []
  return rows.map(({ value, isPersonal }) => `${isPersonal ? 'own' : 'shared'} ${value}`)
}

const ref = (name: string) => `\${${name}}`
const cliToken = async (place: Place, user: TestUser) => {
  const body = { environmentId: place.dev }
  return (await send<{ token: string }>('POST', '/v1/workspace/main/tokens/cli', { token: user.session, body })).body
    .token
}

test('each person sees the shared value and their own, and nobody else’s', async () => {
  const place = await newPlace()
  await create(place, { A: 's' })
  for (const user of [owner, developer]) expect((await setOwn(place, user, `of ${user.email}`)).body.version).toBe(1)
  expect(await rowsFor(place, owner.session)).toEqual(['shared s', `own of ${owner.email}`])
  expect(await rowsFor(place, developer.session)).toEqual(['shared s', `own of ${developer.email}`])
  expect(await rowsFor(place, member.session)).toEqual(['shared s'])
  const one = await send<Secret>('GET', `${place.secret}/A`, { token: developer.session })
  expect(one.body.values.map(({ isPersonal }) => isPersonal)).toEqual([false, true])
})

test('sessions and command-line tokens see personal values, machine tokens never do', async () => {
  const place = await newPlace()
  await create(place, { A: 's' })
  await setOwn(place, owner, 'mine')
  const { body: login } = await service.call<SignedIn>('POST', '/v1/auth/login', {
    body: { email: owner.email, password },
  })
  const both = ['shared s', 'own mine']
  const ofCommandLine = await cliToken(place, owner)
  const fromIt = await exchange(service, ofCommandLine)
  for (const token of [login.accessToken, ofCommandLine, fromIt, ofCommandLine]) {
    expect(await rowsFor(place, token)).toEqual(both)
  }
  const ofAnother = await cliToken(place, developer)
  for (const token of [ofAnother, await exchange(service, ofAnother)]) {
    expect(await rowsFor(place, token)).toEqual(['shared s'])
  }
  for (const token of [ofCommandLine, fromIt]) {
    const scoped = await send<Secret[]>('GET', '/v1/secrets', { token })
    expect(scoped.body[0]?.values.map(({ value }) => value)).toEqual(['s', 'mine'])
  }
  const { token } = await createToken(service, owner.session, { scope: { environments: [place.dev] } })
  for (const machine of [token, await exchange(service, token)]) {
    expect(await rowsFor(place, machine)).toEqual(['shared s'])
    const scoped = await send<Secret[]>('GET', '/v1/secrets', { token: machine })
    expect(scoped.text).not.toContain('mine')
    const path = `${place.secret}/A`
    const write = { environmentId: place.dev, value: 'x', isPersonal: true }
    expect((await send('PUT', `${path}/value`, { token: machine, body: write })).status).toBe(403)
    expect((await send('PUT', path, { token: machine, body: { name: 'A', values: [write] } })).status).toBe(403)
    const removal = `${path}?personal=true&environmentId=${place.dev}`
    expect((await send('DELETE', removal, { token: machine })).status).toBe(403)
  }
  expect(await rowsFor(place, owner.session)).toEqual(both)
})

test('personal values are written only if the environment allows them, and hidden while it does not', async () => {
  const place = await newPlace()
  await create(place, { A: 's' }, [place.dev, place.production])
  const refused = await setOwn(place, owner, 'mine', 'A', place.production)
  expect(refused).toMatchObject({ status: 400, body: { message: expect.stringContaining('production') } })
  await setOwn(place, owner, 'mine')
  const etagOf = async () => (await send('GET', place.secret)).headers.get('etag')
  const shown = await etagOf()
  await allow(place, place.dev, false)
  expect(await etagOf()).not.toBe(shown)
  expect(await rowsFor(place, owner.session)).toEqual(['shared s'])
  expect(await rowsFor(place, await cliToken(place, owner))).toEqual(['shared s'])
  expect((await setOwn(place, owner, 'again')).status).toBe(400)
  await allow(place, place.dev, true)
  expect(await rowsFor(place, owner.session)).toEqual(['shared s', 'own mine'])
  expect(await etagOf()).toBe(shown)
})

test('a personal value may be removed while it is hidden', async () => {
  const place = await newPlace()
  await create(place, { A: 's' })
  await setOwn(place, owner, 'mine')
  await allow(place, place.dev, false)
  const remove = () => send('DELETE', `${place.secret}/A?environmentId=${place.dev}&personal=true`)
  expect((await remove()).body).toEqual({ success: true })
  const absent = { status: 404, body: { message: 'A has no personal value in development.' } }
  expect(await remove()).toMatchObject(absent)
  await allow(place, place.dev, true)
  expect(await remove()).toMatchObject(absent)
  expect(await rowsFor(place, owner.session)).toEqual(['shared s'])
})

test('removing a personal value removes only that of the caller', async () => {
  const place = await newPlace()
  await create(place, { A: 's' }, [place.dev, place.staging])
  for (const user of [owner, developer, member]) await setOwn(place, user, user.email)
  await setOwn(place, member, 'staging', 'A', place.staging)
  const remove = (query: string, user = member) =>
    send('DELETE', `${place.secret}/A?personal=true${query}`, { token: user.session })
  expect((await remove(`&environmentId=${place.dev}`)).body).toEqual({ success: true })
  expect((await remove(`&environmentId=${place.dev}`)).status).toBe(404)
  expect(await remove('')).toMatchObject({ status: 400, body: { message: expect.stringMatching(/^environmentId: /) } })
  expect(await rowsFor(place, member.session)).toEqual(['shared s'])
  expect(await rowsFor(place, developer.session)).toEqual(['shared s', `own ${developer.email}`])
  expect(await rowsFor(place, owner.session)).toEqual(['shared s', `own ${owner.email}`])
  const { body } = await send<Secret>('GET', `${place.secret}/A`, { token: member.session })
  expect(body.values.map(({ value }) => value)).toEqual(['s', 's', 'staging'])
})

test('a member writes personal values and no shared ones', async () => {
  const place = await newPlace()
  await create(place, { A: 's' }, [place.dev, place.staging])
  const before = await raw.query('select * from secret_value order by secret_id, environment_id, owner_id')
  const token = member.session
  const shared = { environmentId: place.dev, value: 'x' }
  const own = { ...shared, isPersonal: true }
  const path = `${place.secret}/A`
  const forbidden: [method: string, path: string, body?: unknown][] = [
    ['PUT', `${path}/value`, shared],
    ['PUT', path, { name: 'A', values: [shared] }],
    ['PUT', path, { name: 'A', values: [own, shared] }],
    ['PUT', path, { name: 'B', values: [own] }],
    ['PUT', path, { name: 'A', note: 'n', values: [own] }],
    ['PUT', path, { name: 'A', values: [] }],
    ['POST', place.secret, { environments: [place.dev], secrets: [{ key: 'N', value: '' }] }],
    ['POST', `${place.secret}/batch`, { environmentId: place.dev, operations: [{ op: 'delete', key: 'A' }] }],
    ['DELETE', path],
    ['DELETE', `${path}?environmentId=${place.dev}`],
    ['DELETE', `${path}?purge=true`],
    ['DELETE', `${path}?purge=true&personal=true&environmentId=${place.dev}`],
    [
      'PUT',
      `${path}/reminder`,
      { environmentId: place.dev, type: 'one_time', nextReminderDate: '2030-01-01T00:00:00Z' },
    ],
  ]
  for (const [method, where, body] of forbidden) {
    const answer = await send(method, where, { token, body })
    expect(answer.status, `${method} ${where} ${JSON.stringify(body)}`).toBe(403)
  }
  expect(await raw.query('select * from secret_value order by secret_id, environment_id, owner_id')).toEqual(before)
  expect((await send('PUT', path, { token, body: { name: 'A', values: [own] } })).status).toBe(200)
  expect(await rowsFor(place, token)).toEqual(['shared s', 'own x'])
  const readBack = await send<Secret>('GET', path, { token })
  const ownRow = readBack.body.values.filter(({ isPersonal }) => isPersonal)
  expect((await send('PUT', path, { token, body: { name: 'A', values: ownRow } })).status).toBe(200)
  const changed = readBack.body.values.map((row) => (row.isPersonal ? { ...row, value: 'y' } : row))
  expect((await send('PUT', path, { token, body: { name: 'A', values: changed } })).status).toBe(200)
  expect(await rowsFor(place, token)).toEqual(['shared s', 'own y'])
  const shares = await raw.query(`select * from secret_value where owner_id = '' order by secret_id, environment_id`)
  expect(shares).toEqual(before.filter(({ owner_id }) => owner_id === ''))
})

test('a personal value has versions of its own', async () => {
  const place = await newPlace()
  await create(place, { A: 's' })
  const put = (ifVersion: number, value: string) =>
    send<{ version: number }>('PUT', `${place.secret}/A/value`, {
      token: member.session,
      body: { environmentId: place.dev, value, isPersonal: true, ifVersion },
    })
  expect((await put(0, '1')).body.version).toBe(1)
  expect((await put(0, '2')).status).toBe(412)
  expect((await put(1, '2')).body.version).toBe(2)
  expect((await put(2, '2')).body.version).toBe(2)
  const { body } = await send<Secret>('GET', `${place.secret}/A`)
  expect(body.values).toMatchObject([{ value: 's', version: 1 }])
})

test('a reference resolves to the personal value first, and only for its owner', async () => {
  const place = await newPlace()
  await create(place, { A: 's', LINK: `<${ref('A')}>` })
  await setOwn(place, developer, 'mine')
  const { token } = await createToken(service, developer.session, { scope: { environments: [place.dev] } })
  expect(await rowsFor(place, developer.session, 'LINK', '&resolve=true')).toEqual(['shared <mine>'])
  expect(await rowsFor(place, owner.session, 'LINK', '&resolve=true')).toEqual(['shared <s>'])
  expect(await rowsFor(place, token, 'LINK', '&resolve=true')).toEqual(['shared <s>'])
  await allow(place, place.dev, false)
  expect(await rowsFor(place, developer.session, 'LINK', '&resolve=true')).toEqual(['shared <s>'])
})

test('a cycle of shared values is refused even if a personal value of the writer hides it', async () => {
  const place = await newPlace()
  await create(place, { A: 'plain', B: ref('A') })
  await setOwn(place, owner, 'mine', 'B')
  const body = { environmentId: place.dev, value: ref('B') }
  expect((await send('PUT', `${place.secret}/A/value`, { body })).status).toBe(409)
})

test('a cycle through a personal value is refused', async () => {
  const place = await newPlace()
  await create(place, { A: 'plain', B: ref('A') })
  expect((await setOwn(place, owner, ref('B'))).status).toBe(409)
  expect((await setOwn(place, owner, ref('C'))).status).toBe(200)
})

test('personal values survive the removal and the trash of the shared one, and are deleted by a purge', async () => {
  const place = await newPlace()
  await create(place, { A: 's', LAST: 's' })
  for (const key of ['A', 'LAST']) await setOwn(place, member, 'mine', key)
  await send('DELETE', `${place.secret}/A`)
  expect(await rowsFor(place, member.session)).toEqual([])
  await send('POST', `${place.secret}/A/restore`)
  expect(await rowsFor(place, member.session)).toEqual(['shared s', 'own mine'])
  await send('DELETE', `${place.secret}/A?environmentId=${place.dev}`)
  expect(await rowsFor(place, member.session)).toEqual(['own mine'])
  expect((await send('GET', `${place.secret}/A`)).status).toBe(404)
  const { body } = await send<Secret>('GET', `${place.secret}/A`, { token: member.session })
  await send('DELETE', `${place.secret}/A?purge=true`)
  expect(await raw.query('select owner_id from secret_value where secret_id = ?', [body.id])).toEqual([])
})

test('the audit trail records reads and writes of personal values, without the values', async () => {
  const place = await newPlace()
  await create(place, { A: 's' })
  await setOwn(place, member, 'canary-own')
  await rowsFor(place, member.session)
  const { body, text } = await send<AuditEntry[]>('GET', `/v1/workspace/main/audit?actor=${member.id}&limit=2`)
  expect(body).toMatchObject([
    { action: 'VIEW', after: { keys: ['A'] } },
    { action: 'CREATE', after: { changes: [{ key: 'A', personal: true, version: 1 }] } },
  ])
  expect(text).not.toContain('canary-own')
})
