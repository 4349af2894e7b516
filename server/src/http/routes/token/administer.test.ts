/** A leaked token decides nothing that outlives it: only a session does, or a token that was created for it. */
import type { AuditEntry } from '@coffer/contract/audit'
import type { Me } from '@coffer/contract/me'
import { openPolicy } from '@coffer/contract/policy'
import type { IssuedToken, NewToken, Token } from '@coffer/contract/token'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { setUpTotp } from '../../../../../test/authenticator.ts'
import {
  addUser,
  createToken,
  exchange,
  password,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../../test/harness.ts'
import { openRaw } from '../../../../../test/raw-database.ts'
import { createServiceAccount, createServiceToken } from '../../../../../test/service-account.ts'
import { newIdentity } from '../../../../../test/world.ts'

const main = '/v1/workspace/main'

let service: TestService
let owner: TestUser
let admin: TestUser
let workspaceId: string
let made = 0

beforeAll(async () => {
  service = await startService({ COFFER_EXCHANGE_RATE_LIMIT: '0' })
  owner = await registerOwner(service)
  workspaceId = (await service.call<{ id: string }>('GET', main, { token: owner.session })).body.id
})
afterAll(() => service.stop())
beforeEach(async () => {
  service.clock.offsetMs = 0
  admin = await join('admin')
})

const join = (role: 'admin' | 'developer') => addUser(service, `${role}-${++made}@example.com`, { workspaceId, role })
const ask = <Body = { message: string }>(method: string, path: string, token: string, body?: unknown) =>
  service.call<Body>(method, path, { token, ...(body !== undefined && { body }) })
const mark = { mayAdminister: true, expiresIn: '24h', password } as const
const marked = (session = admin.session, more: Partial<NewToken> = {}) =>
  createToken(service, session, { ...mark, ...more })
const wanted = (more: object = {}) => ({
  ...{ name: 'ops', permission: 'read-write', scope: { all: true }, expiresIn: '24h' },
  ...more,
})
const create = (session: string, more: object = {}) =>
  ask<IssuedToken & { message: string }>('POST', `${main}/tokens`, session, wanted(more))

type Act = readonly [what: string, act: (token: string) => Promise<{ status: number; body: { message: string } }>]

/** Acts that a marked token may do. Each makes what it needs with a session of the owner. */
const administering: readonly Act[] = [
  ['invites', (token) => ask('POST', `${main}/rbac`, token, { ...invite(), role: 'admin' })],
  ['renews an invite', async (token) => ask('POST', `${main}/rbac/${await invited()}/resend`, token)],
  ['changes an invite', async (token) => ask('PUT', `${main}/rbac/${await invited()}`, token, { role: 'admin' })],
  ['withdraws an invite', async (token) => ask('DELETE', `${main}/rbac/${await invited()}`, token)],
  ['changes grants', async (token) => ask('PUT', `${main}/rbac/${await joined()}`, token, { role: 'admin' })],
  ['removes a member', async (token) => ask('DELETE', `${main}/rbac/${await joined()}`, token)],
  ['resets a factor', async (token) => ask('DELETE', `${main}/rbac/${await joined(true)}/mfa`, token)],
  ['creates a service account', (token) => ask('POST', `${main}/service-account`, token, { ...account() })],
  [
    'changes a service account',
    async (token) => ask('PUT', `${main}/service-account/${await accountId()}`, token, { name: `new-${++made}` }),
  ],
  ['removes a service account', async (token) => ask('DELETE', `${main}/service-account/${await accountId()}`, token)],
  ['creates an identity', (token) => ask('POST', `${main}/oidc`, token, newIdentity)],
  ['changes an identity', async (token) => ask('PUT', `${main}/oidc/${await identityId()}`, token, { enabled: false })],
  ['deletes an identity', async (token) => ask('DELETE', `${main}/oidc/${await identityId()}`, token)],
]

const invite = () => ({ email: `invited-${++made}@example.com`, role: 'member', scope: { all: true } })
const invited = async () => (await ask<{ id: string }>('POST', `${main}/rbac`, owner.session, invite())).body.id
const account = () => ({ name: `robot-${++made}`, grants: [{ role: 'admin', scope: { all: true } }] })
const accountId = async () => (await createServiceAccount(service, owner.session, { name: `robot-${++made}` })).id
const identityId = async () => (await ask<{ id: string }>('POST', `${main}/oidc`, owner.session, newIdentity)).body.id
async function joined(hasFactor = false): Promise<string> {
  const person = await join('developer')
  if (hasFactor) await setUpTotp(service, person.session)
  return person.memberId ?? ''
}

const refusal = 'This decides who else has access: sign in, or use a token that was created with mayAdminister.'

describe.each(administering)('%s:', (_what, act) => {
  test('not with a token of before or its JWT, but with a marked one, its JWT and a session', async () => {
    const { token } = await createToken(service, admin.session)
    for (const leaked of [token, await exchange(service, token)]) {
      const { status, body } = await act(leaked)
      expect([status, body.message]).toEqual([403, refusal])
    }
    const good = (await marked()).token
    for (const credential of [good, await exchange(service, good), admin.session]) {
      expect((await act(credential)).status).toBeLessThan(300)
    }
  })

  test('not with a marked token that may only read, reaches a part, or whose owner was demoted', async () => {
    const reader = await marked(admin.session, { permission: 'read' })
    const teams = await ask<{ id: string }[]>('GET', `${main}/team`, owner.session)
    const part = await marked(admin.session, { scope: { teams: teams.body.map(({ id }) => id) } })
    const whole = await marked()
    for (const { token } of [reader, part]) expect((await act(token)).status).toBe(403)
    await ask('PUT', `${main}/rbac/${admin.memberId}`, owner.session, { role: 'developer' })
    expect((await act(whole.token)).status).toBe(403)
  })
})

const forSessions: readonly (readonly [what: string, act: (token: string) => Promise<{ status: number }>])[] = [
  ['changes the policy', (token) => ask('PUT', `${main}/policy`, token, openPolicy)],
  ['previews a policy', (token) => ask('PUT', `${main}/policy`, token, { ...openPolicy, dryRun: true })],
  [
    'transfers a token',
    async (token) => {
      const { id } = await createToken(service, owner.session)
      return ask('POST', `${main}/tokens/${id}/transfer`, token, { serviceAccountId: await accountId() })
    },
  ],
  ['hands over the workspace', (token) => ask('POST', `${main}/owner`, token, { memberId: admin.memberId, password })],
  ['deletes the workspace', (token) => ask('DELETE', main, token, { password })],
]

test.each(forSessions)('no token and no JWT of the owner %s, marked or not', async (_what, act) => {
  const plain = await createToken(service, owner.session)
  const special = await marked(owner.session)
  for (const { token } of [plain, special]) {
    expect((await act(token)).status).toBe(403)
    expect((await act(await exchange(service, token))).status).toBe(403)
  }
})

test.each([
  ['nothing', {}, 'password: is required to confirm that it is you.'],
  ['a wrong password', { password: 'not the password' }, 'password: is wrong.'],
  [
    'a code without an app',
    { code: '123456' },
    'code: your account has no authenticator app: give your password instead.',
  ],
])('with %s, no marked token is created, the workspace stays and so does its owner', async (_what, given, message) => {
  const heir = admin.memberId
  const answers = [
    await create(owner.session, { mayAdminister: true, ...given }),
    await ask('DELETE', main, owner.session, given),
    await ask('POST', `${main}/owner`, owner.session, { memberId: heir, ...given }),
  ]
  expect(answers.map(({ status, body }) => [status, body.message])).toEqual(answers.map(() => [403, message]))
  expect((await ask<{ isOwner: boolean }>('GET', main, owner.session)).body.isOwner).toBe(true)
  // A right password resets the count.
  await marked(owner.session)
})

test('ten wrong passwords lock the confirmation, and each is recorded', async () => {
  for (let tries = 0; tries < 10; tries++) {
    expect((await create(admin.session, { mayAdminister: true, password: 'wrong' })).status).toBe(403)
  }
  expect((await create(admin.session, { ...mark })).status).toBe(429)
  const { body } = await ask<AuditEntry[]>('GET', `${main}/audit?actor=${admin.id}&limit=200`, owner.session)
  const failures = body.filter(({ outcome, action }) => outcome === 'failure' && action === 'CREATE')
  expect(failures.map(({ after }) => after)).toEqual(Array.from({ length: 10 }, () => ({ reason: 'wrong password' })))
  service.clock.offsetMs = 601_000
  expect((await create(admin.session, { ...mark })).status).toBe(201)
})

test('a code of the authenticator app, or a recovery code, confirms once', async () => {
  const app = await setUpTotp(service, admin.session)
  const code = app.freshCode()
  expect((await create(admin.session, { mayAdminister: true, code })).status).toBe(201)
  const again = await create(admin.session, { mayAdminister: true, code })
  expect([again.status, again.body.message]).toEqual([403, 'code: is wrong or was already used.'])
  expect((await create(admin.session, { mayAdminister: true, code: app.recoveryCodes[0] })).status).toBe(201)
  const made = await ask<{ id: string }>('POST', '/v1/workspace', admin.session, { name: 'Short', slug: 'short' })
  expect(made.status).toBe(201)
  const deletion = { code: app.recoveryCodes[1] }
  expect((await ask('DELETE', '/v1/workspace/short', admin.session, deletion)).status).toBe(200)
})

test.each(['6m', '1y', 'never'])('a life of %s is refused, and 3m is the longest', async (expiresIn) => {
  const { status, body } = await create(admin.session, { ...mark, expiresIn })
  expect([status, body.message]).toEqual([400, 'expiresIn: a token that may administer lives 3m at most.'])
  expect((await create(admin.session, { ...mark, expiresIn: '3m' })).status).toBe(201)
})

test('only an admin of the whole workspace creates one, and only from a session', async () => {
  const message = 'Only an admin with the scope "all" can create a token that may administer.'
  const developer = await join('developer')
  expect((await create(developer.session, mark)).body).toMatchObject({ message })
  const { token } = await marked()
  expect((await create(token, mark)).status).toBe(403)
  expect((await create(await exchange(service, token), mark)).status).toBe(403)
})

test('the token of a service account never has the mark', async () => {
  const id = await accountId()
  const path = `${main}/service-account/${id}/tokens`
  const { status, body } = await ask('POST', path, owner.session, wanted(mark))
  expect([status, body.message]).toEqual([
    400,
    'mayAdminister: the token of a service account never administers: only people answer for that.',
  ])
  expect((await createServiceToken(service, owner.session, id)).mayAdminister).toBe(false)
})

test('it is marked when it is created, in every list, in /v1/me, in the overview and in the trail', async () => {
  const issued = await marked(admin.session, { name: 'ops' })
  const plain = await createToken(service, admin.session, { name: 'ci' })
  expect([issued.mayAdminister, plain.mayAdminister]).toEqual([true, false])
  for (const session of [admin.session, owner.session, issued.token]) {
    const { body } = await ask<Token[]>('GET', `${main}/tokens?limit=200`, session)
    const marks = body.filter(({ id }) => id === issued.id || id === plain.id).map((token) => token.mayAdminister)
    expect(marks).toEqual([false, true])
  }
  for (const [credential, mark] of [
    [issued.token, true],
    [await exchange(service, issued.token), true],
    [plain.token, false],
    [admin.session, false],
  ] as const) {
    expect((await ask<Me>('GET', '/v1/me', credential)).body.credential.mayAdminister).toBe(mark)
  }
  const overview = await ask<{ actor: { id: string }; mayAdminister: boolean }[]>(
    'GET',
    `${main}/access?type=token&limit=200`,
    owner.session,
  )
  const row = overview.body.find(({ actor }) => actor.id === issued.id)
  expect(row?.mayAdminister).toBe(true)
  const { body } = await ask<AuditEntry[]>('GET', `${main}/audit?entity=${issued.id}&action=CREATE`, owner.session)
  expect(body[0]?.after).toMatchObject({ mayAdminister: true })
})

test('it cannot be transferred, and cannot rotate itself', async () => {
  const { id, token } = await marked()
  const body = { serviceAccountId: await accountId() }
  const given = await ask('POST', `${main}/tokens/${id}/transfer`, owner.session, body)
  expect([given.status, given.body.message]).toEqual([
    409,
    'A token that may administer cannot be transferred: it ends with the person who answers for it.',
  ])
  const itself = await ask('POST', `${main}/tokens/${id}/rotate`, token, { password })
  expect([itself.status, itself.body.message]).toEqual([
    403,
    'A token that may administer cannot rotate itself: sign in to rotate it.',
  ])
  expect((await ask('DELETE', `${main}/tokens/${id}`, token)).status).toBe(200)
  expect((await ask('GET', main, token)).status).toBe(401)
})
test('its owner rotates it with the password; another admin does not, not even the owner of the workspace', async () => {
  const { id } = await marked()
  const rotate = (session: string, body: object) =>
    ask<IssuedToken & { message: string }>('POST', `${main}/tokens/${id}/rotate`, session, body)
  expect((await rotate(owner.session, { password })).status).toBe(403)
  expect((await rotate(admin.session, {})).body.message).toBe('password: is required to confirm that it is you.')
  const rotated = await rotate(admin.session, { password })
  expect([rotated.status, rotated.body.mayAdminister]).toEqual([200, true])
  expect((await ask<Me>('GET', '/v1/me', rotated.body.token)).body.credential.mayAdminister).toBe(true)
  expect((await ask('DELETE', `${main}/tokens/${id}`, owner.session)).status).toBe(200)
})

test('no edit of a row in the database gives a token the mark', async () => {
  const { id, token } = await createToken(service, admin.session)
  const theirs = await createServiceToken(service, owner.session, await accountId())
  const raw = await openRaw(service)
  try {
    await raw.query('update token set may_administer = 1 where id = ?', [id])
    await raw.query('update token set may_administer = 1, service_account_id = null where id = ?', [theirs.id])
    service.app.services.snapshots.drop(workspaceId)
    for (const value of [token, theirs.token]) expect((await ask('GET', main, value)).status).toBe(401)
  } finally {
    await raw.query('delete from token where id = ?', [id])
    await raw.query('delete from token where id = ?', [theirs.id])
    await raw.close()
  }
})

test('everything else that a token did, it still does', async () => {
  const { token } = await createToken(service, admin.session)
  const team = await ask<{ id: string }>('POST', `${main}/team`, token, { name: `team-${++made}` })
  const id = await identityId()
  const statuses = [
    team.status,
    (await ask('POST', `${main}/project`, token, { name: 'p', slug: `p-${++made}`, teamId: team.body.id })).status,
    (await ask('PUT', main, token, { name: 'Main' })).status,
    (await ask('GET', `${main}/rbac`, token)).status,
    (await ask('GET', `${main}/oidc/${id}`, token)).status,
    (await ask('POST', `${main}/oidc/${id}/test`, token, { token: 'none' })).status,
    (await ask('GET', `${main}/service-account`, token)).status,
    (await ask('GET', `${main}/audit`, token)).status,
    (await ask('GET', `${main}/access`, token)).status,
  ]
  expect(statuses).toEqual([201, 201, 200, 200, 200, 200, 200, 200, 200])
})
