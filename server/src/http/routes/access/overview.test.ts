/** The overview: everybody with access, with their right at each environment. */
import type { AccessRow } from '@coffer/contract/access'
import type { Scope } from '@coffer/contract/field'
import type { IssuedToken } from '@coffer/contract/token'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import {
  addUser,
  createProject,
  createToken,
  registerOwner,
  startService,
  type TestProject,
  type TestService,
  type TestUser,
} from '../../../../../test/harness.ts'
import { newId } from '../../../crypto/id.ts'
import { defaultPreferences } from '../../../domain/account/me.ts'
import { storeOver } from '../../../store/store.ts'
import type { Grants } from '../../../store/workspace/grant.ts'

const none: Scope = { all: false, teams: [], projects: [], environments: [] }
const list = '/v1/workspace/main/access'

let service: TestService
let owner: TestUser
let ann: TestUser
let workspaceId: string
let shop: TestProject
let blog: TestProject
let reader: IssuedToken
let serviceAccountId: string

const environmentOf = (project: TestProject, name: string) =>
  project.environments.find((environment) => environment.name === name)?.id ?? ''

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
  workspaceId = (await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: owner.session })).body.id
  shop = await createProject(service, owner.session, 'shop')
  blog = await createProject(service, owner.session, 'blog')
  ann = await addUser(service, 'ann@example.com', {
    workspaceId,
    role: 'developer',
    scope: { ...none, environments: [environmentOf(shop, 'staging')] },
    further: [
      { role: 'member', scope: { ...none, projects: [shop.id] } },
      { role: 'admin', scope: { ...none, environments: [environmentOf(shop, 'development')] } },
    ],
  })
  reader = await createToken(service, ann.session, {
    name: 'reader',
    permission: 'read',
    scope: { projects: [shop.id] },
  })
  await createToken(service, ann.session, {
    name: 'writer',
    scope: { environments: [environmentOf(shop, 'staging'), environmentOf(shop, 'production')] },
  })
  const revoked = await createToken(service, owner.session, { name: 'revoked' })
  await service.call('DELETE', `/v1/workspace/main/tokens/${revoked.id}`, { token: owner.session })
  for (const enabled of [true, false]) {
    await create('oidc', {
      name: enabled ? 'pipeline' : 'disabled',
      issuer: 'https://issuer.example.com',
      audience: 'coffer',
      subject: 'repo:acme/shop',
      permission: 'read-write',
      scope: { environments: [environmentOf(shop, 'production')] },
      enabled,
    })
  }
  await create('rbac', { email: 'new@example.com', role: 'member', scope: { all: true } })
  serviceAccountId = await addServiceAccount('deploy')
})
afterAll(() => service.stop())

async function create(path: string, body: Record<string, unknown>): Promise<void> {
  const { status, text } = await service.call('POST', `/v1/workspace/main/${path}`, { token: owner.session, body })
  expect(status, text).toBe(201)
}

async function addServiceAccount(name: string): Promise<string> {
  const { engine, keys, now, snapshots } = service.app.services
  const id = newId()
  const grants: Grants = [{ role: 'developer', scope: { ...none, projects: [blog.id] } }]
  await engine.transaction('service account', async ({ db }) => {
    await storeOver(db, keys).serviceAccounts.insert({
      id,
      workspaceId,
      name,
      grants,
      createdBy: owner.id,
      createdAt: now(),
    })
  })
  snapshots.drop(workspaceId)
  return id
}

async function read(query: Record<string, string> = {}): Promise<AccessRow[]> {
  const { status, body, text } = await service.call<AccessRow[]>('GET', `${list}?${new URLSearchParams(query)}`, {
    token: owner.session,
  })
  expect(status, text).toBe(200)
  return body
}

/** Rights by project and environment name. */
const rightsIn = (row: AccessRow | undefined) =>
  Object.fromEntries(
    (row?.environments ?? []).map(({ projectId, environmentId, right }) => {
      const project = projectId === shop.id ? shop : blog
      return [`${project.slug}/${project.environments.find(({ id }) => id === environmentId)?.name}`, right]
    }),
  )

const named = (rows: readonly AccessRow[], name: string) => rows.find(({ actor }) => actor.name === name)

test('shows everybody with their right at each environment, people first', async () => {
  const rows = await read()
  expect(rows.map(({ actor }) => `${actor.type} ${actor.name}`)).toEqual([
    'user owner@example.com',
    'user ann@example.com',
    'user new@example.com',
    'service deploy',
    'token reader',
    'token writer',
    'oidc pipeline',
  ])
  const all = [
    'shop/development',
    'shop/staging',
    'shop/production',
    'blog/development',
    'blog/staging',
    'blog/production',
  ]
  expect(rightsIn(named(rows, owner.email))).toEqual(Object.fromEntries(all.map((name) => [name, 'admin'])))
  expect(named(rows, owner.email)).toMatchObject({ isOwner: true, ownerName: null, problem: null })
  expect(rightsIn(named(rows, ann.email))).toEqual({
    'shop/development': 'admin',
    'shop/staging': 'write',
    'shop/production': 'read',
  })
  expect(rightsIn(named(rows, 'reader'))).toEqual({
    'shop/development': 'read',
    'shop/staging': 'read',
    'shop/production': 'read',
  })
  expect(rightsIn(named(rows, 'writer'))).toEqual({ 'shop/staging': 'write', 'shop/production': 'read' })
  expect(named(rows, 'writer')).toMatchObject({ ownerName: 'ann@example.com', isOwner: false })
  expect(rightsIn(named(rows, 'pipeline'))).toEqual({ 'shop/production': 'write' })
  expect(rightsIn(named(rows, 'deploy'))).toEqual({
    'blog/development': 'write',
    'blog/staging': 'write',
    'blog/production': 'write',
  })
  expect(named(rows, 'new@example.com')).toMatchObject({
    environments: [],
    problem: 'The invite has not been accepted yet.',
  })
})

test('the right to read is what a request gets', async () => {
  const rows = await read()
  for (const [name, token] of [
    [owner.email, owner.session],
    [ann.email, ann.session],
    ['reader', reader.token],
  ] as const) {
    const row = named(rows, name)
    for (const project of [shop, blog]) {
      for (const { id } of project.environments) {
        const path = `/v1/workspace/main/project/${project.slug}/secret?environmentId=${id}`
        const { status } = await service.call('GET', path, { token })
        expect(row?.environments.some(({ environmentId }) => environmentId === id)).toBe(status === 200)
      }
    }
  }
})

test('shows one project, or one kind of actor', async () => {
  const ofBlog = await read({ project: 'blog' })
  expect(ofBlog.map(({ actor }) => actor.name)).toEqual([owner.email, 'new@example.com', 'deploy'])
  expect(ofBlog.flatMap(({ environments }) => environments.map(({ projectId }) => projectId))).toEqual(
    Array(6).fill(blog.id),
  )
  expect(await read({ project: blog.id })).toEqual(ofBlog)
  expect((await read({ type: 'token' })).map(({ actor }) => actor.name)).toEqual(['reader', 'writer'])
  expect((await read({ type: 'service' })).map(({ actor }) => actor.id)).toEqual([serviceAccountId])
  expect((await read({ type: 'oidc' })).map(({ actor }) => actor.name)).toEqual(['pipeline'])
})

async function readPages(limit: number, query: Record<string, string> = {}): Promise<AccessRow[][]> {
  const pages: AccessRow[][] = []
  for (let cursor: string | null = ''; cursor !== null; ) {
    const words = new URLSearchParams({ ...query, limit: `${limit}`, ...(cursor && { cursor }) })
    const page = await service.call<AccessRow[]>('GET', `${list}?${words}`, { token: owner.session })
    expect(page.status, page.text).toBe(200)
    pages.push(page.body)
    cursor = page.headers.get('x-next-cursor')
  }
  return pages
}

test.each([1, 2, 3, 7, 200])('pages of %i hold each row once', async (limit) => {
  const rows = await read()
  const pages = await readPages(limit)
  expect(pages.flat()).toEqual(rows)
  expect(pages.map(({ length }) => length)).toEqual(
    Array.from({ length: Math.ceil(rows.length / limit) }, (_, page) => Math.min(limit, rows.length - page * limit)),
  )
  expect((await readPages(limit, { type: 'user' })).flat()).toEqual(rows.slice(0, 3))
})

describe('refuses', () => {
  test.each([
    ['a developer', () => ann.session, 403],
    ['a token that does not reach everything', () => reader.token, 403],
    ['nobody', () => undefined, 401],
  ])('%s', async (_, credential, status) => {
    const token = credential()
    expect((await service.call('GET', list, token === undefined ? {} : { token })).status).toBe(status)
  })

  test('a stranger', async () => {
    const { session } = await addUser(service, 'stranger@example.com')
    expect((await service.call('GET', list, { token: session })).status).toBe(404)
  })

  test.each([
    ['project=absent', 404, 'There is no project absent in this workspace.'],
    ['type=robot', 400, 'type: '],
    ['limit=0', 400, 'limit: '],
    ['limit=201', 400, 'limit: '],
    ['cursor=bm9uc2Vuc2U', 400, 'cursor: is not valid'],
    [`cursor=${Buffer.from(`robot:${newId()}`).toString('base64url')}`, 400, 'cursor: is not valid'],
    [`cursor=${Buffer.from('user:1').toString('base64url')}`, 400, 'cursor: is not valid'],
  ])('%s', async (query, status, message) => {
    const answer = await service.call('GET', `${list}?${query}`, { token: owner.session })
    expect(answer.status, answer.text).toBe(status)
    expect(answer.text).toContain(message)
  })
})

test('holds no credential and nothing of another workspace', async () => {
  const other = await addUser(service, 'other@example.com')
  await service.call('POST', '/v1/workspace', { token: other.session, body: { name: 'Other', slug: 'other' } })
  const theirs = await createToken(service, other.session, { name: 'theirs' }, 'other')
  const { text } = await service.call('GET', `${list}?limit=200`, { token: owner.session })
  for (const hidden of [reader.token, reader.prefix, 'hash', 'other@example.com', theirs.id]) {
    expect(text).not.toContain(hidden)
  }
})

test('1,000 people at 100 environments need as many queries as a few', async () => {
  const { engine } = service.app.services
  const spies = [vi.spyOn(engine, 'all'), vi.spyOn(engine, 'one')]
  const queriesOf = async () => {
    // Loads the snapshot, which is not counted.
    await read({ limit: '1' })
    for (const spy of spies) spy.mockClear()
    const rows = await read({ limit: '200' })
    const texts = spies.flatMap(({ mock }) => mock.calls.map(([{ strings }]) => strings.join('?')))
    // Background jobs query other tables meanwhile.
    const ours = texts.filter((text) => /from (account|member|invite|token|oidc_identity|service_account)\b/.test(text))
    return { rows: rows.length, queries: ours.length }
  }
  try {
    const few = await queriesOf()
    for (let index = 0; index < 32; index++) await createProject(service, owner.session, `more-${index}`)
    await addPeople(1_000)
    const many = await queriesOf()
    expect(many.rows).toBeGreaterThan(190)
    expect(few.queries).toBeGreaterThan(2)
    expect(many.queries).toBeLessThanOrEqual(few.queries)
    const pages = await readPages(200)
    const people = pages.flat().filter(({ actor }) => actor.name.startsWith('person-'))
    expect(people).toHaveLength(1_000)
    expect(people.every(({ environments }) => environments.length === 34 * 3)).toBe(true)
  } finally {
    for (const spy of spies) spy.mockRestore()
  }
})

async function addPeople(count: number): Promise<void> {
  const { engine, keys, now, snapshots } = service.app.services
  await engine.transaction('people', async ({ db }) => {
    const { accounts, members } = storeOver(db, keys)
    const createdAt = now()
    for (let index = 0; index < count; index++) {
      const userId = newId()
      const email = `person-${index}@example.com`
      const account = { id: userId, email, name: '', passwordHash: '', preferences: defaultPreferences, createdAt }
      await accounts.insert({ ...account, emailVerifiedAt: null })
      const grants: Grants = [{ role: 'member', scope: { ...none, all: true } }]
      await members.insert({ id: newId(), workspaceId, userId, isOwner: false, grants, createdAt })
    }
  })
  snapshots.drop(workspaceId)
}
