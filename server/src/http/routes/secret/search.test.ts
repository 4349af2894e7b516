/** GET /v1/workspace/{ws}/secret: names over all projects in reach, never values. */
import type { FoundSecret } from '@coffer/contract/secret-search'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import {
  addUser,
  createToken,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../../test/harness.ts'
import { createSecretProject, type SecretProject } from '../../../../../test/secret-project.ts'
import { newId } from '../../../crypto/id.ts'
import { storeOver } from '../../../store/store.ts'

let service: TestService
let owner: TestUser
let first: SecretProject
let second: SecretProject
const canary = 'canary-of-the-search'

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
  first = await createSecretProject(service, owner.session)
  second = await createSecretProject(service, owner.session)
  await first.set('development', { DATABASE_URL: canary, PORT: canary })
  await first.set('production', { DATABASE_URL: canary })
  await second.set('staging', { DATABASE_PASSWORD: canary, OTHER: canary })
})
afterAll(() => service.stop())

const search = (query: string, token = owner.session, workspace = 'main') =>
  service.call<FoundSecret[]>('GET', `/v1/workspace/${workspace}/secret${query}`, { token })
const names = async (query: string, token?: string) =>
  (await search(query, token)).body.map(({ name, environments }) => [name, ...environments.map((one) => one.name)])

test('finds names in every project, with the project and the environments that have a value', async () => {
  const { status, body, text } = await search('?q=database')
  expect(status).toBe(200)
  const project = ({ id, slug }: SecretProject) => ({ id, slug, name: slug })
  const environment = (of: SecretProject, name: string) => ({ id: of.idOf(name), name })
  expect(body).toEqual([
    {
      id: expect.any(String),
      name: 'DATABASE_PASSWORD',
      project: project(second),
      environments: [environment(second, 'staging')],
    },
    {
      id: expect.any(String),
      name: 'DATABASE_URL',
      project: project(first),
      environments: [environment(first, 'development'), environment(first, 'production')],
    },
  ])
  expect(text).not.toContain('canary')
})

test.each<[string, string[]]>([
  ['?q=PORT', ['PORT']],
  ['?q=port', ['PORT']],
  ['?q=o', ['DATABASE_PASSWORD', 'OTHER', 'PORT']],
  ['?q=%25', []],
  ['?q=_', ['DATABASE_PASSWORD', 'DATABASE_URL']],
  ['?q=nothing', []],
  ['?q=', ['DATABASE_PASSWORD', 'DATABASE_URL', 'OTHER', 'PORT']],
  ['', ['DATABASE_PASSWORD', 'DATABASE_URL', 'OTHER', 'PORT']],
])('%s finds %j', async (query, expected) => {
  expect((await search(query)).body.map(({ name }) => name)).toEqual(expected)
})

test.each([
  ['?limit=0', /^limit: /],
  ['?limit=201', /^limit: /],
  ['?cursor=%21', /^cursor: /],
  ['?cursor=bm90LWE', /^cursor: is not valid/],
  [`?cursor=${Buffer.from('A B C').toString('base64url')}`, /^cursor: is not valid/],
  [`?q=${'x'.repeat(256)}`, /^q: /],
  ['?q=%00', /^q: /],
])('%s is refused', async (query, message) => {
  const answer = await search(query)
  expect(answer).toMatchObject({ status: 400, body: { message: expect.stringMatching(message) } })
})

describe('the scope of the caller', () => {
  test('shows a secret only with the environments where the caller sees a value of it', async () => {
    const scoped = async (...environments: string[]) =>
      (await createToken(service, owner.session, { scope: { environments } })).token
    expect(await names('?q=database', await scoped(first.idOf('production')))).toEqual([['DATABASE_URL', 'production']])
    expect(await names('', await scoped(first.idOf('staging')))).toEqual([])
    expect(await names('', await scoped(first.idOf('development'), second.idOf('staging')))).toEqual([
      ['DATABASE_PASSWORD', 'staging'],
      ['DATABASE_URL', 'development'],
      ['OTHER', 'staging'],
      ['PORT', 'development'],
    ])
    const { token } = await createToken(service, owner.session, { scope: { projects: [first.id] } })
    expect(await names('', token)).toEqual([
      ['DATABASE_URL', 'development', 'production'],
      ['PORT', 'development'],
    ])
  })

  test('hides the workspace from strangers', async () => {
    const stranger = await addUser(service, 'stranger@example.com')
    const [hidden, absent] = [await search('', stranger.session), await search('', owner.session, 'nowhere')]
    expect([hidden.status, hidden.text]).toEqual([404, absent.text])
  })
})

test('a value of one’s own counts for its owner alone, and only where the environment allows it', async () => {
  const project = await createSecretProject(service, owner.session)
  await project.set('production', { OWNED: canary })
  await project.allowPersonal('development')
  const row = { environmentId: 'development', value: canary, isPersonal: true }
  await project.must('PUT', '/secret/OWNED/value', row)
  expect(await names('?q=owned')).toEqual([['OWNED', 'development', 'production']])
  const { token } = await createToken(service, owner.session)
  expect(await names('?q=owned', token)).toEqual([['OWNED', 'production']])
  await project.must('PUT', `/environment/${project.idOf('development')}`, { hasPersonalOverrides: false })
  expect(await names('?q=owned')).toEqual([['OWNED', 'production']])
})

test('a secret without a value is found by callers of its whole project, and one in the trash by nobody', async () => {
  const project = await createSecretProject(service, owner.session)
  await project.set('development', { EMPTIED: canary, TRASHED: canary })
  await project.remove('development', 'EMPTIED')
  await project.must('DELETE', '/secret/TRASHED')
  expect(await names('?q=emptied')).toEqual([['EMPTIED']])
  expect(await names('?q=trashed')).toEqual([])
  const { token } = await createToken(service, owner.session, { scope: { environments: [project.idOf('staging')] } })
  expect(await names('?q=emptied', token)).toEqual([])
})

test('pages hold every name once, in order, and the last one has no cursor', async () => {
  const projects = [
    await createSecretProject(service, owner.session),
    await createSecretProject(service, owner.session),
  ]
  const values = Object.fromEntries(
    Array.from({ length: 60 }, (_, at) => [`PAGED_${String(at).padStart(4, '0')}`, 'x']),
  )
  for (const project of projects) await project.set('development', values)
  const found: string[] = []
  const lengths: number[] = []
  for (let cursor: string | null = ''; cursor !== null; ) {
    const page = await search(`?q=paged&limit=50${cursor && `&cursor=${cursor}`}`)
    lengths.push(page.body.length)
    found.push(...page.body.map(({ name, project }) => `${name} ${project.id}`))
    cursor = page.headers.get('x-next-cursor')
  }
  expect(lengths).toEqual([50, 50, 20])
  const expected = Object.keys(values).flatMap((name) => projects.map(({ id }) => `${name} ${id}`))
  expect(new Set(found)).toEqual(new Set(expected))
  expect(found).toHaveLength(expected.length)
  expect(found.map((one) => one.split(' ')[0])).toEqual(found.map((one) => one.split(' ')[0]).toSorted())
  expect((await search('?q=paged&limit=120')).headers.get('x-next-cursor')).toBeNull()
  expect((await search('?q=paged&limit=119')).headers.get('x-next-cursor')).not.toBeNull()
})

describe('a workspace with more names than a request reads', () => {
  beforeAll(async () => {
    const { services } = service.app
    const workspace = await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: owner.session })
    const workspaceId = workspace.body.id
    const at = services.now()
    await services.engine.transaction('test:names', async ({ db }) => {
      const rest = { workspaceId, projectId: second.id, type: 'runtime', dataType: 'text', note: '' } as const
      const times = { createdAt: at, updatedAt: at, trashedAt: null }
      const rows = Array.from({ length: 51_000 }, (_, index) => ({
        ...rest,
        ...times,
        id: newId(),
        name: `BULK_${String(index).padStart(6, '0')}`,
      }))
      await storeOver(db, services.keys).secrets.insertMany(rows)
    })
  })

  test('ends the page early, and the cursor continues the search', async () => {
    const early = await search('?q=OTHER')
    expect(early.body).toEqual([])
    const cursor = early.headers.get('x-next-cursor')
    expect(cursor).not.toBeNull()
    const rest = await search(`?q=OTHER&cursor=${cursor}`)
    expect(rest.body.map(({ name }) => name)).toEqual(['OTHER'])
    expect(rest.headers.get('x-next-cursor')).toBeNull()
  })

  test('does not reveal names out of reach by the cursor, nor their length', async () => {
    const { token } = await createToken(service, owner.session, { scope: { environments: [first.idOf('staging')] } })
    const early = await search('', token)
    expect(early.body).toEqual([])
    const cursor = early.headers.get('x-next-cursor') ?? ''
    const decoded = Buffer.from(cursor, 'base64url').toString('latin1')
    expect(decoded).not.toContain('BULK')
    expect(decoded).not.toMatch(/[0-9a-f]{8}-[0-9a-f]{4}-/)
    const another = (await search('?limit=1')).headers.get('x-next-cursor') ?? ''
    expect(another).toHaveLength(cursor.length)
    const rest = await search(`?cursor=${cursor}`, token)
    expect(rest.body).toEqual([])
    expect(rest.headers.get('x-next-cursor')).toBeNull()
  })

  test('needs few queries, even for the shortest page of a caller who sees none of the matches', async () => {
    const { token } = await createToken(service, owner.session, {
      scope: { environments: [second.idOf('production')] },
    })
    const queries = vi.spyOn(service.app.services.engine, 'all')
    try {
      expect((await search('?q=BULK&limit=1', token)).body).toEqual([])
      expect(queries.mock.calls.length).toBeLessThan(400)
    } finally {
      queries.mockRestore()
    }
  })
})

test('a cursor of another workspace is refused', async () => {
  const cursor = (await search('?limit=1')).headers.get('x-next-cursor')
  await service.call('POST', '/v1/workspace', { token: owner.session, body: { name: 'Next', slug: 'next' } })
  expect((await search(`?cursor=${cursor}`, owner.session, 'next')).status).toBe(400)
  expect((await search(`?cursor=${cursor}`)).status).toBe(200)
})

test('is not recorded as a read, since it shows no value', async () => {
  const read = async () =>
    (await service.call<unknown[]>('GET', '/v1/workspace/main/audit?limit=200&action=VIEW', { token: owner.session }))
      .body.length
  const before = await read()
  await search('?q=database')
  expect(await read()).toBe(before)
})
