/** ETags and cached responses: no read is stale, and unchanged responses are not sent again. */
import type { Secret, WriteResults } from '@coffer/contract/secret'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { anyCharacter } from '../../../../../test/any-character.ts'
import {
  addUser,
  createProject,
  createToken,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../../test/harness.ts'
import { times } from '../../../../../test/tier.ts'
import { storeOver } from '../../../store/store.ts'

let service: TestService
let owner: TestUser
let workspaceId: string

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
  const workspace = await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: owner.session })
  workspaceId = workspace.body.id
})
afterAll(() => service.stop())

type Place = {
  id: string
  slug: string
  path: string
  secret: string
  dev: string
  staging: string
  production: string
}
let places = 0

/** A project of its own for each test. */
async function newPlace(): Promise<Place> {
  const slug = `place-${++places}`
  const { id, environments } = await createProject(service, owner.session, slug)
  const [dev = '', staging = '', production = ''] = environments.map((environment) => environment.id)
  const path = `/v1/workspace/main/project/${slug}`
  return { id, slug, path, secret: `${path}/secret`, dev, staging, production }
}

type Sent = { token?: string; body?: unknown; headers?: Record<string, string> }
const send = <Body = { message: string }>(
  method: string,
  path: string,
  { token = owner.session, ...more }: Sent = {},
) => service.call<Body>(method, path, { token, ...more })

async function create(place: Place, values: Record<string, string>, environments = [place.dev]): Promise<void> {
  const secrets = Object.entries(values).map(([key, value]) => ({ key, value }))
  const body = { environments, secrets, mode: 'upsert' }
  const answer = await send<WriteResults>('POST', place.secret, { body })
  expect(answer.status, answer.text).toBe(201)
}
const ref = (name: string) => `\${${name}}`

/** One resolved value of the development environment, followed by its unresolved references. */
async function resolved(place: Place, key: string, query = '', token = owner.session) {
  const path = `${place.secret}/${key}?environmentId=${place.dev}&resolve=true${query}`
  const { body } = await send<Secret>('GET', path, { token })
  const row = body.values.find(({ isPersonal }) => !isPersonal)
  return [row?.value, ...(row?.unresolved ?? [])]
}

test('a response that the caller already has is not sent again', async () => {
  const place = await newPlace()
  await create(place, { A: '1' })
  for (const path of [place.secret, `${place.secret}/A`, `${place.secret}?resolve=true`, `${place.secret}?view=keys`]) {
    const etag = (await send('GET', path)).headers.get('etag') ?? ''
    expect(etag).toMatch(/^"[^"]+"$/)
    for (const header of [etag, `W/${etag}`, `"other", ${etag}`, '*']) {
      const again = await send('GET', path, { headers: { 'if-none-match': header } })
      expect(again).toMatchObject({ status: 304, text: '' })
      expect(again.headers.get('etag')).toBe(etag)
    }
    expect((await send('GET', path, { headers: { 'if-none-match': '"other"' } })).status).toBe(200)
  }
})

test('every change of a response changes its ETag', async () => {
  const place = await newPlace()
  const other = await newPlace()
  await create(other, { X: '1' })
  await create(place, { A: '1', B: ref(`${other.slug}.development.X`), C: ref('staging.NONE') })
  await send('PUT', `${place.path}/environment/${place.dev}`, { body: { hasPersonalOverrides: true } })
  const put = (path: string, body: unknown) => send('PUT', `${place.secret}/${path}`, { body })
  const environmentId = place.dev
  const changes: [what: string, () => Promise<{ status: number }>][] = [
    ['a value', () => put('A/value', { environmentId, value: '2' })],
    ['a personal value', () => put('A/value', { environmentId, value: 'mine', isPersonal: true })],
    ['a personal value gone', () => send('DELETE', `${place.secret}/A?personal=true&environmentId=development`)],
    [
      'a referenced value of another project',
      () => send('PUT', `${other.secret}/X/value`, { body: { environmentId: other.dev, value: '2' } }),
    ],
    [
      'a referenced value that was missing',
      () =>
        send('POST', place.secret, {
          body: { environments: ['staging'], secrets: [{ key: 'NONE', value: 'found' }] },
        }),
    ],
    ['a referenced name', () => send('PUT', `${other.secret}/X`, { body: { name: 'Y', values: [] } })],
    ['a referenced name that returns', () => send('PUT', `${other.secret}/Y`, { body: { name: 'X', values: [] } })],
    ['a referenced project', () => send('PUT', other.path, { body: { slug: `${other.slug}-moved` } })],
    ['a note', () => put('A', { name: 'A', note: 'n', values: [] })],
    [
      'a reminder',
      () => put('A/reminder', { environmentId, type: 'one_time', nextReminderDate: '2030-01-01T00:00:00Z' }),
    ],
    ['a name', () => put('A', { name: 'RENAMED', values: [] })],
    ['a deletion', () => send('DELETE', `${place.secret}/RENAMED`)],
    ['a restoration', () => send('POST', `${place.secret}/RENAMED/restore`)],
    ['a value gone', () => send('DELETE', `${place.secret}/RENAMED?environmentId=${environmentId}`)],
  ]
  const path = `${place.secret}?environmentId=${place.dev}&resolve=true`
  let etag = (await send('GET', path)).headers.get('etag') ?? ''
  for (const [what, change] of changes) {
    const done = await change()
    expect([200, 201], what).toContain(done.status)
    const answer = await send('GET', path, { headers: { 'if-none-match': etag } })
    expect(answer.status, what).toBe(200)
    expect(answer.headers.get('etag'), what).not.toBe(etag)
    etag = answer.headers.get('etag') ?? ''
  }
})

test('a narrower scope applies to the next response, whatever ETag is sent', async () => {
  const place = await newPlace()
  await create(place, { A: '1', B: ref('staging.A') }, [place.dev])
  await create(place, { A: 's' }, [place.staging])
  const wide = { all: false, teams: [], projects: [place.id], environments: [] }
  const person = await addUser(service, 'narrowed@example.com', { workspaceId, role: 'developer', scope: wide })
  const paths = [place.secret, `${place.secret}/B?resolve=true&environmentId=${place.dev}`]
  const read = (path: string, etag = '"none"') =>
    send<Secret[]>('GET', path, { token: person.session, headers: { 'if-none-match': etag } })
  const before = await Promise.all(paths.map((path) => read(path)))
  const { services } = service.app
  await services.engine.transaction('test:narrow', async ({ db }) => {
    const store = storeOver(db, services.keys)
    const { members } = await store.members.list(workspaceId)
    const member = members.find(({ id }) => id === person.memberId)
    const scope = { ...wide, projects: [], environments: [place.dev] }
    if (member)
      await store.members.update({ ...member, grants: [{ role: member.grants[0].role, scope }] }, services.now())
    store.changes.append('workspace', workspaceId, services.now())
  })
  services.snapshots.drop(workspaceId)
  for (const [index, path] of paths.entries()) {
    const after = await read(path, before[index]?.headers.get('etag') ?? '')
    expect(after.status).toBe(200)
    expect(after.text).not.toContain('"s"')
  }
})

test('a response built while a referenced value changes is served once at most', async () => {
  const place = await newPlace()
  await create(place, { HOST: 'old' }, [place.staging])
  await create(place, { URL: ref('staging.HOST') })
  const { secretValues, changes } = service.app.services.store
  const methods = new Map(Object.entries(secretValues))
  // The change feed would invalidate the cache a second time and hide the race.
  const listAfter = changes.listAfter
  changes.listAfter = async () => []
  let isChanged = false
  for (const [name, method] of methods) {
    const slow = async (...asked: unknown[]) => {
      const found = await Reflect.apply(method, secretValues, asked)
      // The value has been read, and no response has been sent yet.
      if (!isChanged && JSON.stringify(found ?? null).includes(place.staging)) {
        isChanged = true
        await create(place, { HOST: 'new' }, [place.staging])
      }
      return found
    }
    Object.assign(secretValues, { [name]: slow })
  }
  await resolved(place, 'URL')
  Object.assign(secretValues, Object.fromEntries(methods))
  expect(isChanged).toBe(true)
  expect(await resolved(place, 'URL')).toEqual(['new'])
  changes.listAfter = listAfter
})

test('no read after a committed write is ever stale, by any caller and through references', async () => {
  const place = await newPlace()
  const { token } = await createToken(service, owner.session, { scope: { projects: [place.id] } })
  const keys = ['A', 'B', 'C']
  const environments = ['development', 'staging']
  const model = new Map<string, string>()
  for (const environment of environments) {
    await create(place, { LINK: environments.map((name) => ref(`${name}.A`)).join('|') }, [environment])
  }
  const etags = new Map<string, { etag: string; text: string }>()
  const action = fc.record({
    kind: fc.constantFrom('write', 'write', 'remove', 'read', 'read', 'together'),
    key: fc.constantFrom(...keys),
    environment: fc.constantFrom(...environments),
    value: fc.string({ unit: anyCharacter, maxLength: 12 }).filter((text) => !text.includes('$')),
    isToken: fc.boolean(),
  })
  async function check(environment: string, credential: string): Promise<void> {
    const path = `${place.secret}?environmentId=${environment}&resolve=true`
    const known = etags.get(credential + path)
    const headers = { 'if-none-match': known?.etag ?? '"none"' }
    const answer = await send('GET', path, { token: credential, headers })
    const text = answer.status === 304 ? (known?.text ?? '') : answer.text
    etags.set(credential + path, { etag: answer.headers.get('etag') ?? '', text })
    const secrets: Secret[] = JSON.parse(text)
    const actual = Object.fromEntries(secrets.flatMap(({ name, values }) => values.map(({ value }) => [name, value])))
    const link = environments.map((name) => model.get(`${name}.A`) ?? ref(`${name}.A`)).join('|')
    const expected = keys.flatMap((key) => {
      const value = model.get(`${environment}.${key}`)
      return value === undefined ? [] : [[key, value]]
    })
    expect(actual).toEqual({ LINK: link, ...Object.fromEntries(expected) })
  }
  async function write(environment: string, key: string, value: string): Promise<void> {
    await create(place, { [key]: value }, [environment])
    model.set(`${environment}.${key}`, value)
  }
  await fc.assert(
    fc.asyncProperty(fc.array(action, { minLength: 5, maxLength: 25 }), async (actions) => {
      for (const { kind, key, environment, value, isToken } of actions) {
        const credential = isToken ? token : owner.session
        if (kind === 'read') await check(environment, credential)
        if (kind === 'write') await write(environment, key, value)
        if (kind === 'remove' && model.delete(`${environment}.${key}`)) {
          await send('DELETE', `${place.secret}/${key}?environmentId=${environment}`)
        }
        if (kind === 'together') {
          const reads = Array.from({ length: 4 }, () =>
            send('GET', `${place.secret}?resolve=true&environmentId=staging`),
          )
          await Promise.all([write(environment, key, value), ...reads])
        }
      }
      for (const environment of environments) for (const one of [owner.session, token]) await check(environment, one)
    }),
    { numRuns: times(10, 80) },
  )
})

test('a URL is parsed once; permission and content are checked on every request', async () => {
  const place = await newPlace()
  await create(place, { KEY: 'first' })
  const url = `${place.secret}/KEY?environmentId=${place.dev}`
  const { id, token } = await createToken(service, owner.session)
  const stranger = await addUser(service, 'stranger-to-urls@example.com')
  const statuses = async () => {
    const asked = [owner.session, token, stranger.session, 'nobody'].map((one) => send('GET', url, { token: one }))
    return (await Promise.all(asked)).map(({ status }) => status)
  }
  for (let again = 0; again < 3; again++) {
    expect(await statuses()).toEqual([200, 200, 404, 401])
    const refused = await send('GET', `${url}&resolve=perhaps`)
    expect(refused.body.message).toMatch(/^resolve: /)
    expect(refused.status).toBe(400)
  }
  await create(place, { KEY: 'second' })
  expect((await send<Secret>('GET', url)).body.values[0]?.value).toBe('second')
  await send('DELETE', `/v1/workspace/main/tokens/${id}`)
  expect(await statuses()).toEqual([200, 401, 404, 401])
  await send('DELETE', place.path)
  expect(await statuses()).toEqual([404, 401, 404, 401])
})
