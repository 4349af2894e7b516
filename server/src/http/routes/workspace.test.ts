import type { IssuedInvite } from '@coffer/contract/invite'
import type { Workspace } from '@coffer/contract/workspace'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  addUser,
  createProject,
  createToken,
  password,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../test/harness.ts'
import { sql } from '../../store/engine/sql.ts'

let service: TestService
let owner: TestUser

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
})
afterAll(() => service.stop())

const as = (user: TestUser, options = {}) => ({ token: user.session, ...options })

async function createWorkspace(slug: string): Promise<Workspace> {
  const answer = await service.call<Workspace>('POST', '/v1/workspace', as(owner, { body: { name: slug, slug } }))
  expect(answer.status, answer.text).toBe(201)
  return answer.body
}

test('the first account owns a workspace "main" with a team "Everyone"', async () => {
  const { body } = await service.call<Workspace[]>('GET', '/v1/workspace', as(owner))
  expect(body[0]).toMatchObject({ name: 'Main', slug: 'main', role: 'admin', isOwner: true })
  expect((await service.call('GET', '/v1/workspace/main/team/', as(owner))).body).toMatchObject([{ name: 'Everyone' }])
})

test('a workspace is created, read by slug and by id, updated and deleted', async () => {
  const made = await createWorkspace('acme')
  expect(made).toMatchObject({ slug: 'acme', role: 'admin', isOwner: true })
  expect((await service.call('GET', '/v1/workspace/acme', as(owner))).body).toEqual(made)
  expect((await service.call('GET', `/v1/workspace/${made.id}`, as(owner))).body).toEqual(made)
  const changed = await service.call('PUT', '/v1/workspace/acme', as(owner, { body: { name: 'Acme', slug: 'acme-2' } }))
  expect(changed.body).toEqual({ success: true, ...made, name: 'Acme', slug: 'acme-2' })
  expect((await service.call('GET', '/v1/workspace/acme', as(owner))).status).toBe(404)
  expect((await service.call('DELETE', '/v1/workspace/acme-2', as(owner, { body: { password } }))).body).toEqual({
    success: true,
  })
  expect((await service.call('GET', `/v1/workspace/${made.id}`, as(owner))).status).toBe(404)
})

test('tokens and projects end with their workspace, and its slug is free again', async () => {
  const made = await createWorkspace('brief')
  await createProject(service, owner.session, 'api', { workspace: 'brief' })
  const { token } = await createToken(service, owner.session, {}, 'brief')
  expect((await service.call('GET', '/v1/workspace', { token })).body).toEqual([made])
  await service.call('DELETE', '/v1/workspace/brief', as(owner, { body: { password } }))
  expect((await service.call('GET', '/v1/workspace', { token })).status).toBe(401)
  await createWorkspace('brief')
  expect((await service.call('GET', '/v1/workspace/brief/project/api', as(owner))).status).toBe(404)
})

test('a slug is unique, also under concurrent creations', async () => {
  const answers = await Promise.all(
    Array.from({ length: 20 }, () =>
      service.call('POST', '/v1/workspace', as(owner, { body: { name: 'Race', slug: 'race' } })),
    ),
  )
  expect(answers.map(({ status }) => status).sort()).toEqual([201, ...Array.from({ length: 19 }, () => 409)])
  const taken = await service.call('PUT', '/v1/workspace/race', as(owner, { body: { slug: 'main' } }))
  expect(taken).toMatchObject({ status: 409, body: { message: 'The slug "main" is taken.' } })
})

test.each([
  ['a reserved word', { name: 'x', slug: 'invite' }, 'slug: "invite" is a reserved word.'],
  [
    'a slug in the form of an id',
    { name: 'x', slug: '01a1dcf1-b912-73cb-9386-016275561f1a' },
    'slug: must not look like an id.',
  ],
  ['one character', { name: 'x', slug: 'x' }, 'slug: must have 2 characters or more.'],
  ['capitals', { name: 'x', slug: 'Acme' }, 'slug: has characters or a format that is not allowed.'],
  ['49 characters', { name: 'x', slug: 'x'.repeat(49) }, 'slug: must have 48 characters or fewer.'],
])('refuses %s', async (_what, body, message) => {
  expect(await service.call('POST', '/v1/workspace', as(owner, { body }))).toMatchObject({
    status: 400,
    body: { message },
  })
})

const pageWords = ['login', 'setup', 'me', 'share', 'invite', 'device', 'reset']
const programWords = ['docs', 'v1', 'assets', 'logo', 'healthz', 'readyz', 'metrics']

test.each([...pageWords, ...programWords])('no new workspace hides behind the path /%s', async (slug) => {
  const refusal = { status: 400, body: { message: `slug: "${slug}" is a reserved word.` } }
  expect(await service.call('POST', '/v1/workspace', as(owner, { body: { name: 'x', slug } }))).toMatchObject(refusal)
  expect(await service.call('PUT', '/v1/workspace/main', as(owner, { body: { slug } }))).toMatchObject(refusal)
})

test('a project may have the word of a page as its slug: its path starts with the workspace', async () => {
  for (const slug of ['login', 'docs', 'metrics']) await createProject(service, owner.session, slug)
})

test('a workspace whose slug became a reserved word later can still be read, renamed and left behind', async () => {
  const { id } = await createWorkspace('sign-in')
  const { engine, snapshots } = service.app.services
  await engine.transaction('test', ({ db }) => db.count(sql`update workspace set slug = 'login' where id = ${id}`))
  snapshots.drop(id)
  for (const path of [id, 'login']) {
    expect((await service.call('GET', `/v1/workspace/${path}`, as(owner))).body).toMatchObject({ id, slug: 'login' })
  }
  const change = async (body: object) => (await service.call('PUT', `/v1/workspace/${id}`, as(owner, { body }))).body
  expect(await change({ name: 'Sign-in', slug: 'login' })).toMatchObject({ name: 'Sign-in', slug: 'login' })
  expect(await change({ slug: 'sign-in' })).toMatchObject({ slug: 'sign-in' })
  expect(await change({ slug: 'login' })).toMatchObject({ message: 'slug: "login" is a reserved word.' })
})

test.each(['x', 'ACME', 'a_b', 'x'.repeat(49), '%20%20', 'ä'])(
  'a path with the malformed workspace %j is 400',
  async (ws) => {
    const answer = await service.call('GET', `/v1/workspace/${encodeURI(ws)}`, as(owner))
    expect(answer.status).toBe(400)
    expect(answer.body).toMatchObject({ message: expect.stringMatching(/^ws: /) })
  },
)

test('a person is in 1,000 workspaces at most, created or joined, owned or not', { timeout: 600_000 }, async () => {
  const collector = await addUser(service, 'collector@example.com')
  const make = (at: number) =>
    service.call<{ id: string; message: string }>(
      'POST',
      '/v1/workspace',
      as(collector, { body: { name: 'One of many', slug: `many-${at}` } }),
    )
  // No more at once than the store runs concurrently: a request that waits five seconds for a slot is refused.
  const atOnce = 16
  for (let at = 0; at < 1_000; at += atOnce) {
    const made = await Promise.all(Array.from({ length: Math.min(atOnce, 1_000 - at) }, (_, index) => make(at + index)))
    expect(new Set(made.map(({ status }) => status))).toEqual(new Set([201]))
  }
  const message = 'You belong to 1000 workspaces: delete one, or have an admin remove you from one.'
  expect(await make(1_000)).toMatchObject({ status: 409, body: { message } })
  expect((await service.call('GET', '/v1/workspace/many-1000', as(collector))).status).toBe(404)
  const { id: workspaceId } = (await service.call<Workspace>('GET', '/v1/workspace/many-7', as(collector))).body
  const heir = await addUser(service, 'heir-of-many@example.com', { workspaceId, role: 'admin' })
  const body = { memberId: heir.memberId, password }
  expect((await service.call('POST', '/v1/workspace/many-7/owner', as(collector, { body }))).status).toBe(200)
  expect((await make(1_000)).status).toBe(409)
  const invite = { email: collector.email, role: 'member', scope: { all: true } }
  const { inviteToken: token } = (
    await service.call<IssuedInvite>('POST', '/v1/workspace/main/rbac', as(owner, { body: invite }))
  ).body
  const accept = () => service.call('POST', '/v1/workspace/invite/accept', as(collector, { body: { token } }))
  expect(await accept()).toMatchObject({ status: 409, body: { message } })
  expect((await service.call('DELETE', '/v1/workspace/many-7', as(heir, { body: { password } }))).status).toBe(200)
  expect((await accept()).status).toBe(200)
  expect((await make(1_000)).status).toBe(409)
  expect((await service.call('DELETE', '/v1/workspace/many-8', as(collector, { body: { password } }))).status).toBe(200)
  expect((await make(1_000)).status).toBe(201)
})

test('transferring ownership makes the new owner an unscoped admin; the old owner stays admin', async () => {
  const made = await createWorkspace('handed')
  const heir = await addUser(service, 'heir@example.com', {
    workspaceId: made.id,
    role: 'member',
    scope: { all: false, teams: [], projects: [], environments: [made.id] },
  })
  const path = '/v1/workspace/handed/owner'
  expect((await service.call('POST', path, as(heir, { body: { memberId: heir.memberId } }))).status).toBe(403)
  const unknown = { memberId: made.id, password }
  expect((await service.call('POST', path, as(owner, { body: unknown }))).status).toBe(404)
  const handed = await service.call('POST', path, as(owner, { body: { memberId: heir.memberId, password } }))
  expect(handed.body).toEqual({ success: true })
  const seen = await service.call('GET', '/v1/workspace/handed', as(heir))
  expect(seen.body).toMatchObject({ role: 'admin', isOwner: true })
  expect((await service.call('DELETE', '/v1/workspace/handed', as(owner, { body: { password } }))).status).toBe(403)
  const former = await service.call('GET', '/v1/workspace/handed', as(owner))
  expect(former.body).toMatchObject({ role: 'admin', isOwner: false })
  expect((await service.call('DELETE', '/v1/workspace/handed', as(heir, { body: { password } }))).status).toBe(200)
})

test('one of many concurrent ownership transfers wins, and there is exactly one owner', async () => {
  const made = await createWorkspace('many-heirs')
  const heirs = await Promise.all(
    Array.from({ length: 5 }, (_, index) =>
      addUser(service, `heir-${index}@example.com`, { workspaceId: made.id, role: 'developer' }),
    ),
  )
  const answers = await Promise.all(
    heirs.map(({ memberId }) =>
      service.call('POST', '/v1/workspace/many-heirs/owner', as(owner, { body: { memberId, password } })),
    ),
  )
  expect(answers.map(({ status }) => status).sort()).toEqual([200, 403, 403, 403, 403])
  const seen = await Promise.all(
    heirs.map(
      async (heir) => (await service.call<Workspace>('GET', '/v1/workspace/many-heirs', as(heir))).body.isOwner,
    ),
  )
  expect(seen.filter(Boolean)).toHaveLength(1)
})

test('a token sees its own workspace only, and cannot create one', async () => {
  const { token } = await createToken(service, owner.session)
  const { body } = await service.call<Workspace[]>('GET', '/v1/workspace/', { token })
  expect(body.map(({ slug }) => slug)).toEqual(['main'])
  expect((await service.call('GET', '/v1/workspace/race', { token })).status).toBe(404)
  expect((await service.call('POST', '/v1/workspace', { token, body: { name: 'x', slug: 'xx' } })).status).toBe(403)
})

test('creation and updates are in the audit trail', async () => {
  await createWorkspace('told')
  await service.call('PUT', '/v1/workspace/told', as(owner, { body: { name: 'Told again' } }))
  const { body } = await service.call('GET', '/v1/workspace/told/audit', as(owner))
  expect(body).toMatchObject([
    { action: 'UPDATE', before: { name: 'told', slug: 'told' }, after: { name: 'Told again', slug: 'told' } },
    { action: 'CREATE', actor: { type: 'user', id: owner.id, name: owner.email }, entity: { type: 'workspace' } },
  ])
})
