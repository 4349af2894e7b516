/** Tokens of a service account have its rights, are managed by admins, and outlive the people who created them. */
import type { AuditEntry } from '@coffer/contract/audit'
import type { Me } from '@coffer/contract/me'
import type { IssuedToken, Token } from '@coffer/contract/token'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  addUser,
  createToken,
  exchange,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../../test/harness.ts'
import { createServiceAccount, createServiceToken } from '../../../../../test/service-account.ts'
import { createShareProject, type ShareProject } from '../../../../../test/share.ts'

const main = '/v1/workspace/main'
const tokens = `${main}/tokens`

let service: TestService
let owner: TestUser
let workspaceId: string
let project: ShareProject
let made = 0

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
  project = await createShareProject(service, owner.session)
  workspaceId = (await service.call<{ id: string }>('GET', main, { token: owner.session })).body.id
  for (const environment of ['development', 'production']) await project.set(environment, { KEY: `of ${environment}` })
})
afterAll(() => service.stop())

const ask = <Body = { message: string }>(method: string, path: string, body?: unknown, token = owner.session) =>
  service.call<Body>(method, path, { token, ...(body !== undefined && { body }) })
const account = (grants?: Parameters<typeof createServiceAccount>[2]) =>
  createServiceAccount(service, owner.session, { name: `account ${++made}`, ...grants })
const tokenOf = (id: string, body = {}, session = owner.session) => createServiceToken(service, session, id, body)
const only = (...environments: string[]) => ({ environments: environments.map(project.idOf) })
const readStatus = async (token: string, environment: string) =>
  (await project.ask('GET', `/secret?environmentId=${environment}`, undefined, token)).status
const writeStatus = async (token: string, environment: string) =>
  (await project.ask('PUT', '/secret/KEY/value', { environmentId: environment, value: `written ${++made}` }, token))
    .status
const addAdmin = () => addUser(service, `admin-${++made}@example.com`, { workspaceId, role: 'admin' })

test('a token acts with the rights of its account, not with those of the admin who created it', async () => {
  const { id } = await account({
    grants: [
      { role: 'developer', scope: only('development') },
      { role: 'member', scope: only('production') },
    ],
  })
  const { token } = await tokenOf(id, { scope: only('development', 'production') })
  for (const value of [token, await exchange(service, token)]) {
    expect(await writeStatus(value, 'development')).toBe(200)
    expect(await readStatus(value, 'production')).toBe(200)
    expect(await writeStatus(value, 'production')).toBe(403)
    expect(await readStatus(value, 'staging')).toBe(404)
    expect((await ask('GET', `${main}/rbac`, undefined, value)).status).toBe(403)
  }
})

test('GET /v1/me names the account, without an address', async () => {
  const { id, name, createdAt } = await account()
  const { token, expiresAt } = await tokenOf(id, { permission: 'read' })
  const { body } = await ask<Me>('GET', '/v1/me', undefined, token)
  expect(body).toMatchObject({ id, name, createdAt, email: '', emailVerified: false, mfa: false })
  expect(body.credential).toMatchObject({ type: 'static', permission: 'read', workspaceId, expiresAt })
  const { body: listed } = await ask<{ id: string; isOwner: boolean }[]>('GET', '/v1/workspace', undefined, token)
  expect(listed).toMatchObject([{ id: workspaceId, isOwner: false, role: 'developer' }])
})

describe('creating one', () => {
  test.each([
    ['everything, for a narrow account', { all: true }],
    ['another environment', { environments: ['production'] }],
  ])('with a scope of %s is refused with 400', async (_what, wanted) => {
    const { id, name } = await account({ grants: [{ role: 'developer', scope: only('development') }] })
    const scope = 'all' in wanted ? wanted : only(...wanted.environments)
    const body = { name: 'ci', permission: 'read', scope, expiresIn: '24h' }
    const refused = await ask('POST', `${main}/service-account/${id}/tokens`, body)
    expect(refused.status).toBe(400)
    expect(refused.body.message).toBe(`scope: goes beyond the grants of the service account ${name}.`)
  })

  test('with permission read-write is refused where the account only reads', async () => {
    const { id, name } = await account({
      grants: [
        { role: 'member', scope: only('production') },
        { role: 'developer', scope: only('development') },
      ],
    })
    const body = { name: 'ci', permission: 'read-write', scope: only('production'), expiresIn: '24h' }
    const refused = await ask('POST', `${main}/service-account/${id}/tokens`, body)
    expect(refused.status).toBe(403)
    expect(refused.body.message).toBe(
      `The service account ${name} can only read in this scope: a read-write token needs the role developer there.`,
    )
    expect((await ask('POST', `${main}/service-account/${id}/tokens`, { ...body, permission: 'read' })).status).toBe(
      201,
    )
  })

  test('is refused to a token of an admin account', async () => {
    const { id } = await account({ grants: [{ role: 'admin', scope: { all: true } }] })
    const { token } = await tokenOf(id)
    const body = { name: 'ci', permission: 'read', scope: { all: true }, expiresIn: '24h' }
    expect((await ask('POST', `${main}/service-account/${id}/tokens`, body, token)).status).toBe(403)
    expect((await ask('POST', tokens, body, token)).status).toBe(403)
  })
})

describe('the list', () => {
  test('tells who owns a token: a person by address, a service account by name', async () => {
    const { id: accountId, name } = await account()
    const theirs = await tokenOf(accountId)
    const mine = await createToken(service, owner.session)
    const { body } = await ask<Token[]>('GET', tokens)
    expect(body.find(({ id }) => id === theirs.id)).toMatchObject({
      ownerType: 'service',
      ownerId: accountId,
      ownerName: name,
      createdById: owner.id,
      isOwner: false,
    })
    expect(body.find(({ id }) => id === mine.id)).toMatchObject({
      ownerType: 'user',
      ownerId: owner.id,
      ownerName: owner.email,
      isOwner: true,
    })
  })

  test('shows tokens of service accounts to admins, and each to itself', async () => {
    const { id } = await account({ grants: [{ role: 'developer', scope: only('development') }] })
    const issued = await tokenOf(id, { scope: only('development') })
    const seenBy = async (token: string) =>
      (await ask<Token[]>('GET', tokens, undefined, token)).body.map((token) => token.id)
    const admin = await addAdmin()
    const developer = await addUser(service, `dev-${++made}@example.com`, { workspaceId, role: 'developer' })
    expect(await seenBy(admin.session)).toContain(issued.id)
    expect(await seenBy(developer.session)).not.toContain(issued.id)
    expect(await seenBy(issued.token)).toEqual([issued.id])
  })

  test('hides it from the creator once they are no admin any more', async () => {
    const admin = await addAdmin()
    const { id } = await account()
    const issued = await tokenOf(id, {}, admin.session)
    await ask('PUT', `${main}/rbac/${admin.memberId}`, { role: 'developer' })
    const { body } = await ask<Token[]>('GET', tokens, undefined, admin.session)
    expect(body.map((token) => token.id)).not.toContain(issued.id)
    expect((await ask('DELETE', `${tokens}/${issued.id}`, undefined, admin.session)).status).toBe(404)
    expect((await ask('POST', `${tokens}/${issued.id}/rotate`, {}, admin.session)).status).toBe(404)
    expect(await readStatus(issued.token, 'development')).toBe(200)
  })
})

test('every admin rotates and revokes it; it rotates itself; a developer finds nothing', async () => {
  const { id } = await account()
  const issued = await tokenOf(id)
  const admin = await addAdmin()
  const developer = await addUser(service, `dev-${++made}@example.com`, { workspaceId, role: 'developer' })
  for (const [method, end] of [
    ['POST', '/rotate'],
    ['DELETE', ''],
  ] as const) {
    expect((await ask(method, `${tokens}/${issued.id}${end}`, undefined, developer.session)).status).toBe(404)
  }
  const rotated = await ask<IssuedToken>('POST', `${tokens}/${issued.id}/rotate`, {}, admin.session)
  expect(rotated.status).toBe(200)
  expect(await readStatus(issued.token, 'development')).toBe(401)
  const again = await ask<IssuedToken>('POST', `${tokens}/${issued.id}/rotate`, {}, rotated.body.token)
  expect(again.status).toBe(200)
  expect(await readStatus(rotated.body.token, 'development')).toBe(401)
  expect(await readStatus(again.body.token, 'development')).toBe(200)
  expect((await ask('DELETE', `${tokens}/${issued.id}`, undefined, admin.session)).status).toBe(200)
  expect(await readStatus(again.body.token, 'development')).toBe(401)
})

test('it outlives the removal of the person who created it, with its JWTs and shares', async () => {
  const admin = await addAdmin()
  const { id } = await account()
  const { token } = await tokenOf(id, {}, admin.session)
  const jwt = await exchange(service, token)
  const share = await project.make({ content: 'shared', maxViews: 9 }, token)
  const theirs = await createToken(service, admin.session)
  expect((await ask('DELETE', `${main}/rbac/${admin.memberId}`)).status).toBe(200)
  expect(await readStatus(theirs.token, 'development')).toBe(401)
  for (const value of [token, jwt]) expect(await readStatus(value, 'development')).toBe(200)
  expect((await project.view(share.token)).body).toMatchObject({ content: 'shared' })
  expect(await project.find(share.id)).toMatchObject({ state: 'active', createdById: id })
  expect((await project.list(token)).map((entry) => entry.id)).toEqual([share.id])
  expect((await project.ask('DELETE', `/secret-share/${share.id}`, undefined, jwt)).status).toBe(200)
  expect((await project.view(share.token)).status).toBe(404)
})

test('narrower grants take effect at the next request, for tokens, JWTs and shares', async () => {
  const { id } = await account()
  const { token } = await tokenOf(id)
  const jwt = await exchange(service, token)
  const secrets = await project.must<{ id: string }[]>('GET', '/secret?environmentId=production')
  const values = [{ id: secrets[0]?.id ?? '', environmentId: project.idOf('production') }]
  const share = await project.make({ secrets: values, maxViews: 9 }, token)
  for (const value of [token, jwt]) expect(await writeStatus(value, 'production')).toBe(200)
  const change = (grants: unknown) => ask('PUT', `${main}/service-account/${id}`, { grants })
  await change([{ role: 'member', scope: { all: true } }])
  for (const value of [token, jwt]) {
    expect(await writeStatus(value, 'production')).toBe(403)
    expect(await readStatus(value, 'production')).toBe(200)
  }
  expect((await project.view(share.token)).status).toBe(404)
  await change([{ role: 'developer', scope: only('development') }])
  for (const value of [token, jwt]) {
    expect(await readStatus(value, 'production')).toBe(404)
    expect(await writeStatus(value, 'development')).toBe(200)
  }
  await change([{ role: 'developer', scope: { all: true } }])
  for (const value of [token, jwt]) expect(await writeStatus(value, 'production')).toBe(200)
  expect((await project.view(share.token)).status).toBe(200)
})

test('the trail names the token as the actor, and no token value is in the trail or a log', async () => {
  const { id } = await account()
  const issued = await tokenOf(id, { name: 'robot arm' })
  const jwt = await exchange(service, issued.token)
  await writeStatus(issued.token, 'development')
  await writeStatus(jwt, 'development')
  const rotated = await ask<IssuedToken>('POST', `${tokens}/${issued.id}/rotate`, { graceSeconds: 60 })
  const { body, text } = await ask<AuditEntry[]>('GET', `${main}/audit?limit=200`)
  const actor = { type: 'token', id: issued.id, name: 'robot arm' }
  const writes = body.filter(({ action, actor: { id } }) => action === 'UPDATE' && id === issued.id)
  expect(writes).toMatchObject([{ actor }, { actor }])
  for (const entry of writes) expect(entry).not.toHaveProperty('details')
  const created = body.find(({ action, entity }) => action === 'CREATE' && entity.id === issued.id)
  expect(created).toMatchObject({ actor: { type: 'user', id: owner.id }, after: { serviceAccount: id } })
  for (const value of [issued.token, rotated.body.token, jwt]) {
    expect(text).not.toContain(value)
    expect(service.logs.join('\n')).not.toContain(value)
  }
})
