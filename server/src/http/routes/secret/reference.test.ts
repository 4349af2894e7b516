/** References between values: resolution, limits, cycles and rights. */
import type { Secret, WriteResults } from '@coffer/contract/secret'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import {
  createProject,
  createToken,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../../test/harness.ts'
import { times } from '../../../../../test/tier.ts'

let service: TestService
let owner: TestUser

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
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
const ref = (name: string) => `\${${name}}`

/** One resolved value of the development environment, followed by its unresolved references. */
async function resolved(place: Place, key: string, query = '', token = owner.session) {
  const path = `${place.secret}/${key}?environmentId=${place.dev}&resolve=true${query}`
  const { body } = await send<Secret>('GET', path, { token })
  const row = body.values.find(({ isPersonal }) => !isPersonal)
  return [row?.value, ...(row?.unresolved ?? [])]
}

test('references resolve within the environment, to another environment and to another project', async () => {
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

test('unresolved references are kept, emptied or refused, as onUnresolved says', async () => {
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

test('references are followed 16 levels deep and no further', async () => {
  const place = await newPlace()
  const links = Array.from({ length: 17 }, (_, index) => [`L${index}`, ref(`L${index + 1}`)])
  await create(place, { ...Object.fromEntries(links), L17: 'end' })
  expect(await resolved(place, 'L1')).toEqual(['end'])
  const [value, ...unresolved] = await resolved(place, 'L0')
  expect(value).toBe(ref('L17'))
  expect(unresolved).toHaveLength(1)
})

test('a write that closes a reference cycle is refused and changes nothing', async () => {
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

test('a rename that closes a reference cycle is refused', async () => {
  const place = await newPlace()
  await create(place, { A: ref('B'), C: ref('A') })
  expect((await send('PUT', `${place.secret}/C`, { body: { name: 'B', values: [] } })).status).toBe(409)
  const operations = [{ op: 'rename', key: 'C', to: 'B' }]
  expect((await send('POST', `${place.secret}/batch`, { body: { environmentId: place.dev, operations } })).status).toBe(
    409,
  )
})

test('a reference cycle of any length is refused', async () => {
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

test('a value that leads to a cycle without being part of it is written and promoted', async () => {
  const place = await newPlace()
  await create(place, { A: ref('staging.A') })
  const { token } = await createToken(service, owner.session, { scope: { environments: [place.staging] } })
  const cycle = { environments: [place.staging], secrets: [{ key: 'A', value: ref('development.A') }] }
  expect((await send('POST', place.secret, { token, body: cycle })).status).toBe(201)
  await create(place, { POINTER: ref('A') })
  const to = place.secret.replace(/secret$/, `environment/${place.production}/promote`)
  const promoted = await send('POST', to, { body: { from: 'development', keys: ['POINTER'] } })
  expect(promoted.status, promoted.text).toBe(200)
  const again = { environments: [place.dev], secrets: [{ key: 'A', value: `x${ref('staging.A')}` }], mode: 'upsert' }
  expect((await send('POST', place.secret, { body: again })).status).toBe(409)
})

test('a cycle that its writer could not see stays unresolved when it is read', async () => {
  const place = await newPlace()
  await create(place, { A: ref('staging.A') })
  const { token } = await createToken(service, owner.session, { scope: { environments: [place.staging] } })
  const body = { environments: [place.staging], secrets: [{ key: 'A', value: ref('development.A') }] }
  expect((await send('POST', place.secret, { token, body })).status).toBe(201)
  const [value, ...unresolved] = await resolved(place, 'A')
  expect(value).toMatch(/^\$\{(staging|development)\.A\}$/)
  expect(unresolved).toHaveLength(1)
})

test('every hop of a reference is checked against the rights of the caller', async () => {
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

test('1,000 secrets with references are resolved with as many queries as 300', async () => {
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
    // Background jobs query other tables meanwhile.
    return texts.filter((text) => text.includes('secret')).length
  }
  const few = await queriesOf(300)
  expect(few).toBeGreaterThan(2)
  expect(few).toBeLessThan(12)
  expect(await queriesOf(1_000)).toBe(few)
})

test('no graph of references reveals a value that the caller may not read directly', async () => {
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
  // Each value references later ones only, so there are no cycles.
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
