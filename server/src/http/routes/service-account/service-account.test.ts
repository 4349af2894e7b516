/** Service accounts: created, changed and listed by admins of the whole workspace alone. */
import type { AuditEntry } from '@coffer/contract/audit'
import { maxServiceAccounts, type ServiceAccount } from '@coffer/contract/service-account'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  addUser,
  createProject,
  createToken,
  exchange,
  password,
  registerOwner,
  startService,
  type TestProject,
  type TestService,
  type TestUser,
} from '../../../../../test/harness.ts'
import { createServiceAccount, createServiceToken } from '../../../../../test/service-account.ts'
import { newId } from '../../../crypto/id.ts'
import { storeOver } from '../../../store/store.ts'

const list = '/v1/workspace/main/service-account'
const dayMs = 24 * 3_600_000

let service: TestService
let owner: TestUser
let workspaceId: string
let project: TestProject
let made = 0

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
  project = await createProject(service, owner.session, 'api')
  workspaceId = (await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: owner.session })).body.id
})
afterAll(() => service.stop())

const newName = () => `account ${++made}`
const ask = <Body = { message: string }>(method: string, path: string, body?: unknown, token = owner.session) =>
  service.call<Body>(method, path, { token, ...(body !== undefined && { body }) })
const readAll = async () => (await ask<ServiceAccount[]>('GET', list)).body
const find = async (id: string) => (await readAll()).find((account) => account.id === id)
const everything = { all: true, teams: [], projects: [], environments: [] }
const only = (environmentId: string) => ({ all: false, teams: [], projects: [], environments: [environmentId] })
const environment = (index: number) => project.environments[index]?.id ?? ''

test('an account has a name and grants, and is listed with its creator', async () => {
  const name = newName()
  const grants = [
    { role: 'developer', scope: only(environment(0)) },
    { role: 'member', scope: everything },
  ]
  const sent = [
    { role: 'developer', scope: { environments: [environment(0)] } },
    { role: 'member', scope: { all: true } },
  ]
  const { status, body } = await ask<ServiceAccount>('POST', list, { name, grants: sent })
  expect(status).toBe(201)
  const expected = {
    name,
    role: 'developer',
    scope: only(environment(0)),
    grants,
    createdById: owner.id,
    tokens: 0,
    nextExpiryAt: null,
    lastUsedAt: null,
  }
  expect(body).toMatchObject(expected)
  expect(await find(body.id)).toEqual(body)
})

test('the list counts the tokens that can be used, and tells the next expiry and the last use', async () => {
  const { id } = await createServiceAccount(service, owner.session, { name: newName() })
  const lasting = await createServiceToken(service, owner.session, id, { expiresIn: 'never' })
  const month = await createServiceToken(service, owner.session, id, { expiresIn: '30d' })
  const day = await createServiceToken(service, owner.session, id, { expiresIn: '24h' })
  const revoked = await createServiceToken(service, owner.session, id, { expiresIn: '24h' })
  await ask('DELETE', `/v1/workspace/main/tokens/${revoked.id}`)
  expect(await find(id)).toMatchObject({ tokens: 3, nextExpiryAt: day.expiresAt, lastUsedAt: null })
  const before = Date.now()
  expect((await ask('GET', '/v1/workspace/main', undefined, lasting.token)).status).toBe(200)
  expect(Date.parse((await find(id))?.lastUsedAt ?? '')).toBeGreaterThanOrEqual(before)
  service.clock.offsetMs = 2 * dayMs
  const login = { email: owner.email, password }
  const { accessToken } = (await ask<{ accessToken: string }>('POST', '/v1/auth/login', login, '')).body
  const { body } = await ask<ServiceAccount[]>('GET', list, undefined, accessToken)
  service.clock.offsetMs = 0
  expect(body.find((account) => account.id === id)).toMatchObject({ tokens: 2, nextExpiryAt: month.expiresAt })
})

test('name and grants change together or alone', async () => {
  const { id } = await createServiceAccount(service, owner.session, { name: newName() })
  const name = newName()
  const renamed = await ask<ServiceAccount & { success: boolean }>('PUT', `${list}/${id}`, { name })
  expect(renamed.body).toMatchObject({ success: true, id, name, grants: [{ role: 'developer', scope: everything }] })
  const grants = [{ role: 'member', scope: { environments: [environment(1)] } }]
  const narrowed = await ask<ServiceAccount>('PUT', `${list}/${id}`, { grants })
  expect(narrowed.body).toMatchObject({ name, role: 'member', scope: only(environment(1)) })
  expect(await find(id)).toMatchObject({ name, role: 'member', scope: only(environment(1)) })
})

test('a name is taken once in a workspace, and free again after a removal', async () => {
  const [name, other] = [newName(), newName()]
  const { id } = await createServiceAccount(service, owner.session, { name })
  const second = await createServiceAccount(service, owner.session, { name: other })
  const message = `There is already a service account called "${name}": choose another name.`
  const grants = [{ role: 'member', scope: { all: true } }]
  const again = await ask('POST', list, { name, grants })
  expect([again.status, again.body.message]).toEqual([409, message])
  const renamed = await ask('PUT', `${list}/${second.id}`, { name })
  expect([renamed.status, renamed.body.message]).toEqual([409, message])
  expect((await ask('PUT', `${list}/${id}`, { name })).status).toBe(200)
  expect((await ask('DELETE', `${list}/${id}`)).status).toBe(200)
  expect((await ask('PUT', `${list}/${second.id}`, { name })).status).toBe(200)
})

test.each([
  ['an empty scope', [{ role: 'member', scope: {} }], /^scope: grants nothing/],
  ['an unknown project', [{ role: 'member', scope: { projects: [newId()] } }], /^scope: projects names /],
  ['an unknown role', [{ role: 'owner', scope: { all: true } }], /^grants/],
  ['no grant', [], /^grants/],
])('refuses %s with 400', async (_what, grants, message) => {
  const { status, body } = await ask('POST', list, { name: newName(), grants })
  expect(status).toBe(400)
  expect(body.message).toMatch(message)
})

test(`a workspace has at most ${maxServiceAccounts} service accounts`, async () => {
  const { engine, keys, now } = service.app.services
  const missing = maxServiceAccounts - (await readAll()).length
  const grants = [{ role: 'member', scope: everything }] as const
  await engine.transaction('accounts', async ({ db }) => {
    const { serviceAccounts } = storeOver(db, keys)
    for (let index = 0; index < missing; index++) {
      const account = {
        id: newId(),
        workspaceId,
        name: `filler ${index}`,
        grants,
        createdBy: owner.id,
        createdAt: now(),
      }
      await serviceAccounts.insert(account)
    }
  })
  const body = { name: newName(), grants }
  const refused = await ask('POST', list, body)
  expect(refused.status).toBe(409)
  expect(refused.body.message).toMatch(/^This workspace has 500 service accounts: /)
  const filler = (await readAll()).find(({ name }) => name === 'filler 0')
  await ask('DELETE', `${list}/${filler?.id}`)
  const created = await ask<ServiceAccount>('POST', list, body)
  expect(created.status).toBe(201)
  await engine.transaction('accounts', async ({ db }) => {
    const { serviceAccounts } = storeOver(db, keys)
    for (const { id, name } of await readAll())
      if (name.startsWith('filler')) await serviceAccounts.remove(id, workspaceId)
  })
})

describe('refuses', () => {
  const scope = () => ({ all: false, teams: [], projects: [project.id], environments: [] })
  const nothing = 'This concerns the whole workspace: it needs the scope "all".'

  test('everyone but an admin with scope "all"', async () => {
    const { id } = await createServiceAccount(service, owner.session, { name: newName() })
    const people = [
      [
        await addUser(service, 'member@example.com', { workspaceId, role: 'member' }),
        403,
        'This needs the role admin.',
      ],
      [
        await addUser(service, 'dev@example.com', { workspaceId, role: 'developer' }),
        403,
        'This needs the role admin.',
      ],
      [await addUser(service, 'narrow@example.com', { workspaceId, role: 'admin', scope: scope() }), 403, nothing],
      [await addUser(service, 'stranger@example.com'), 404, 'Not found.'],
    ] as const
    const grants = [{ role: 'member', scope: { all: true } }]
    const newToken = { name: 'ci', permission: 'read', scope: { all: true }, expiresIn: '24h' }
    for (const [{ session }, status, message] of people) {
      for (const [method, path, body] of [
        ['GET', list, undefined],
        ['POST', list, { name: newName(), grants }],
        ['PUT', `${list}/${id}`, { grants }],
        ['DELETE', `${list}/${id}`, undefined],
        ['DELETE', `${list}/${id}?dryRun=true`, undefined],
        ['POST', `${list}/${id}/tokens`, newToken],
      ] as const) {
        const answer = await ask(method, path, body, session)
        expect([answer.status, answer.body.message], `${method} ${path}`).toEqual([status, message])
      }
    }
  })

  test('a read token any change, and every token or JWT the creation of tokens', async () => {
    const { id } = await createServiceAccount(service, owner.session, { name: newName() })
    const reader = await createToken(service, owner.session, { permission: 'read' })
    const writer = await createToken(service, owner.session, { mayAdminister: true, expiresIn: '24h', password })
    expect((await ask('GET', list, undefined, reader.token)).status).toBe(200)
    expect((await ask('PUT', `${list}/${id}`, { name: newName() }, reader.token)).status).toBe(403)
    expect((await ask('PUT', `${list}/${id}`, { name: newName() }, writer.token)).status).toBe(200)
    const newToken = { name: 'ci', permission: 'read', scope: { all: true }, expiresIn: '24h' }
    for (const token of [writer.token, await exchange(service, writer.token)]) {
      expect((await ask('POST', `${list}/${id}/tokens`, newToken, token)).status).toBe(403)
    }
  })
})

test('each change is in the audit trail, with the grants before and after', async () => {
  const name = newName()
  const { id } = await createServiceAccount(service, owner.session, { name })
  await ask('PUT', `${list}/${id}`, { grants: [{ role: 'member', scope: { all: true } }] })
  await ask('DELETE', `${list}/${id}?dryRun=true`)
  await ask('DELETE', `${list}/${id}`)
  const { body } = await ask<AuditEntry[]>('GET', `/v1/workspace/main/audit?entity=${id}`)
  const entity = { type: 'service-account', id, name }
  const actor = { type: 'user', id: owner.id }
  expect(body).toMatchObject([
    { action: 'DELETE', entity, actor, after: { removed: { tokens: 0, shares: 0 } } },
    { action: 'UPDATE', entity, actor, before: { role: 'developer' }, after: { role: 'member' } },
    { action: 'CREATE', entity, actor, after: { role: 'developer', scope: everything } },
  ])
})
