import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  createProject,
  createToken,
  exchange,
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

test('a session stands for its person, with all rights and no workspace of its own', async () => {
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

test('a token, its JWT and a command-line token say what they are and what they reach', async () => {
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

test('a token that never expires says so', async () => {
  const { token } = await createToken(service, owner.session, { expiresIn: 'never' })
  expect((await service.call('GET', '/v1/me', { token })).body).toMatchObject({ credential: { expiresAt: null } })
})
