/** Every rule of a policy against every way into a workspace: refused with a sentence, accepted once it is followed. */
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { setUpTotp } from '../../../../../test/authenticator.ts'
import { exchange, type TestService } from '../../../../../test/harness.ts'
import { createIdentity, federate, tryFederation } from '../../../../../test/issuer.ts'
import {
  from,
  inside,
  machineWays,
  outside,
  type PolicyWorld,
  personalWays,
  startPolicyWorld,
  statuses,
  type Way,
} from '../../../../../test/policy-world.ts'

let world: PolicyWorld
let service: TestService

beforeAll(async () => {
  world = await startPolicyWorld()
  service = world.service
})
afterAll(() => world.stop())
afterEach(() => {
  service.clock.offsetMs = 0
})

const tokenWays: readonly Way[] = ['static token', 'cli token', 'JWT of a token']
const everyWay: readonly Way[] = [...personalWays, ...machineWays]
const machines = Object.fromEntries(machineWays.map((way) => [way, '200']))
const each = (ways: readonly Way[], sentence: (way: Way) => string) =>
  Object.fromEntries(ways.map((way) => [way, sentence(way)]))
const allowed = each(everyWay, () => '200')

const needsFactor = (way: Way) =>
  tokenWays.includes(way)
    ? '403 This workspace requires a second factor: the owner of this token must set up an authenticator app.'
    : '403 This workspace requires a second factor: set up an authenticator app in your account.'
const needsAddress = (way: Way) =>
  tokenWays.includes(way)
    ? '403 This workspace requires a confirmed email address: the owner of this token must confirm theirs.'
    : '403 This workspace requires a confirmed email address: confirm yours in your account.'
const isOutside = () =>
  `403 This workspace accepts no requests from the address ${outside}: use an allowed network, or ask the owner of the workspace to allow this one.`

test('a second factor is required of people and their tokens, not of machines', async () => {
  const workspace = await world.newWorkspace()
  const person = await workspace.join()
  const ways = await workspace.ways(person)
  expect(await statuses(workspace, ways)).toEqual(allowed)
  await workspace.set({ requireMfa: true })
  expect(await statuses(workspace, ways)).toEqual({ ...each(personalWays, needsFactor), ...machines })
  const refused = await service.call('POST', '/v1/auth/exchange', { token: ways['static token'] })
  expect([refused.status, refused.text]).toEqual([
    403,
    JSON.stringify({ message: needsFactor('static token').slice('403 '.length) }),
  ])
  await setUpTotp(service, person.session)
  const ended = '401 A valid credential is required: send "Authorization: Bearer <token>".'
  expect(await statuses(workspace, ways)).toEqual({ ...allowed, 'CLI session': ended })
  const renewed = await world.logInDevice(person.session)
  expect(await statuses(workspace, { ...ways, 'CLI session': renewed })).toEqual(allowed)
  await exchange(service, ways['static token'])
})

test('the owner needs the second factor too, and sets it up without entering the workspace', async () => {
  const workspace = await world.newWorkspace()
  const { owner } = workspace
  const { shutOut } = await workspace.set({ requireMfa: true })
  expect(shutOut).toEqual([
    { type: 'user', id: owner.id, name: owner.email, reason: 'This person has no second factor.' },
  ])
  expect((await workspace.put({})).status).toBe(403)
  await setUpTotp(service, owner.session)
  await workspace.set({})
})

test('removing the second factor ends the access of sessions and tokens', async () => {
  const workspace = await world.newWorkspace()
  const person = await workspace.join()
  const app = await setUpTotp(service, person.session)
  const ways = await workspace.ways(person)
  await workspace.set({ requireMfa: true })
  expect(await statuses(workspace, ways)).toEqual(allowed)
  const removed = await service.call('DELETE', '/v1/me/mfa/totp', {
    token: person.session,
    body: { code: app.recoveryCodes[0], password: 'correct horse battery staple' },
  })
  expect(removed.status, removed.text).toBe(200)
  expect(await statuses(workspace, ways)).toEqual({ ...each(personalWays, needsFactor), ...machines })
})

test('a reset of the second factor by an admin ends the access of sessions and tokens', async () => {
  const workspace = await world.newWorkspace()
  const person = await workspace.join()
  await setUpTotp(service, workspace.owner.session)
  await setUpTotp(service, person.session)
  const ways = await workspace.ways(person)
  await workspace.set({ requireMfa: true })
  expect(await statuses(workspace, ways)).toEqual(allowed)
  const reset = await service.call('DELETE', `${workspace.root}/rbac/${person.memberId}/mfa`, {
    token: workspace.owner.session,
  })
  expect(reset.status, reset.text).toBe(200)
  expect(await statuses(workspace, ways)).toEqual({ ...each(personalWays, needsFactor), ...machines })
})

test('a confirmed address is required of people and their tokens, not of machines', async () => {
  const workspace = await world.newWorkspace()
  const person = await workspace.join()
  const ways = await workspace.ways(person)
  await workspace.set({ requireVerifiedEmail: true })
  expect(await statuses(workspace, ways)).toEqual({ ...each(personalWays, needsAddress), ...machines })
  await world.confirmEmail(person)
  expect(await statuses(workspace, ways)).toEqual(allowed)
})

test('requests from other addresses are refused with every credential, also behind the proxy', async () => {
  const workspace = await world.newWorkspace()
  const ways = await workspace.ways(await workspace.join())
  await workspace.set({ allowedIps: ['198.51.100.0/24', '2001:db8::/32'] }, undefined, inside)
  expect(await statuses(workspace, ways, outside)).toEqual(each(everyWay, isOutside))
  expect(await statuses(workspace, ways, inside)).toEqual(allowed)
  expect(await statuses(workspace, ways, '2001:db8::1')).toEqual(allowed)
  // The proxy itself is not in the list, and a client cannot choose its address by a header of its own.
  expect((await workspace.read(ways['browser session'], `${inside}, ${outside}`)).status).toBe(403)
  expect((await workspace.read(ways['browser session'])).status).toBe(403)
  await workspace.set({ allowedIps: [inside, outside] }, undefined, inside)
  expect(await statuses(workspace, ways, outside)).toEqual(allowed)
})

test('an identity gets a JWT from allowed addresses alone, and the refusal is recorded', async () => {
  const workspace = await world.newWorkspace()
  const { owner, slug } = workspace
  const subject = 'job-of-another-network'
  const identity = await createIdentity(service, owner.session, { issuer: world.issuer.url, subject }, slug)
  await workspace.set({ allowedIps: ['127.0.0.1', inside] })
  const token = await world.issuer.sign({ sub: subject })
  const refused = await service.call<{ message: string }>('POST', '/v1/auth/oidc/exchange', {
    body: { token, workspaceId: slug },
    headers: from(outside),
  })
  expect(`${refused.status} ${refused.body.message}`).toBe(isOutside())
  const { body: entries } = await service.call<unknown[]>('GET', `${workspace.root}/audit?limit=1`, {
    token: owner.session,
  })
  expect(entries).toEqual([
    expect.objectContaining({
      action: 'LOGIN',
      outcome: 'failure',
      ip: outside,
      after: expect.objectContaining({
        reasons: [
          {
            identity: identity.id,
            check: 'address',
            expected: 'an address that the policy of the workspace allows',
            actual: outside,
          },
        ],
      }),
    }),
  ])
  // A token that fails the checks of the issuer learns nothing about the policy.
  const forged = await tryFederation(service, `${token}x`, slug)
  expect(forged.status).toBe(401)
  await federate(service, token, slug)
})

test('a token, and a JWT that it was exchanged for, is refused once it is too old', async () => {
  const workspace = await world.newWorkspace()
  const person = await workspace.join()
  const old = await workspace.token(person.session, { expiresIn: 'never' })
  service.clock.offsetMs = 25 * 60 * 60 * 1000
  const jwt = await exchange(service, old.token)
  const session = await world.logIn(person)
  const young = await workspace.token(session, { expiresIn: '24h' })
  const ways = { old: old.token, jwt, session, young: young.token }
  expect(await statuses(workspace, ways)).toEqual({ old: '200', jwt: '200', session: '200', young: '200' })
  await workspace.set({ maxTokenDays: 1 }, await world.logIn(workspace.owner))
  const tooOld =
    '403 This workspace accepts a token for 1 day after its creation, and this one is older: create a new one.'
  expect(await statuses(workspace, ways)).toEqual({ old: tooOld, jwt: tooOld, session: '200', young: '200' })
  expect((await service.call('POST', '/v1/auth/exchange', { token: old.token })).status).toBe(403)
  const fresh = await workspace.token(session, { expiresIn: '24h' })
  expect((await workspace.read(fresh.token)).status).toBe(200)
})

test('a new token must end within the time that the policy allows', async () => {
  const workspace = await world.newWorkspace()
  const { owner } = workspace
  await workspace.set({ maxTokenDays: 30 })
  const create = (expiresIn: string) =>
    service.call<{ message: string }>('POST', `${workspace.root}/tokens`, {
      token: owner.session,
      body: { name: 'ci', permission: 'read', scope: { all: true }, expiresIn },
    })
  for (const expiresIn of ['60d', '3m', '6m', '1y', 'never']) {
    const { status, body } = await create(expiresIn)
    expect([status, body.message]).toEqual([
      403,
      'expiresIn: tokens of this workspace are valid for 30 days at most: choose a shorter time.',
    ])
  }
  for (const expiresIn of ['24h', '5d', '30d']) expect((await create(expiresIn)).status).toBe(201)
  const cli = await service.call('POST', `${workspace.root}/tokens/cli`, {
    token: owner.session,
    body: { environmentId: workspace.environmentId },
  })
  expect(cli.status, cli.text).toBe(201)
})

test('a token for one environment reads nothing by /v1/secrets, and still sees where it belongs', async () => {
  const workspace = await world.newWorkspace()
  const scope = { environments: [workspace.environmentId] }
  const { token } = await workspace.token(workspace.owner.session, { permission: 'read', scope })
  const ask = (path: string) => service.call<unknown[]>('GET', path, { token })
  expect((await ask('/v1/secrets')).status).toBe(200)
  await workspace.set({ requireMfa: true })
  expect((await ask('/v1/secrets')).status).toBe(403)
  expect(await ask('/v1/workspace')).toMatchObject({ status: 200, body: [{ id: workspace.id, slug: workspace.slug }] })
  expect((await ask('/v1/me')).status).toBe(200)
})
