import type { Me, Preferences } from '@coffer/contract/me'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  addUser,
  createProject,
  createToken,
  exchange,
  password,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../test/harness.ts'

let service: TestService
let owner: TestUser

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
})
afterAll(() => service.stop())

const everything = { all: true, teams: [], projects: [], environments: [] }

test('a session acts for its person, with full permission and without a workspace', async () => {
  const { body } = await service.call('GET', '/v1/me', { token: owner.session })
  expect(body).toMatchObject({
    id: owner.id,
    email: owner.email,
    name: 'Owner',
    mfa: false,
    preferences: { theme: 'system', defaultWorkspace: null, maskValues: true, emailNotifications: true },
    credential: { type: 'session', permission: 'read-write', scope: everything, workspaceId: null },
  })
})

test('a token, its JWT and a command-line token report their type, permission and scope', async () => {
  const project = await createProject(service, owner.session, 'api')
  const scope = { all: false, teams: [], projects: [project.id], environments: [] }
  const { token, expiresAt } = await createToken(service, owner.session, { permission: 'read', scope })
  const workspaceId = (await service.call<{ id: string }>('GET', '/v1/workspace/main', { token })).body.id
  const credential = { permission: 'read', scope, workspaceId }
  const asToken = await service.call('GET', '/v1/me', { token })
  expect(asToken.body).toMatchObject({ id: owner.id, credential: { type: 'static', ...credential, expiresAt } })
  const asJwt = await service.call('GET', '/v1/me', { token: await exchange(service, token) })
  expect(asJwt.body).toMatchObject({ id: owner.id, credential: { type: 'jwt', ...credential } })

  const environmentId = project.environments[0]?.id
  const cli = await service.call<{ token: string }>('POST', '/v1/workspace/main/tokens/cli', {
    token: owner.session,
    body: { environmentId },
  })
  const asCli = await service.call('GET', '/v1/me', { token: cli.body.token })
  const cliScope = { all: false, teams: [], projects: [], environments: [environmentId] }
  expect(asCli.body).toMatchObject({ credential: { type: 'cli', permission: 'read', scope: cliScope } })
})

test('a token that never expires has a null expiresAt', async () => {
  const { token } = await createToken(service, owner.session, { expiresIn: 'never' })
  expect((await service.call('GET', '/v1/me', { token })).body).toMatchObject({ credential: { expiresAt: null } })
})

const put = (path: string, body: unknown, token = owner.session) => service.call('PUT', path, { token, body })
const readMe = async (token = owner.session) => (await service.call<Me>('GET', '/v1/me', { token })).body
const readPreferences = async (token = owner.session) =>
  (await service.call<Preferences>('GET', '/v1/me/preferences', { token })).body
const defaults = { theme: 'system', defaultWorkspace: null, maskValues: true, emailNotifications: true }

test('name and preferences are updated together or alone; omitted fields keep their values', async () => {
  const { session } = await addUser(service, 'changing@example.com')
  expect((await put('/v1/me', { name: 'Changed' }, session)).body).toEqual({ success: true })
  expect(await readMe(session)).toMatchObject({ name: 'Changed', preferences: defaults })
  expect((await put('/v1/me', { name: 'Again', preferences: { theme: 'dark' } }, session)).status).toBe(200)
  expect(await readMe(session)).toMatchObject({ name: 'Again', preferences: { ...defaults, theme: 'dark' } })
  expect((await put('/v1/me', { preferences: { maskValues: false } }, session)).status).toBe(200)
  expect(await readMe(session)).toMatchObject({
    name: 'Again',
    preferences: { ...defaults, theme: 'dark', maskValues: false },
  })
})

test('preferences are one flat object with defaults, and an update keeps the omitted fields', async () => {
  const { session } = await addUser(service, 'preferring@example.com')
  expect(await readPreferences(session)).toEqual(defaults)
  const changed = { theme: 'light', defaultWorkspace: null, maskValues: false, emailNotifications: false }
  expect((await put('/v1/me/preferences', changed, session)).body).toEqual({ success: true, ...changed })
  expect(await readPreferences(session)).toEqual(changed)
  await put('/v1/me/preferences', { emailNotifications: true }, session)
  expect(await readPreferences(session)).toEqual({ ...changed, emailNotifications: true })
})

test('the default workspace is one of the person’s own, and null once that workspace is deleted', async () => {
  const { body: main } = await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: owner.session })
  const stranger = await addUser(service, 'stranger@example.com')
  const message = 'defaultWorkspace: is not the id of a workspace that you belong to.'
  const absentId = '01890000-0000-7000-8000-00000000dead'
  for (const defaultWorkspace of [main.id, absentId]) {
    const refused = await put('/v1/me/preferences', { defaultWorkspace }, stranger.session)
    expect(refused).toMatchObject({ status: 400, body: { message } })
    const nested = await put('/v1/me', { name: 'X', preferences: { defaultWorkspace } }, stranger.session)
    expect(nested).toMatchObject({ status: 400, body: { message: `preferences.${message}` } })
  }
  expect(await readMe(stranger.session)).toMatchObject({ name: stranger.email, preferences: defaults })
  const { body: own } = await service.call<{ id: string }>('POST', '/v1/workspace', {
    token: stranger.session,
    body: { name: 'Own', slug: 'own' },
  })
  expect((await put('/v1/me/preferences', { defaultWorkspace: own.id.toUpperCase() }, stranger.session)).status).toBe(
    200,
  )
  expect((await readPreferences(stranger.session)).defaultWorkspace).toBe(own.id)
  await service.call('DELETE', '/v1/workspace/own', { token: stranger.session, body: { password } })
  expect((await readPreferences(stranger.session)).defaultWorkspace).toBeNull()
  expect((await readMe(stranger.session)).preferences.defaultWorkspace).toBeNull()
})

test.each([
  ['/v1/me', {}, 'body: must have at least one field.'],
  ['/v1/me', { name: '' }, 'name: must not be empty.'],
  ['/v1/me', { name: 'x'.repeat(65) }, 'name: must have 64 characters or fewer.'],
  ['/v1/me', { name: 'a\nb' }, 'name: has characters or a format that is not allowed.'],
  ['/v1/me', { email: 'x@example.com' }, 'email: is not a known field.'],
  ['/v1/me', { preferences: { colour: 'red' } }, 'preferences.colour: is not a known field.'],
  ['/v1/me', { preferences: {} }, 'preferences: must have at least one field.'],
  ['/v1/me/preferences', {}, 'body: must have at least one field.'],
  ['/v1/me/preferences', { theme: 'blue' }, 'theme: must be one of: system, light, dark.'],
  ['/v1/me/preferences', { maskValues: 'yes' }, 'maskValues: must be a boolean.'],
  ['/v1/me/preferences', { defaultWorkspace: 'main' }, 'defaultWorkspace: must have 36 characters or more.'],
  ['/v1/me/preferences', { defaultWorkspace: 1 }, 'defaultWorkspace: must be a string or null.'],
  ['/v1/me/preferences', { theme: 'dark', language: 'en' }, 'language: is not a known field.'],
])('PUT %s refuses %o', async (path, body, message) => {
  const before = await readMe()
  expect(await put(path, body)).toMatchObject({ status: 400, body: { message } })
  expect(await readMe()).toMatchObject({ name: before.name, preferences: before.preferences })
})

test('a token cannot change the profile or the preferences of its creator', async () => {
  const { token } = await createToken(service, owner.session)
  for (const path of ['/v1/me', '/v1/me/preferences']) {
    const body = path.endsWith('me') ? { name: 'X' } : { theme: 'dark' }
    expect((await put(path, body, token)).status).toBe(403)
    expect((await put(path, body, await exchange(service, token))).status).toBe(403)
  }
  expect((await service.call('GET', '/v1/me/preferences', { token })).status).toBe(403)
})

test('a new name is recorded in the audit trail of the workspace; preferences are not', async () => {
  await put('/v1/me', { name: 'Renamed', preferences: { theme: 'dark' } })
  const { body } = await service.call('GET', `/v1/workspace/main/audit?entity=${owner.id}&action=update`, {
    token: owner.session,
  })
  expect(body).toMatchObject([{ before: { name: 'Owner' }, after: { name: 'Renamed' } }])
})
