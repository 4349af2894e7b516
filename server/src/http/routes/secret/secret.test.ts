import type { AuditEntry, AuditVerdict } from '@coffer/contract/audit'
import type { Environment } from '@coffer/contract/environment'
import type { TeamGroup } from '@coffer/contract/project'
import type { Secret, WriteResults } from '@coffer/contract/secret'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import {
  addUser,
  createProject,
  createToken,
  exchange,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../../test/harness.ts'
import { times } from '../../../../../test/tier.ts'
import { createStore } from '../../../store/store.ts'

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

async function list(place: Place, query = '', token = owner.session): Promise<Secret[]> {
  const answer = await send<Secret[]>('GET', `${place.secret}${query}`, { token })
  expect(answer.status, answer.text).toBe(200)
  return answer.body
}

const namesOf = (secrets: readonly Secret[]) => secrets.map(({ name }) => name)
const ref = (name: string) => `\${${name}}`

/** One resolved value of the development environment, and what stayed unresolved in it. */
async function resolved(place: Place, key: string, query = '', token = owner.session) {
  const path = `${place.secret}/${key}?environmentId=${place.dev}&resolve=true${query}`
  const { body } = await send<Secret>('GET', path, { token })
  const row = body.values.find(({ isPersonal }) => !isPersonal)
  return [row?.value, ...(row?.unresolved ?? [])]
}

test('the list is sorted by name, and holds the chosen environments in the order of choice', async () => {
  const place = await newPlace()
  await create(place, { b: '1', B: '1', a: '1', _: '1', '-': '1', A9: '1', A10: '1' }, [place.dev, place.staging])
  await create(place, { ONLY: '1' }, [place.production])
  const both = ['-', 'A10', 'A9', 'B', '_', 'a', 'b']
  const all = ['-', 'A10', 'A9', 'B', 'ONLY', '_', 'a', 'b']
  const rowsOf = async (query: string, names = both) => {
    const secrets = await list(place, query)
    expect(namesOf(secrets)).toEqual(names)
    return secrets.find(({ name }) => name === 'B')?.values.map(({ environmentId }) => environmentId)
  }
  const { dev, staging } = place
  expect(await rowsOf('', all)).toEqual([dev, staging])
  expect(await rowsOf(`?environmentId=${dev}`)).toEqual([dev])
  expect(await rowsOf('?environment_id=Staging')).toEqual([staging])
  expect(await rowsOf(`?environmentId=${dev}&environmentId=staging`)).toEqual([dev, staging])
  expect(await rowsOf(`?environmentId=${dev}&environment_id=staging&environmentId=development`)).toEqual([dev, staging])
  expect(await rowsOf('?environmentId=production', ['ONLY'])).toBeUndefined()
})

test('an unknown environment, one of another project and one outside the scope are all not found', async () => {
  const place = await newPlace()
  const other = await newPlace()
  await create(place, { A: '1' }, [place.dev, place.staging])
  const { token } = await createToken(service, owner.session, { scope: { environments: [place.dev] } })
  const asked: [query: string, token: string][] = [
    ['environmentId=nowhere', owner.session],
    [`environmentId=${other.dev}`, owner.session],
    [`environmentId=${place.dev}&environment_id=nowhere`, owner.session],
    [`environmentId=${place.staging}`, token],
    ['environmentId=staging', token],
  ]
  for (const [query, credential] of asked) {
    for (const path of [place.secret, `${place.secret}/A`]) {
      const answer = await send('GET', `${path}?${query}`, { token: credential })
      expect(answer, query).toMatchObject({ status: 404, body: { message: 'Not found.' } })
    }
  }
  expect((await list(place, '', token))[0]?.values).toMatchObject([{ environmentId: place.dev }])
})

test('a search keeps the names that hold the text', async () => {
  const place = await newPlace()
  await create(place, { DB_URL: '1', DB_PASSWORD: '1', API_KEY: '1' })
  expect(namesOf(await list(place, '?q=DB_'))).toEqual(['DB_PASSWORD', 'DB_URL'])
  expect(namesOf(await list(place, '?q=_'))).toHaveLength(3)
  expect(namesOf(await list(place, '?q=%25'))).toEqual([])
  expect(namesOf(await list(place, '?q='))).toHaveLength(3)
})

test('one secret is read by name and by id, and is not found without a row that the caller sees', async () => {
  const place = await newPlace()
  await create(place, { A: '1' })
  const [secret] = await list(place)
  expect((await send('GET', `${place.secret}/A`)).body).toEqual(secret)
  expect((await send('GET', `${place.secret}/${secret?.id}/`)).body).toEqual(secret)
  expect((await send('GET', `${place.secret}/${secret?.id.toUpperCase()}`)).body).toEqual(secret)
  expect((await send('GET', `${place.secret}/a`)).status).toBe(404)
  expect((await send('GET', `${place.secret}/A?environmentId=staging`)).status).toBe(404)
  const { token } = await createToken(service, owner.session, { scope: { environments: [place.staging] } })
  for (const key of ['A', secret?.id]) expect((await send('GET', `${place.secret}/${key}`, { token })).status).toBe(404)
  const other = await newPlace()
  expect((await send('GET', `${other.secret}/${secret?.id}`)).status).toBe(404)
})

test('the view of keys holds everything but values', async () => {
  const place = await newPlace()
  await create(place, { A: 'hidden-value', B: ref('A') })
  const full = await list(place)
  const keys = await send<Secret[]>('GET', `${place.secret}?view=keys`)
  expect(keys.text).not.toContain('hidden-value')
  expect(keys.body).toEqual(
    full.map((secret) => ({ ...secret, values: secret.values.map(({ value: _, ...row }) => row) })),
  )
  const resolved = await send<Secret[]>('GET', `${place.secret}?view=keys&resolve=true`)
  expect(resolved.text).not.toContain('hidden-value')
  expect(resolved.body).toEqual(
    keys.body.map((secret) => ({ ...secret, values: secret.values.map(({ version: _, ...row }) => row) })),
  )
  expect((await send<Secret>('GET', `${place.secret}/A?view=keys`)).body).toEqual(keys.body[0])
})

test('counts hold what lies inside the scope of the caller', async () => {
  const place = await newPlace()
  await create(place, { A: '1', B: '1' }, [place.dev, place.staging])
  await create(place, { C: '1' }, [place.production])
  const counts = async (environments: string[]) => {
    const { token } = await createToken(service, owner.session, { scope: { environments } })
    const { body: groups } = await send<TeamGroup[]>('GET', '/v1/workspace/main/project', { token })
    const { body } = await send<Environment[]>('GET', `${place.path}/environment`, { token })
    return [groups[0]?.projects[0]?.secrets, ...body.map(({ totalSecrets }) => totalSecrets)]
  }
  expect(await counts([place.dev])).toEqual([2, 2])
  expect(await counts([place.dev, place.staging])).toEqual([2, 2, 2])
  expect(await counts([place.staging, place.production])).toEqual([3, 2, 1])
})

test('a credential for one environment reads it, resolved, without any parameter', async () => {
  const place = await newPlace()
  await create(place, { A: ref('B'), B: '1' })
  await create(place, { A: 'other' }, [place.staging])
  const cli = await send<{ token: string }>('POST', '/v1/workspace/main/tokens/cli', {
    body: { environmentId: place.dev },
  })
  const { token } = await createToken(service, owner.session, { scope: { environments: [place.dev] } })
  for (const credential of [cli.body.token, token, await exchange(service, token)]) {
    const answer = await send<Secret[]>('GET', '/v1/secrets', { token: credential })
    expect(answer.status).toBe(200)
    expect(answer.body).toEqual(await list(place, '?resolve=true', credential))
    expect(answer.body.map(({ values }) => values.map(({ value }) => value))).toEqual([['1'], ['1']])
    const headers = { 'if-none-match': answer.headers.get('etag') ?? '' }
    expect((await send('GET', '/v1/secrets', { token: credential, headers })).status).toBe(304)
  }
})

test('a credential for more than one environment is told what to call', async () => {
  const place = await newPlace()
  const scopes = [
    { all: true },
    { projects: [place.id] },
    { environments: [place.dev, place.staging] },
    { environments: [place.dev], projects: [place.id] },
  ]
  const tokens = scopes.map(async (scope) => (await createToken(service, owner.session, { scope })).token)
  for (const token of [owner.session, ...(await Promise.all(tokens))]) {
    const { status, body } = await send('GET', '/v1/secrets', { token })
    expect(status).toBe(400)
    expect(body.message).toContain('/v1/workspace/{ws}/project/{prj}/secret')
  }
})

test('references lead to the same environment, to another one, and to another project', async () => {
  const place = await newPlace()
  const other = await newPlace()
  await create(other, { HOST: `h-${ref('PORT')}`, PORT: '1' }, [other.staging])
  await create(place, { HOST: ref('LOCAL'), LOCAL: 'staging' }, [place.staging])
  const values = {
    HERE: `<${ref('LOCAL')}>`,
    LOCAL: 'dev',
    THERE: ref('staging.HOST'),
    FOLDED: ref('STAGING.HOST'),
    FAR: `${ref(`${other.slug}.staging.HOST`)}/${ref('HERE')}`,
    ESCAPED: `$${ref('LOCAL')} $LOCAL $(LOCAL) \${ LOCAL} ${ref('')}`,
    TWICE: ref('LOCAL') + ref('LOCAL'),
  }
  await create(place, values)
  expect(await resolved(place, 'HERE')).toEqual(['<dev>'])
  expect(await resolved(place, 'THERE')).toEqual(['staging'])
  expect(await resolved(place, 'FOLDED')).toEqual(['staging'])
  expect(await resolved(place, 'FAR')).toEqual(['h-1/<dev>'])
  expect(await resolved(place, 'ESCAPED')).toEqual([`${ref('LOCAL')} $LOCAL $(LOCAL) \${ LOCAL} ${ref('')}`])
  expect(await resolved(place, 'TWICE')).toEqual(['devdev'])
  const plain = await list(place, `?environmentId=${place.dev}`)
  expect(Object.fromEntries(plain.map(({ name, values: [row] }) => [name, row?.value]))).toMatchObject(values)
})

test('what cannot be resolved is kept, emptied or refused, as asked', async () => {
  const place = await newPlace()
  const value = `a ${ref('NONE')} ${ref('nowhere.X')} ${ref('no-project.dev.X')} ${ref('NONE')}`
  await create(place, { A: value, B: ref('A'), FINE: 'f' })
  const missing = ['NONE', 'nowhere.X', 'no-project.dev.X']
  expect(await resolved(place, 'A')).toEqual([value, ...missing])
  expect(await resolved(place, 'A', '&onUnresolved=keep')).toEqual([value, ...missing])
  expect(await resolved(place, 'A', '&onUnresolved=empty')).toEqual(['a    ', ...missing])
  expect((await resolved(place, 'B'))[0]).toBe(value)
  const refused = await send('GET', `${place.secret}/A?resolve=true&onUnresolved=error`)
  expect(refused).toMatchObject({ status: 409, body: { message: expect.stringMatching(/^A: .*NONE.*nowhere\.X/) } })
  expect((await send('GET', `${place.secret}?resolve=true&onUnresolved=error`)).status).toBe(409)
  expect(await resolved(place, 'FINE', '&onUnresolved=error')).toEqual(['f'])
  expect((await list(place, '?onUnresolved=error'))[0]).not.toHaveProperty('values.0.unresolved')
  expect((await send('GET', `${place.secret}?onUnresolved=ignore`)).status).toBe(400)
})

test('references are followed sixteen deep and no further', async () => {
  const place = await newPlace()
  const links = Array.from({ length: 17 }, (_, index) => [`L${index}`, ref(`L${index + 1}`)])
  await create(place, { ...Object.fromEntries(links), L17: 'end' })
  expect(await resolved(place, 'L1')).toEqual(['end'])
  const [value, ...unresolved] = await resolved(place, 'L0')
  expect(value).toBe(ref('L17'))
  expect(unresolved).toHaveLength(1)
})

test('a write that closes a circle of references is refused and changes nothing', async () => {
  const place = await newPlace()
  await create(place, { A: ref('B'), B: ref('staging.C') })
  await create(place, { C: 'fine' }, [place.staging])
  const before = await list(place)
  const body = { environments: [place.staging], secrets: [{ key: 'C', value: ref('development.A') }], mode: 'upsert' }
  const refused = await send('POST', place.secret, { body })
  expect(refused.status).toBe(409)
  for (const key of ['A', 'B', 'C']) expect(refused.body.message).toContain(key)
  const change = { environmentId: place.staging, value: ref('development.A') }
  expect((await send('PUT', `${place.secret}/C/value`, { body: change })).status).toBe(409)
  expect((await send('PUT', `${place.secret}/C`, { body: { name: 'C', values: [change] } })).status).toBe(409)
  const self = { environments: [place.dev], secrets: [{ key: 'SELF', value: ref('SELF') }] }
  expect((await send('POST', place.secret, { body: self })).status).toBe(409)
  const pair = [
    { key: 'X', value: ref('Y') },
    { key: 'Y', value: ref('X') },
  ]
  expect((await send('POST', place.secret, { body: { ...self, secrets: pair } })).status).toBe(409)
  expect(await list(place)).toEqual(before)
})

test('a rename that closes a circle of references is refused', async () => {
  const place = await newPlace()
  await create(place, { A: ref('B'), C: ref('A') })
  expect((await send('PUT', `${place.secret}/C`, { body: { name: 'B', values: [] } })).status).toBe(409)
  const operations = [{ op: 'rename', key: 'C', to: 'B' }]
  expect((await send('POST', `${place.secret}/batch`, { body: { environmentId: place.dev, operations } })).status).toBe(
    409,
  )
})

test('a circle of any length is refused', async () => {
  const place = await newPlace()
  const count = 300
  const links = Object.fromEntries(Array.from({ length: count }, (_, index) => [`K${index}`, ref(`K${index + 1}`)]))
  await create(place, { ...links, AWAY: ref('staging.AWAY') })
  await create(place, { AWAY: ref('production.AWAY') }, [place.staging])
  const close = (key: string, environmentId: string, value: string) =>
    send('POST', place.secret, { body: { environments: [environmentId], secrets: [{ key, value }] } })
  for (const index of [17, 18, 40, count]) {
    const body = { name: `K${index}`, values: [{ environmentId: place.dev, value: ref('K0') }] }
    const answer =
      index === count
        ? await close(`K${count}`, place.dev, ref('K0'))
        : await send('PUT', `${place.secret}/K${index}`, { body })
    expect(answer.status, answer.text.slice(0, 200)).toBe(409)
    expect(answer.text.length).toBeLessThan(300)
  }
  expect((await close('AWAY', place.production, ref('development.AWAY'))).status).toBe(409)
  expect((await close(`K${count}`, place.dev, 'the end')).status).toBe(201)
  expect((await close('BEFORE', place.dev, ref('K0'))).status).toBe(201)
})

test('a value that leads to a circle it is no part of is written and promoted', async () => {
  const place = await newPlace()
  await create(place, { A: ref('staging.A') })
  const { token } = await createToken(service, owner.session, { scope: { environments: [place.staging] } })
  const circle = { environments: [place.staging], secrets: [{ key: 'A', value: ref('development.A') }] }
  expect((await send('POST', place.secret, { token, body: circle })).status).toBe(201)
  await create(place, { POINTER: ref('A') })
  const to = place.secret.replace(/secret$/, `environment/${place.production}/promote`)
  const promoted = await send('POST', to, { body: { from: 'development', keys: ['POINTER'] } })
  expect(promoted.status, promoted.text).toBe(200)
  const again = { environments: [place.dev], secrets: [{ key: 'A', value: `x${ref('staging.A')}` }], mode: 'upsert' }
  expect((await send('POST', place.secret, { body: again })).status).toBe(409)
})

test('a circle that nobody could see at its writing stays unresolved at reading', async () => {
  const place = await newPlace()
  await create(place, { A: ref('staging.A') })
  const { token } = await createToken(service, owner.session, { scope: { environments: [place.staging] } })
  const body = { environments: [place.staging], secrets: [{ key: 'A', value: ref('development.A') }] }
  expect((await send('POST', place.secret, { token, body })).status).toBe(201)
  const [value, ...unresolved] = await resolved(place, 'A')
  expect(value).toMatch(/^\$\{(staging|development)\.A\}$/)
  expect(unresolved).toHaveLength(1)
})

test('every hop of a reference needs the rights of the caller', async () => {
  const place = await newPlace()
  const other = await newPlace()
  await create(place, { DEEP: 'production-value' }, [place.production])
  await create(place, { MIDDLE: ref('production.DEEP') }, [place.staging])
  await create(other, { FAR: 'far-value' })
  await create(place, { A: ref('staging.MIDDLE'), B: ref(`${other.slug}.development.FAR`) })
  expect(await resolved(place, 'A')).toEqual(['production-value'])
  expect(await resolved(place, 'B')).toEqual(['far-value'])
  const tokenFor = async (environments: string[]) =>
    (await createToken(service, owner.session, { scope: { environments } })).token
  const one = await tokenFor([place.dev])
  expect(await resolved(place, 'A', '', one)).toEqual([ref('staging.MIDDLE'), 'staging.MIDDLE'])
  expect(await resolved(place, 'B', '', one)).toEqual([
    ref(`${other.slug}.development.FAR`),
    `${other.slug}.development.FAR`,
  ])
  expect(await resolved(place, 'A', '', await tokenFor([place.dev, place.staging]))).toEqual([
    ref('production.DEEP'),
    'production.DEEP',
  ])
  const all = await tokenFor([place.dev, place.staging, place.production])
  expect(await resolved(place, 'A', '', all)).toEqual(['production-value'])
})

test('a thousand secrets are resolved by a few queries, as many as three hundred are, whatever refers to what', async () => {
  const { engine } = service.app.services
  const queriesOf = async (count: number) => {
    const place = await newPlace()
    const links = (target: (index: number) => string) =>
      Object.fromEntries(Array.from({ length: count }, (_, index) => [`K${index}`, target(index)]))
    await create(
      place,
      links((index) => `value-${index}`),
      [place.production],
    )
    await create(
      place,
      links((index) => ref(`production.K${(7 * index) % count}`)),
      [place.staging],
    )
    await create(
      place,
      links((index) => ref(`staging.K${count - 1 - index}`)),
      [place.dev],
    )
    const asked = [vi.spyOn(engine, 'all'), vi.spyOn(engine, 'one')]
    const secrets = await list(place, `?environmentId=${place.dev}&resolve=true`)
    const texts = asked.flatMap(({ mock }) => mock.calls.map(([{ strings }]) => strings.join('?')))
    for (const spy of asked) spy.mockRestore()
    expect(secrets.find(({ name }) => name === 'K0')?.values[0]?.value).toBe(`value-${(7 * (count - 1)) % count}`)
    // Others ask as well now and then, but not for these.
    return texts.filter((text) => text.includes('secret')).length
  }
  const few = await queriesOf(300)
  expect(few).toBeGreaterThan(2)
  expect(few).toBeLessThan(12)
  expect(await queriesOf(1_000)).toBe(few)
})

test('whatever refers to whatever, nobody reads by a reference what they may not read directly', async () => {
  const place = await newPlace()
  const environments = [
    ['development', place.dev],
    ['staging', place.staging],
    ['production', place.production],
  ] as const
  const keys = ['K0', 'K1', 'K2', 'K3']
  const places = keys.flatMap((key) => environments.map(([environment, id]) => ({ key, environment, id })))
  const readers = await Promise.all(
    [1, 2, 3, 4, 5, 6, 7].map(async (mask) => {
      const reached = environments.filter((_, index) => mask & (1 << index)).map(([, id]) => id)
      const { token } = await createToken(service, owner.session, { scope: { environments: reached } })
      return { token, reached: new Set<string>(reached) }
    }),
  )
  // Each refers to later ones only, so that none comes back to itself.
  const later = (at: number) => [...places.keys()].slice(at + 1)
  const graphs = fc.tuple(
    ...places.map((_, at) => fc.subarray(later(at), { maxLength: Math.min(3, later(at).length) })),
  )
  await fc.assert(
    fc.asyncProperty(graphs, async (graph) => {
      const nameOf = (at: number) => `${places[at]?.environment}.${places[at]?.key}`
      const ownText = (at: number) => `<${nameOf(at)}>`
      const read = (at: number, reached: ReadonlySet<string>): string =>
        ownText(at) +
        (graph[at] ?? [])
          .map((next) => (reached.has(places[next]?.id ?? '') ? read(next, reached) : ref(nameOf(next))))
          .join('')
      for (const [environment, id] of environments) {
        const written = places.flatMap((one, at) =>
          one.id === id ? [[one.key, ownText(at) + (graph[at] ?? []).map((next) => ref(nameOf(next))).join('')]] : [],
        )
        await create(place, Object.fromEntries(written), [environment])
      }
      for (const { token, reached } of readers) {
        const { body } = await send<Secret[]>('GET', `${place.secret}?resolve=true`, { token })
        const shown = body.flatMap(({ name, values }) =>
          values.map(({ environmentId, value }) => [`${environmentId} ${name}`, value]),
        )
        const expected = places.flatMap(({ id, key }, at) =>
          reached.has(id) ? [[`${id} ${key}`, read(at, reached)]] : [],
        )
        expect(Object.fromEntries(shown)).toEqual(Object.fromEntries(expected))
      }
    }),
    { numRuns: times(10, 100) },
  )
})

test('an answer that the caller has already is not sent again', async () => {
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

test('whatever changes an answer changes its ETag', async () => {
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

test('a narrower scope shows in the next answer, whatever ETag is sent', async () => {
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
    const store = createStore(db, services.keys)
    const { members } = await store.members.list(workspaceId)
    const member = members.find(({ id }) => id === person.memberId)
    const scope = { ...wide, projects: [], environments: [place.dev] }
    if (member) await store.members.update({ ...member, scope }, services.now())
    await store.changes.append('workspace', workspaceId, services.now())
  })
  services.snapshots.drop(workspaceId)
  for (const [index, path] of paths.entries()) {
    const after = await read(path, before[index]?.headers.get('etag') ?? '')
    expect(after.status).toBe(200)
    expect(after.text).not.toContain('"s"')
  }
})

test('an answer that was made while what it refers to was changed is given once at most', async () => {
  const place = await newPlace()
  await create(place, { HOST: 'old' }, [place.staging])
  await create(place, { URL: ref('staging.HOST') })
  const { secretValues, changes } = service.app.services.store
  const methods = new Map(Object.entries(secretValues))
  // A node that hears of its own change once more makes up for what it has missed.
  const listAfter = changes.listAfter
  changes.listAfter = async () => []
  let isChanged = false
  for (const [name, method] of methods) {
    const slow = async (...asked: unknown[]) => {
      const found = await Reflect.apply(method, secretValues, asked)
      // It has been read, and nobody has been answered yet.
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
    value: fc.string({ unit: 'binary', maxLength: 12 }).filter((text) => !text.includes('$')),
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

const auditOf = async (query: string) =>
  (await send<AuditEntry[]>('GET', `/v1/workspace/main/audit?limit=200&${query}`)).body
const verify = async () => (await send<AuditVerdict>('GET', '/v1/workspace/main/audit/verify')).body

test('every reading of values is one entry with its keys; what reveals none leaves none', async () => {
  const place = await newPlace()
  await create(place, { A: 'v-a', B: 'v-b' }, [place.dev, place.staging])
  await create(place, { C: 'v-c' }, [place.staging])
  const views = () => auditOf(`project=${place.id}&action=VIEW`)
  expect(await views()).toEqual([])
  const etag = (await send('GET', place.secret)).headers.get('etag') ?? ''
  await send('GET', `${place.secret}?view=keys`)
  await send('GET', `${place.secret}/A?view=keys`)
  await send('GET', place.secret, { headers: { 'if-none-match': etag } })
  await send('GET', `${place.secret}?environmentId=production`)
  await send('GET', `${place.secret}/NONE`)
  await send('GET', `${place.secret}?environmentId=nowhere`)
  expect(await views()).toHaveLength(1)
  const request = await send('GET', `${place.secret}?environmentId=development`, { headers: { 'user-agent': 'u/1' } })
  await send('GET', `${place.secret}?environmentId=development`)
  expect(await views()).toMatchObject([
    { after: { keys: ['A', 'B'] } },
    {
      actor: { type: 'user', id: owner.id, name: owner.email },
      entity: { type: 'secrets', id: place.id, name: place.slug },
      projectId: place.id,
      environmentId: place.dev,
      userAgent: 'u/1',
      requestId: request.headers.get('x-request-id'),
      after: { keys: ['A', 'B'], environments: ['development'] },
    },
    { environmentId: null, after: { keys: ['A', 'B', 'C'], environments: ['development', 'staging', 'production'] } },
  ])
  expect(await auditOf(`project=${place.slug}&environment=${place.dev}&action=view`)).toHaveLength(3)
  const verdict = await verify()
  const [newest] = await auditOf('')
  expect(verdict).toEqual({ ok: true, entries: newest?.sequence, head: newest?.hash })
})

test('the entry of a single reading names the secret by id and name, however it was asked for', async () => {
  const place = await newPlace()
  await create(place, { SINGLE: '1' })
  const [secret] = await list(place, '?view=keys')
  for (const key of ['SINGLE', secret?.id]) {
    await send('GET', `${place.secret}/${key}`)
    const [entry] = await auditOf(`project=${place.id}&action=VIEW`)
    expect(entry).toMatchObject({
      entity: { type: 'secret', id: secret?.id, name: 'SINGLE' },
      after: { keys: ['SINGLE'] },
    })
  }
  expect(await auditOf(`project=${place.id}&action=VIEW&entity=SINGLE`)).toHaveLength(2)
})

test('reads of many callers at the same moment leave one entry each, in a chain that verifies', async () => {
  const place = await newPlace()
  await create(place, { A: '1' })
  const paths = Array.from({ length: 40 }, (_, index) => (index % 2 ? place.secret : `${place.secret}/A`))
  const answers = await Promise.all([
    ...paths.map((path) => send('GET', path)),
    create(place, { B: '1' }).then(() => undefined),
  ])
  const asked = answers.flatMap((answer) => answer?.headers.get('x-request-id') ?? [])
  const entries = await auditOf(`project=${place.id}&action=VIEW`)
  expect(entries.map(({ requestId }) => requestId).sort()).toEqual(asked.sort())
  expect((await verify()).ok).toBe(true)
})

test('every write is in the trail without its values, and what changes nothing as a comparison', async () => {
  const place = await newPlace()
  const value = (name: string) => `canary-${place.slug}-${name}`
  const environmentId = place.dev
  await create(place, { A: value('a'), B: value('b') })
  await send('PUT', `${place.secret}/A/value`, { body: { environmentId, value: value('a2') } })
  const row = { environmentId, value: value('a3') }
  await send('PUT', `${place.secret}/A`, { body: { name: 'A2', note: 'n', values: [row] } })
  const operations = [
    { op: 'set', key: 'C', value: value('c') },
    { op: 'delete', key: 'B' },
  ]
  await send('POST', `${place.secret}/batch`, { body: { environmentId, operations, message: 'why' } })
  await send('DELETE', `${place.secret}/C`)
  await send('POST', `${place.secret}/C/restore`)
  await send('DELETE', `${place.secret}/C?purge=true`)
  const reminder = { environmentId, type: 'one_time', nextReminderDate: '2030-01-01T00:00:00Z' }
  await send('PUT', `${place.secret}/A2/reminder`, { body: reminder })
  const before = await auditOf(`project=${place.id}`)
  const dry = { environments: [place.dev], secrets: [{ key: 'DRY', value: 'd' }], dryRun: true }
  await send('POST', place.secret, { body: dry })
  await send('POST', place.secret, { body: { ...dry, dryRun: false, secrets: [{ key: 'A2', value: 'd' }] } })
  await send('PUT', `${place.secret}/A2/value`, { body: { environmentId, value: value('a3') } })
  const entries = await auditOf(`project=${place.id}`)
  expect(entries.slice(3)).toEqual(before)
  expect(entries.slice(0, 3).map(({ action }) => action)).toEqual(['COMPARE', 'COMPARE', 'COMPARE'])
  expect(JSON.stringify(entries)).not.toContain('canary')
  const requests = new Set(entries.map(({ requestId }) => requestId))
  // The project itself, the eight changes above, and the three requests that changed nothing.
  expect(requests.size).toBe(12)
  const created = await auditOf(`project=${place.id}&action=CREATE&environment=${place.dev}`)
  expect(created.at(-1)?.after).toMatchObject({
    changes: [
      { key: 'A', environment: 'development', status: 'created', version: 1 },
      { key: 'B', environment: 'development', status: 'created', version: 1 },
    ],
  })
  expect((await verify()).ok).toBe(true)
})

test('what a URL asks is worked out once; who may ask it, and what the answer is, every time', async () => {
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

test('one secret is not searched: a q beside its name means nothing', async () => {
  const place = await newPlace()
  await create(place, { KEY: 'value' })
  for (const query of ['q=zzz', 'q=a&q=b', 'q=']) {
    const answer = await send<Secret>('GET', `${place.secret}/KEY?environmentId=${place.dev}&${query}`)
    expect(answer.status, answer.text).toBe(200)
    expect(answer.body.name).toBe('KEY')
  }
})
