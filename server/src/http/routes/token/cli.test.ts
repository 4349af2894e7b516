/** Command-line tokens: created by a session, for reading one environment, for 8 hours. */
import type { Token } from '@coffer/contract/token'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  addUser,
  createProject,
  createTeam,
  createToken,
  exchange,
  registerOwner,
  startService,
  type TestProject,
  type TestService,
  type TestUser,
} from '../../../../../test/harness.ts'

let service: TestService
let owner: TestUser
let member: TestUser
let narrow: TestUser
let project: TestProject
let otherTeam: string

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
  project = await createProject(service, owner.session, 'api')
  otherTeam = await createTeam(service, owner.session, 'Other')
  const workspaceId = (await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: owner.session })).body
    .id
  member = await addUser(service, 'member@example.com', { workspaceId, role: 'member' })
  const scope = { all: false, teams: [], projects: [project.id], environments: [] }
  narrow = await addUser(service, 'narrow@example.com', { workspaceId, role: 'admin', scope })
})
afterAll(() => service.stop())

const list = '/v1/workspace/main/tokens'
const as = (user: TestUser, options = {}) => ({ token: user.session, ...options })
const statusOf = async (token: string) => (await service.call('GET', '/v1/workspace/main', { token })).status

test('a command-line token reads one environment for 8 hours', async () => {
  const environmentId = project.environments[1]?.id
  const made = await service.call<{ token: string; expiresAt: string }>(
    'POST',
    `${list}/cli`,
    as(member, { body: { environmentId } }),
  )
  expect(made.status).toBe(201)
  expect(Math.abs(Date.parse(made.body.expiresAt) - Date.now() - 8 * 3_600_000)).toBeLessThan(60_000)
  const seen = await service.call('GET', '/v1/workspace/main/project/api/environment', { token: made.body.token })
  expect(seen.body).toMatchObject([{ id: environmentId, name: 'staging' }])
  const unknown = { environmentId: '01a1dcf1-b912-73cb-9386-016275561f1a' }
  expect((await service.call('POST', `${list}/cli`, as(member, { body: unknown }))).status).toBe(404)
})

test('a command-line token is read-only, limited to its environment, and expires after 8 hours', async () => {
  const [development, staging] = project.environments
  const { body } = await makeCli(member.session, development?.id)
  const secrets = '/v1/workspace/main/project/api/secret'
  const read = (path: string) => service.call('GET', path, { token: body.token })
  expect((await read(`${secrets}?environmentId=${development?.id}`)).status).toBe(200)
  expect((await read('/v1/secrets')).status).toBe(200)
  expect((await read(`${secrets}?environmentId=${staging?.id}`)).status).toBe(404)
  const write = { environments: [development?.id], secrets: [{ key: 'NEW', value: 'x' }] }
  expect((await service.call('POST', secrets, { token: body.token, body: write })).status).toBe(403)
  service.clock.offsetMs = 8 * 3_600_000 - 60_000
  expect(await statusOf(body.token)).toBe(200)
  service.clock.offsetMs = 8 * 3_600_000 + 1_000
  expect(await statusOf(body.token)).toBe(401)
  service.clock.offsetMs = 0
})

const makeCli = (token: string, environmentId: string | undefined, workspace = 'main') =>
  service.call<{ token: string; expiresAt: string }>('POST', `/v1/workspace/${workspace}/tokens/cli`, {
    token,
    body: { environmentId },
  })

test('a command-line token shows its creator their personal values', async () => {
  const [environment] = project.environments
  const at = '/v1/workspace/main/project/api'
  const setting = { hasPersonalOverrides: true }
  await service.call('PUT', `${at}/environment/${environment?.id}`, as(owner, { body: setting }))
  const body = { environments: [environment?.id], secrets: [{ key: 'OWN', value: 'shared' }] }
  await service.call('POST', `${at}/secret`, as(owner, { body }))
  const own = { environmentId: environment?.id, value: 'mine', isPersonal: true }
  expect((await service.call('PUT', `${at}/secret/OWN/value`, as(member, { body: own }))).status).toBe(200)
  const seen = async (user: TestUser) => {
    const { token } = (await makeCli(user.session, environment?.id)).body
    return (await service.call('GET', `${at}/secret/OWN`, { token })).text
  }
  expect(await seen(member)).toContain('"mine"')
  expect(await seen(owner)).not.toContain('"mine"')
})

test('sessions of every role and of the command line create command-line tokens, tokens and JWTs do not', async () => {
  const [environment] = project.environments
  for (const user of [owner, member, narrow]) expect((await makeCli(user.session, environment?.id)).status).toBe(201)
  const { body: codes } = await service.call<{ deviceCode: string; userCode: string }>('POST', '/v1/auth/device/code', {
    body: { clientId: 'cli' },
  })
  const approval = { userCode: codes.userCode, approve: true }
  await service.call('POST', '/v1/auth/device/approve', as(member, { body: approval }))
  const login = await service.call<{ accessToken: string }>('POST', '/v1/auth/device/token', {
    body: { clientId: 'cli', deviceCode: codes.deviceCode },
  })
  const made = await makeCli(login.body.accessToken, environment?.id)
  expect(made.status).toBe(201)
  const writing = await createToken(service, owner.session)
  const reading = await createToken(service, owner.session, { permission: 'read' })
  const refused = [writing.token, reading.token, made.body.token]
  for (const token of [...refused, await exchange(service, writing.token), await exchange(service, made.body.token)]) {
    expect((await makeCli(token, environment?.id)).status).toBe(403)
  }
})

test('a command-line token needs an environment of this workspace in the scope of its creator', async () => {
  const outside = await createProject(service, owner.session, 'outside', { teamId: otherTeam })
  const stranger = await addUser(service, 'elsewhere@example.com')
  await service.call('POST', '/v1/workspace', as(stranger, { body: { name: 'Elsewhere', slug: 'elsewhere' } }))
  const theirs = await createProject(service, stranger.session, 'theirs', { workspace: 'elsewhere' })
  for (const environmentId of [outside.environments[0]?.id, theirs.environments[0]?.id]) {
    const answer = await makeCli(narrow.session, environmentId)
    expect([answer.status, answer.text]).toEqual([404, '{"message":"Not found."}'])
  }
  expect((await makeCli(stranger.session, project.environments[0]?.id)).status).toBe(404)
  expect((await makeCli(stranger.session, project.environments[0]?.id, 'elsewhere')).status).toBe(404)
})

test('a command-line token takes an environment by a name that its creator reaches once, or with its project', async () => {
  const twin = await createProject(service, owner.session, 'twin')
  const make = (user: TestUser, body: object) =>
    service.call<{ token: string }>('POST', `${list}/cli`, as(user, { body }))
  const reachedBy = async (token: string) =>
    (await service.call<{ id: string }[]>('GET', '/v1/workspace/main/project/twin/environment', { token })).body
  const named = await make(owner, { environmentId: 'Staging', project: 'twin' })
  expect(named.status).toBe(201)
  expect(await reachedBy(named.body.token)).toMatchObject([{ id: twin.environments[1]?.id }])
  expect(await make(owner, { environmentId: 'staging' })).toMatchObject({
    status: 400,
    body: { message: 'environmentId: is a name in more than one project: send project too, or the id.' },
  })
  // The other projects are outside of this one's scope, so the name is clear.
  const narrowly = await make(narrow, { environmentId: 'staging' })
  expect(narrowly.status).toBe(201)
  const seen = await service.call('GET', '/v1/workspace/main/project/api/environment', { token: narrowly.body.token })
  expect(seen.body).toMatchObject([{ id: project.environments[1]?.id }])
  const refused = [
    make(narrow, { environmentId: 'staging', project: 'twin' }),
    make(narrow, { environmentId: twin.environments[1]?.id }),
    make(owner, { environmentId: 'nowhere', project: 'twin' }),
    make(owner, { environmentId: 'staging', project: 'no-project' }),
    make(owner, { environmentId: project.environments[1]?.id, project: 'twin' }),
  ]
  for (const answer of refused) expect((await answer).text).toBe('{"message":"Not found."}')
  for (const environmentId of ['', '\u0000', 7]) expect((await make(owner, { environmentId })).status).toBe(400)
})

test('a command-line token ends with its environment, and is listed and revoked like any other token', async () => {
  const passing = await createProject(service, owner.session, 'passing')
  const [first, second] = passing.environments
  const [ending, revoked] = [await makeCli(owner.session, first?.id), await makeCli(owner.session, second?.id)]
  const read = (token: string) => service.call('GET', '/v1/secrets', { token })
  expect([(await read(ending.body.token)).status, (await read(revoked.body.token)).status]).toEqual([200, 200])
  await service.call('DELETE', `/v1/workspace/main/project/passing/environment/${first?.id}`, as(owner))
  expect((await read(ending.body.token)).status).toBe(404)
  const { body } = await service.call<Token[]>('GET', list, as(owner))
  const listed = body.find(({ name }) => name === `cli passing/${second?.name}`)
  expect(listed).toMatchObject({ type: 'cli', permission: 'read', scope: { all: false, environments: [second?.id] } })
  expect((await service.call('DELETE', `${list}/${listed?.id}`, as(owner))).status).toBe(200)
  expect((await read(revoked.body.token)).status).toBe(401)
  const { body: trail } = await service.call('GET', `/v1/workspace/main/audit?entity=${listed?.id}`, as(owner))
  expect(trail).toMatchObject([{ action: 'DELETE' }, { action: 'CREATE', after: { type: 'cli', permission: 'read' } }])
})
