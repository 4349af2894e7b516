/** Reading and setting the policy of a workspace: who may, what is refused, what is recorded, and the dry run. */
import type { AuditEntry } from '@coffer/contract/audit'
import { openPolicy, type Policy, type PolicyChange, type ShutOut } from '@coffer/contract/policy'
import type { IssuedToken } from '@coffer/contract/token'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { setUpTotp } from '../../../../../test/authenticator.ts'
import { describeChanges, readContent } from '../../../../../test/content.ts'
import { addUser, password, registerOwner, startService, type TestService } from '../../../../../test/harness.ts'
import { inside, outside, type PolicyWorld, startPolicyWorld } from '../../../../../test/policy-world.ts'

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

const full: Policy = {
  requireMfa: true,
  requireVerifiedEmail: true,
  allowedIps: ['127.0.0.1', '198.51.100.0/24'],
  maxTokenDays: 90,
  sharing: { enabled: true, maxDays: 7, endToEndOnly: true },
}

test('a workspace starts open; a policy is returned as it was set, and replaced as a whole', async () => {
  const { root, owner, put } = await world.newWorkspace()
  await setUpTotp(service, owner.session)
  await world.confirmEmail(owner)
  const read = async () => (await service.call<Policy>('GET', `${root}/policy`, { token: owner.session })).body
  expect(await read()).toEqual(openPolicy)
  expect((await put(full)).body).toEqual({ success: true, ...full, shutOut: [] })
  expect(await read()).toEqual(full)
  // What is left out is not kept, and an empty list allows every address.
  expect((await put({ requireMfa: true, allowedIps: [] })).body).toMatchObject({ requireMfa: true })
  expect(await read()).toEqual({ ...openPolicy, requireMfa: true })
  await put({})
  expect(await read()).toEqual(openPolicy)
})

test('every change is recorded with the rules before and after', async () => {
  const { id, root, slug, owner, set } = await world.newWorkspace()
  const first: Policy = { ...openPolicy, allowedIps: ['127.0.0.1'], maxTokenDays: 30 }
  await set({ ...first, dryRun: true })
  await set(first)
  await set({})
  const { body } = await service.call<AuditEntry[]>('GET', `${root}/audit?entity=${id}`, { token: owner.session })
  const entries = body.filter(({ entity }) => entity.type === 'policy').reverse()
  const entity = { type: 'policy', id, name: slug }
  expect(entries).toMatchObject([
    { action: 'UPDATE', entity, outcome: 'success', before: openPolicy, after: first, actor: { id: owner.id } },
    { action: 'UPDATE', entity, outcome: 'success', before: first, after: openPolicy, actor: { id: owner.id } },
  ])
})

test.each(['admin', 'developer', 'member'] as const)(
  'only the owner reads and sets it, not a member with the role %s',
  async (role) => {
    const { root, join, put } = await world.newWorkspace()
    const person = await join(role)
    expect((await put({ maxTokenDays: 1 }, person.session)).status).toBe(403)
    expect((await service.call('GET', `${root}/policy`, { token: person.session })).status).toBe(403)
    const stranger = await addUser(service, `stranger-to-${role}@example.com`)
    expect((await put({ maxTokenDays: 1 }, stranger.session)).status).toBe(404)
  },
)

test('a read-only token of the owner does not set it', async () => {
  const { owner, token, put } = await world.newWorkspace()
  const readOnly = await token(owner.session, { permission: 'read' })
  expect((await put({}, readOnly.token)).status).toBe(403)
})

test.each<[what: string, change: Record<string, unknown>, message: RegExp]>([
  [
    'host bits',
    { allowedIps: ['10.0.0.1/8'] },
    /^allowedIps: 10\.0\.0\.1\/8 has host bits set: write 10\.0\.0\.0\/8\.$/,
  ],
  ['no address', { allowedIps: ['127.0.0.1', '999.1.1.1'] }, /^allowedIps: 999\.1\.1\.1 is not an IP address/],
  ['a token life of no days', { maxTokenDays: 0 }, /^maxTokenDays: /],
  ['shares for more than 30 days', { sharing: { ...openPolicy.sharing, maxDays: 31 } }, /^sharing\.?\/?maxDays: /],
  ['an unknown rule', { requireHats: true }, /^requireHats: /],
  ['no sharing rules', { sharing: undefined }, /^sharing: /],
])('refuses %s, in a dry run too', async (_what, change, message) => {
  const { put } = await world.newWorkspace()
  for (const dryRun of [false, true]) {
    const answer = await put({ ...change, dryRun })
    expect(answer.status, answer.text).toBe(400)
    expect(answer.body.message).toMatch(message)
  }
})

test('the owner cannot save a list without their own address', async () => {
  const { owner, root, put } = await world.newWorkspace()
  for (const dryRun of [false, true]) {
    const answer = await put({ allowedIps: ['198.51.100.0/24'], dryRun }, owner.session, outside)
    expect([answer.status, answer.body.message]).toEqual([
      409,
      `allowedIps: does not hold your own address, ${outside}: with this list you could not enter the workspace.`,
    ])
  }
  expect((await service.call('GET', `${root}/policy`, { token: owner.session })).body).toEqual(openPolicy)
  expect((await put({ allowedIps: ['198.51.100.0/24'] }, owner.session, inside)).status).toBe(200)
})

test('without a mail server, the owner cannot require an address that they cannot confirm', async () => {
  const mute = await startService()
  try {
    const { session } = await registerOwner(mute)
    const put = (dryRun: boolean) =>
      mute.call<{ message: string }>('PUT', '/v1/workspace/main/policy', {
        token: session,
        body: { ...openPolicy, requireVerifiedEmail: true, dryRun },
      })
    for (const dryRun of [true, false]) {
      const answer = await put(dryRun)
      expect([answer.status, answer.body.message]).toEqual([
        409,
        'requireVerifiedEmail: your own address is not confirmed, and this service has no mail server to confirm it by.',
      ])
    }
  } finally {
    await mute.stop()
  }
})

test('a dry run changes nothing, and names exactly those that the policy then shuts out', async () => {
  const workspace = await world.newWorkspace()
  const { root, owner, join, token } = workspace
  const ownersApp = await setUpTotp(service, owner.session)
  await world.confirmEmail(owner)
  const old = await token(owner.session, { name: 'old', expiresIn: 'never' })
  service.clock.offsetMs = 2 * 24 * 60 * 60 * 1000
  const people = {
    ready: await join(),
    unready: await join(),
    unconfirmed: await join(),
    far: await join(),
  }
  const ownersSession = await world.logIn(owner, { code: ownersApp.recoveryCodes[0], ip: inside })
  for (const person of [people.ready, people.unconfirmed]) await setUpTotp(service, person.session)
  const farApp = await setUpTotp(service, people.far.session)
  for (const person of [people.ready, people.unready, people.far]) await world.confirmEmail(person)
  const sessions = {
    ready: people.ready.session,
    unready: people.unready.session,
    unconfirmed: people.unconfirmed.session,
    far: people.far.session,
  }
  const tokens = {
    old,
    young: await token(people.ready.session, { name: 'young', expiresIn: '24h' }),
    unready: await token(people.unready.session, { name: 'of unready', expiresIn: '24h' }),
    unconfirmed: await token(people.unconfirmed.session, { name: 'of unconfirmed', expiresIn: '24h' }),
    far: await token(people.ready.session, { name: 'far', expiresIn: '24h' }),
    revoked: await token(people.unready.session, { name: 'revoked', expiresIn: '24h' }),
  }
  await service.call('DELETE', `${root}/tokens/${tokens.revoked.id}`, { token: people.unready.session })
  /** Everybody asks from where they are. */
  const addressOf = (name: string) => (name.includes('far') ? outside : inside)
  const asked = {
    owner: ownersSession,
    ...sessions,
    ...Object.fromEntries(Object.entries(tokens).map(([name, { token }]) => [`${name} token`, token])),
  }
  const ask = async () => {
    const refused: string[] = []
    for (const [name, token] of Object.entries(asked)) {
      const { status } = await workspace.read(token, addressOf(name))
      if (status === 403) refused.push(name)
    }
    return refused
  }
  expect(await ask()).toEqual([])
  // The address of a person is that of the session that they used last.
  sessions.far = await world.logIn(people.far, { code: farApp.recoveryCodes[0], ip: outside })
  Object.assign(asked, sessions)
  expect(await ask()).toEqual([])

  const policy: Partial<PolicyChange> = {
    requireMfa: true,
    requireVerifiedEmail: true,
    maxTokenDays: 1,
    allowedIps: [inside],
  }
  const before = await readContent(service.app.services)
  const forecast = await workspace.set({ ...policy, dryRun: true }, ownersSession, inside)
  const after = await readContent(service.app.services)
  expect(describeChanges(before, after)).toEqual([])
  expect(after.trail).toBe(before.trail)
  expect(await ask()).toEqual([])
  expect((await service.call('GET', `${root}/policy`, { token: ownersSession })).body).toEqual(openPolicy)

  const user = ({ id, email }: { id: string; email: string }, reason: string): ShutOut => ({
    type: 'user',
    id,
    name: email,
    reason,
  })
  const shut = ({ id, name }: { id: string; name: string }, reason: string): ShutOut => ({
    type: 'token',
    id,
    name,
    reason,
  })
  expect(forecast.shutOut.toSorted(byId)).toEqual(
    [
      user(people.unready, 'This person has no second factor.'),
      user(people.unconfirmed, 'This person has not confirmed their email address.'),
      user(people.far, `Last seen at ${outside}, which the list does not hold.`),
      shut(tokens.old, 'Created more than 1 day ago.'),
      shut(tokens.unready, `The owner, ${people.unready.email}, has no second factor.`),
      shut(tokens.unconfirmed, `The owner, ${people.unconfirmed.email}, has not confirmed their email address.`),
      shut(tokens.far, `Last seen at ${outside}, which the list does not hold.`),
    ].toSorted(byId),
  )

  const real = await workspace.set(policy, ownersSession, inside)
  expect(real).toEqual(forecast)
  const refused = await ask()
  expect(refused.toSorted()).toEqual(
    ['unready', 'unconfirmed', 'far', 'old token', 'unready token', 'unconfirmed token', 'far token'].toSorted(),
  )
  expect(refused).toHaveLength(real.shutOut.length)
})

const byId = (a: ShutOut, b: ShutOut) => a.id.localeCompare(b.id)

test('an expired token is not listed, and a member who was never seen is not listed for their address', async () => {
  const { owner, join, token, set } = await world.newWorkspace()
  const gone = await token(owner.session, { expiresIn: '24h' })
  await join()
  service.clock.offsetMs = 25 * 60 * 60 * 1000
  const session = await world.logIn(owner)
  const { shutOut } = await set({ allowedIps: ['127.0.0.1'], maxTokenDays: 1, dryRun: true }, session)
  expect(shutOut.map(({ id }) => id)).not.toContain(gone.id)
  expect(shutOut).toEqual([])
})

test('a service account is listed with its tokens, by where these were last seen and by their age alone', async () => {
  const { root, owner, set, read } = await world.newWorkspace()
  const post = <Body>(path: string, body: unknown) =>
    service.call<Body>('POST', root + path, { token: owner.session, body })
  const grants = [{ role: 'developer', scope: { all: true } }]
  const { body: account } = await post<{ id: string }>('/service-account', { name: 'deploy', grants })
  const wanted = { name: 'ci', permission: 'read', scope: { all: true }, expiresIn: '30d' }
  const create = () => post<IssuedToken>(`/service-account/${account.id}/tokens`, wanted)
  const { body: issued } = await create()
  expect((await read(issued.token, outside)).status).toBe(200)
  const forecast = await set({ requireVerifiedEmail: true, allowedIps: ['127.0.0.1'], dryRun: true })
  const reason = `Last seen at ${outside}, which the list does not hold.`
  expect(forecast.shutOut.filter(({ type }) => type !== 'user')).toEqual([
    { type: 'service', id: account.id, name: 'deploy', reason },
    { type: 'token', id: issued.id, name: 'ci', reason },
  ])
  await set({ maxTokenDays: 29 })
  expect((await create()).status).toBe(403)
  await set({ maxTokenDays: 30 })
  expect((await create()).status).toBe(201)
})

test('the policy goes with its workspace', async () => {
  const { id, root, owner, set } = await world.newWorkspace()
  await set({ maxTokenDays: 5 })
  const { store } = service.app.services
  expect(await store.policies.find(id)).toMatchObject({ maxTokenDays: 5 })
  expect((await service.call('DELETE', root, { token: owner.session, body: { password } })).status).toBe(200)
  expect(await store.policies.find(id)).toBeUndefined()
})
