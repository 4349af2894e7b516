/** A token that is given to a service account keeps its value and settings, and never gains rights. */
import type { AuditEntry } from '@coffer/contract/audit'
import type { Grant, Scope } from '@coffer/contract/field'
import type { NewServiceAccount } from '@coffer/contract/service-account'
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
import { createSecretProject, type SecretProject } from '../../../../../test/secret-project.ts'
import { createServiceAccount, createServiceToken } from '../../../../../test/service-account.ts'
import { newId } from '../../../crypto/id.ts'

const main = '/v1/workspace/main'
const tokens = `${main}/tokens`
const everything: Scope = { all: true, teams: [], projects: [], environments: [] }

let service: TestService
let owner: TestUser
let workspaceId: string
let project: SecretProject
let made = 0

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
  project = await createSecretProject(service, owner.session)
  workspaceId = (await service.call<{ id: string }>('GET', main, { token: owner.session })).body.id
  for (const environment of ['development', 'production']) await project.set(environment, { KEY: environment })
})
afterAll(() => service.stop())

const ask = <Body = { message: string }>(method: string, path: string, body?: unknown, token = owner.session) =>
  service.call<Body>(method, path, { token, ...(body !== undefined && { body }) })
const account = (...grants: NewServiceAccount['grants']) =>
  createServiceAccount(service, owner.session, { name: `account ${++made}`, ...(grants.length > 0 && { grants }) })
const person = (role: Grant['role'], scope = everything, ...further: Grant[]) =>
  addUser(service, `person-${++made}@example.com`, { workspaceId, role, scope, further })
const transfer = (tokenId: string, serviceAccountId: string, token = owner.session) =>
  ask<Token & { success: boolean; message: string }>(
    'POST',
    `${tokens}/${tokenId}/transfer`,
    { serviceAccountId },
    token,
  )
const only = (...environments: string[]) => ({
  all: false,
  teams: [],
  projects: [],
  environments: environments.map(project.idOf),
})
const statusOf = async (token: string, environment = 'development') =>
  (await project.ask('GET', `/secret?environmentId=${environment}`, undefined, token)).status

async function expectRefused(tokenId: string, accountId: string, message: string): Promise<void> {
  const refused = await transfer(tokenId, accountId)
  expect([refused.status, refused.body.message]).toEqual([409, message])
  const { body } = await ask<Token[]>('GET', `${tokens}?limit=200`)
  expect(body.find(({ id }) => id === tokenId)?.ownerId).not.toBe(accountId)
}

test('value, id, prefix and settings stay; the owner is the account', async () => {
  const developer = await person('developer')
  const issued = await createToken(service, developer.session, {
    name: 'deploys',
    scope: only('development'),
    allowedIps: ['127.0.0.0/8'],
  })
  const { id, name } = await account()
  const before = (await ask<Token[]>('GET', tokens)).body.find((token) => token.id === issued.id)
  const { status, body } = await transfer(issued.id, id)
  expect(status).toBe(200)
  const owned = { ownerType: 'service', ownerId: id, ownerName: name, createdById: developer.id }
  expect(body).toEqual({ ...before, ...owned, success: true })
  const { success: _success, ...listed } = body
  expect((await ask<Token[]>('GET', tokens)).body.find((token) => token.id === issued.id)).toEqual(listed)
  expect(await statusOf(issued.token)).toBe(200)
  expect(await statusOf(issued.token, 'production')).toBe(404)
})

test('token and JWTs go on when the person is removed, and the person manages it no more', async () => {
  const developer = await person('developer')
  const issued = await createToken(service, developer.session)
  const jwt = await exchange(service, issued.token)
  const { id } = await account()
  await transfer(issued.id, id)
  expect((await ask<Token[]>('GET', tokens, undefined, developer.session)).body).toEqual([])
  expect((await ask('DELETE', `${tokens}/${issued.id}`, undefined, developer.session)).status).toBe(404)
  expect((await ask('DELETE', `${main}/rbac/${developer.memberId}`)).body).toMatchObject({ tokens: [] })
  for (const token of [issued.token, jwt]) expect(await statusOf(token)).toBe(200)
  await ask('PUT', `${main}/service-account/${id}`, { grants: [{ role: 'member', scope: only('production') }] })
  for (const token of [issued.token, jwt]) expect(await statusOf(token)).toBe(404)
})

test('a token moves from one account to another, and can be rotated there', async () => {
  const [first, second] = [await account(), await account()]
  const issued = await createServiceToken(service, owner.session, first.id)
  expect((await transfer(issued.id, second.id)).body).toMatchObject({ ownerId: second.id, ownerName: second.name })
  await ask('DELETE', `${main}/service-account/${first.id}`)
  expect(await statusOf(issued.token)).toBe(200)
  const rotated = await ask<IssuedToken>('POST', `${tokens}/${issued.id}/rotate`, {})
  expect(await statusOf(issued.token)).toBe(401)
  expect(await statusOf(rotated.body.token)).toBe(200)
})

test('the previous value keeps its grace period', async () => {
  const issued = await createToken(service, owner.session)
  const { body } = await ask<IssuedToken>('POST', `${tokens}/${issued.id}/rotate`, { graceSeconds: 60 })
  await transfer(issued.id, (await account()).id)
  for (const token of [issued.token, body.token]) expect(await statusOf(token)).toBe(200)
  service.clock.offsetMs = 61_000
  expect([await statusOf(issued.token), await statusOf(body.token)]).toEqual([401, 200])
  service.clock.offsetMs = 0
})

describe('refused with 409:', () => {
  test('a token of the command line', async () => {
    const environmentId = project.idOf('development')
    await ask('POST', `${tokens}/cli`, { environmentId })
    const cli = (await ask<Token[]>('GET', tokens)).body.find(({ type }) => type === 'cli')
    const message = 'A token of the command line cannot be transferred: it belongs to one person and expires in hours.'
    await expectRefused(cli?.id ?? '', (await account()).id, message)
  })

  test('a revoked and an expired token', async () => {
    const { id } = await account()
    const revoked = await createToken(service, owner.session)
    await ask('DELETE', `${tokens}/${revoked.id}`)
    await expectRefused(revoked.id, id, 'This token is revoked: create a new one for the service account.')
    const { keys, engine } = service.app.services
    const short = await createToken(service, owner.session, { expiresIn: '24h' })
    const { storeOver } = await import('../../../store/store.ts')
    await engine.transaction('test', async ({ db }) => {
      const store = storeOver(db, keys)
      const record = await store.tokens.find(short.id, workspaceId)
      if (!record) throw new Error('the token is missing')
      await store.tokens.removeOf(owner.id, workspaceId)
      await store.tokens.insert({ ...record, expiresAt: Date.now() - 1_000 })
    })
    await expectRefused(short.id, id, 'This token has expired: create a new one for the service account.')
  })

  test('a token that the account already has', async () => {
    const { id, name } = await account()
    const issued = await createServiceToken(service, owner.session, id)
    const refused = await transfer(issued.id, id)
    expect(refused.body.message).toBe(`This token already belongs to the service account ${name}.`)
    expect(refused.status).toBe(409)
  })

  test.each([
    ['everything', () => everything],
    ['a second environment', () => only('development', 'production')],
    ['the project around it', () => ({ ...only(), projects: [project.id] })],
  ])('a token for %s, for an account of one environment', async (_what, scope) => {
    const { id, name } = await account({ role: 'developer', scope: only('development') })
    const issued = await createToken(service, owner.session, { scope: scope() })
    await expectRefused(
      issued.id,
      id,
      `The scope of this token goes beyond the grants of the service account ${name}: extend the grants first.`,
    )
  })

  test('a read-write token, for an account that only reads in its scope', async () => {
    const { id, name } = await account(
      { role: 'member', scope: { all: true } },
      { role: 'developer', scope: only('production') },
    )
    const issued = await createToken(service, owner.session, { scope: only('development') })
    await expectRefused(
      issued.id,
      id,
      `This is a read-write token, and the service account ${name} has the role developer nowhere in its scope: give it the role first.`,
    )
    const reader = await createToken(service, owner.session, { scope: only('development'), permission: 'read' })
    expect((await transfer(reader.id, id)).status).toBe(200)
  })

  const beyond =
    'The scope of this token goes beyond what its owner may reach now, so a transfer would give it more rights: create a new token for the service account.'

  test('a token whose owner has lost a part of its scope', async () => {
    const developer = await person('developer')
    const issued = await createToken(service, developer.session)
    await ask('PUT', `${main}/rbac/${developer.memberId}`, { scope: only('development') })
    await expectRefused(issued.id, (await account()).id, beyond)
    expect(await statusOf(issued.token, 'production')).toBe(404)
  })

  test('a token whose owner, a service account, has lost a part of its scope', async () => {
    const { id } = await account()
    const issued = await createServiceToken(service, owner.session, id)
    await ask('PUT', `${main}/service-account/${id}`, { grants: [{ role: 'developer', scope: only('development') }] })
    await expectRefused(issued.id, (await account()).id, beyond)
  })

  const gained = (name: string, role: string) =>
    `In the scope of this token the service account ${name} has the role ${role} where the owner of the token does not, so a transfer would give it more rights: create a new token for the service account.`

  test('a read-write token whose owner only reads by now', async () => {
    const developer = await person('developer')
    const issued = await createToken(service, developer.session)
    await ask('PUT', `${main}/rbac/${developer.memberId}`, { role: 'member' })
    const { id, name } = await account()
    await expectRefused(issued.id, id, gained(name, 'developer'))
  })

  test('a token whose owner is developer in fewer environments than the account', async () => {
    const mixed = await person('developer', only('development'), { role: 'member', scope: everything })
    const issued = await createToken(service, mixed.session, { scope: only('development', 'production') })
    const wide = await account()
    await expectRefused(issued.id, wide.id, gained(wide.name, 'developer'))
    const same = await account(
      { role: 'developer', scope: only('development') },
      { role: 'member', scope: only('production') },
    )
    expect((await transfer(issued.id, same.id)).status).toBe(200)
  })

  test('a token of a developer, for an admin account', async () => {
    const developer = await person('developer')
    const issued = await createToken(service, developer.session, { permission: 'read' })
    const { id, name } = await account({ role: 'admin', scope: { all: true } })
    await expectRefused(issued.id, id, gained(name, 'admin'))
    expect((await ask('GET', `${main}/audit`, undefined, issued.token)).status).toBe(403)
  })
})

test('refused to everyone but admins of the whole workspace, and to read tokens', async () => {
  const { id } = await account()
  const issued = await createToken(service, owner.session)
  const reader = await createToken(service, owner.session, { permission: 'read' })
  const developer = await person('developer')
  const narrow = await person('admin', only('development'))
  const stranger = await addUser(service, `stranger-${++made}@example.com`)
  const robot = await createServiceToken(service, owner.session, id)
  const mine = await createToken(service, developer.session)
  for (const [tokenId, token, status] of [
    [issued.id, developer.session, 403],
    [mine.id, developer.session, 403],
    [mine.id, mine.token, 403],
    [issued.id, narrow.session, 403],
    [issued.id, reader.token, 403],
    [issued.id, robot.token, 403],
    [issued.id, stranger.session, 404],
    [newId(), owner.session, 404],
  ] as const) {
    expect((await transfer(tokenId, id, token)).status).toBe(status)
  }
  expect((await transfer(issued.id, newId())).status).toBe(404)
  const { body } = await ask<Token[]>('GET', `${tokens}?limit=200`)
  expect(body.find((token) => token.id === issued.id)).toMatchObject({ ownerType: 'user', ownerId: owner.id })
})

test('an account of another workspace is not found', async () => {
  await ask('POST', '/v1/workspace', { name: 'Other', slug: 'other' })
  const elsewhere = await createServiceAccount(service, owner.session, { name: 'elsewhere' }, 'other')
  const issued = await createToken(service, owner.session)
  expect((await transfer(issued.id, elsewhere.id)).status).toBe(404)
  const theirs = await createServiceToken(service, owner.session, elsewhere.id, {}, 'other')
  expect((await transfer(theirs.id, (await account()).id)).status).toBe(404)
  expect((await ask('GET', main, undefined, theirs.token)).status).toBe(404)
})

test('the trail tells the owner before and after, without the value', async () => {
  const developer = await person('developer')
  const issued = await createToken(service, developer.session, { name: 'moved' })
  const { id, name } = await account()
  await transfer(issued.id, id)
  const { body, text } = await ask<AuditEntry[]>('GET', `${main}/audit?entity=${issued.id}`)
  expect(body[0]).toMatchObject({
    action: 'UPDATE',
    actor: { type: 'user', id: owner.id },
    entity: { type: 'token', id: issued.id, name: 'moved' },
    before: { owner: developer.id },
    after: { owner: id, serviceAccount: name },
  })
  expect(text).not.toContain(issued.token)
  expect(service.logs.join('\n')).not.toContain(issued.token)
})
