/**
 * Random sequences of calls by people of all roles and by service accounts, with all their credentials: nobody raises
 * their own rights, only an admin of the whole workspace changes those of others, no credential does more than its owner
 * may, and no token gains by a transfer or a rotation.
 */
import type { Grant, Role } from '@coffer/contract/field'
import type { IssuedInvite } from '@coffer/contract/invite'
import type { ServiceAccount } from '@coffer/contract/service-account'
import type { IssuedToken } from '@coffer/contract/token'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  addUser,
  engine,
  password,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../../test/harness.ts'
import {
  checkUse,
  createRightsWorld,
  createToken,
  type Held,
  hold,
  type Invited,
  isMore,
  isSame,
  managesAll,
  type RightsWorld,
  readRights,
  readTokens,
  rightsOf,
  rightsOfHeld,
} from '../../../../../test/rights-world.ts'
import { times } from '../../../../../test/tier.ts'
import { everything } from '../../../domain/scope.ts'

let service: TestService
let people: TestUser[]
let workspaces = 0
let steps = 0
let refusals = 0
const succeeded = new Map<string, number>()

beforeAll(async () => {
  service = await startService()
  people = [await registerOwner(service)]
  for (let index = 1; index < 9; index++) people.push(await addUser(service, `person-${index}@example.com`))
})
afterAll(async () => {
  console.log(`rights: ${steps} calls, ${refusals} of them refused, on ${engine}`, Object.fromEntries(succeeded))
  await service.stop()
})

/** Frequent ones are named twice. */
const acts = [
  'invite',
  'invite',
  'accept',
  'accept',
  'decline',
  'resend',
  'change',
  'change',
  'grants',
  'grants',
  'remove',
  'handover',
  'token',
  'rotate',
  'account',
  'changeAccount',
  'removeAccount',
  'serviceToken',
  'serviceToken',
  'transfer',
  'transfer',
] as const

const step = fc.record({
  act: fc.constantFrom(...acts),
  // The owner and an admin act more often, since they may do most of this.
  actor: fc.oneof(fc.nat(11), fc.nat(1)),
  /** An index into the actor's credentials; the session every other time. */
  credential: fc.nat(20),
  target: fc.nat(8),
  account: fc.nat(5),
  grants: fc.array(fc.record({ role: fc.constantFrom<Role[]>('member', 'developer', 'admin'), scope: fc.nat(5) }), {
    minLength: 1,
    maxLength: 3,
  }),
  permission: fc.constantFrom('read', 'read-write'),
  reader: fc.nat(200),
})
type Step = typeof step extends fc.Arbitrary<infer Value> ? Value : never

/** The owner takes these first, so that each of them succeeds with any seed. */
const opening = (['account', 'serviceToken', 'grants'] as const).map((act): Step => {
  const grants = [{ role: 'developer', scope: 0 } as const]
  return { act, actor: 0, credential: 0, target: 1, account: 0, grants, permission: 'read', reader: 0 }
})

/**
 * The credential of a step. Every other step is taken by someone who is allowed to (the owner, or the invited person), so
 * that enough steps succeed with any seed.
 */
function credentialOf(world: RightsWorld, step: Step, ownerId: string, accountIds: readonly string[]): Held {
  const holders = [...people.map(({ id }) => id), ...accountIds]
  const isAnswer = step.act === 'accept' || step.act === 'decline'
  const allowed = isAnswer ? (people[inviteOf(world, step)?.person ?? 0]?.id ?? ownerId) : ownerId
  const holder = step.credential % 2 === 0 ? allowed : (holders[step.actor % holders.length] ?? ownerId)
  const own = world.held.filter((held) => held.holder === holder)
  return own[step.credential % 2 === 0 ? 0 : step.credential % own.length] ?? { value: 'none', holder }
}

function inviteOf(world: RightsWorld, step: Step): Invited | undefined {
  const invites = [...world.invites.values()]
  return step.credential % 2 === 0 ? invites.at(-1) : invites[step.target % invites.length]
}

async function take(world: RightsWorld, step: Step, held: Held, accountIds: readonly string[]): Promise<number> {
  const { root } = world
  const grants = step.grants.map(({ role, scope }): Grant => ({ role, scope: world.scopes[scope] ?? everything }))
  const [first = { role: 'member' as const, scope: everything }] = grants
  const invite = inviteOf(world, step)
  const rowId = await rowOf(world, step.target)
  const accountId = accountIds[step.account % Math.max(accountIds.length, 1)] ?? world.id
  const tokenIds = world.held.flatMap(({ tokenId }) => tokenId ?? [])
  const tokenId = tokenIds[step.reader % tokenIds.length] ?? world.id
  const call = async <Body>(method: string, path: string, body?: unknown) =>
    service.call<Body>(method, path, { token: held.value, ...(body !== undefined && { body }) })
  const changed = (status: number, given: readonly Grant[]) => {
    const known = world.invites.get(rowId)
    if (status === 200 && known) known.grants = given
    return status
  }
  switch (step.act) {
    case 'invite': {
      const body = { email: people[step.target]?.email, grants }
      const { status, body: issued } = await call<IssuedInvite>('POST', `${root}/rbac`, body)
      if (status === 201) world.invites.set(issued.id, { ...issued, person: step.target, grants })
      return status
    }
    case 'accept':
    case 'decline': {
      const path = `/v1/workspace/invite/${step.act}`
      return (await call('POST', path, { token: invite?.inviteToken ?? 'none' })).status
    }
    case 'resend': {
      const { status, body } = await call<IssuedInvite>('POST', `${root}/rbac/${invite?.id ?? world.id}/resend`)
      if (invite && status === 200) world.invites.set(invite.id, { ...invite, ...body })
      return status
    }
    case 'change':
      return changed((await call('PUT', `${root}/rbac/${rowId}`, first)).status, [first])
    case 'grants':
      return changed((await call('PUT', `${root}/rbac/${rowId}`, { grants })).status, grants)
    case 'remove':
      return (await call('DELETE', `${root}/rbac/${rowId}`)).status
    case 'handover':
      return (await call('POST', `${root}/owner`, { memberId: rowId, password })).status
    case 'token':
      return createToken(world, `${root}/tokens`, held, first.scope, step.permission)
    case 'rotate': {
      const { status, body } = await call<IssuedToken>('POST', `${root}/tokens/${tokenId}/rotate`, {})
      if (status === 200) await hold(world, body, held.holder)
      return status
    }
    case 'account':
      return (await call<ServiceAccount>('POST', `${root}/service-account`, { name: `account ${steps}`, grants }))
        .status
    case 'changeAccount':
      return (await call('PUT', `${root}/service-account/${accountId}`, { grants })).status
    case 'removeAccount':
      return (await call('DELETE', `${root}/service-account/${accountId}`)).status
    case 'serviceToken': {
      const path = `${root}/service-account/${accountId}/tokens`
      return createToken(world, path, { value: held.value, holder: accountId }, first.scope, step.permission)
    }
    case 'transfer':
      return (await call('POST', `${root}/tokens/${tokenId}/transfer`, { serviceAccountId: accountId })).status
  }
}

/** The row of a person in the list of members: a membership or an invite. */
async function rowOf(world: RightsWorld, person: number): Promise<string> {
  const { store } = service.app.services
  const { members } = await store.members.list(world.id)
  const member = members.find(({ userId }) => userId === people[person]?.id)
  const invite = (await store.invites.list(world.id)).find(({ email }) => email === people[person]?.email)
  return member?.id ?? invite?.id ?? world.id
}

async function takeAndCheck(world: RightsWorld, one: Step): Promise<void> {
  const before = await readRights(world)
  const tokensBefore = await readTokens(world, before)
  const accountIds = [...before.keys()].filter((id) => !people.some((person) => person.id === id))
  const owner = [...before].find(([, { isOwner }]) => isOwner)?.[0] ?? ''
  const held = credentialOf(world, one, owner, accountIds)
  const mine = await rightsOfHeld(world, held)
  const status = await take(world, one, held, accountIds)
  steps++
  if (status >= 400) refusals++
  else succeeded.set(one.act, (succeeded.get(one.act) ?? 0) + 1)
  expect(status, JSON.stringify(one)).toBeLessThan(500)
  const after = await readRights(world)
  for (const id of new Set([...before.keys(), ...after.keys()])) {
    const [was, is] = [before.get(id), after.get(id)]
    if (isSame(was, is)) continue
    const what = `${JSON.stringify(one)}: ${id}`
    expect(status, what).toBeLessThan(300)
    if (id !== held.holder) expect(managesAll(mine), what).toBe(true)
    else if (isMore(was, is)) {
      // The only way up: from no membership, with an invite by someone else, to exactly what it grants.
      expect([one.act, was], what).toEqual(['accept', undefined])
      const invite = [...world.invites.values()].findLast(({ person }) => people[person]?.id === id)
      expect(is, what).toEqual(rightsOf(world, invite?.grants ?? []))
    }
    if (one.act !== 'handover') expect(is?.isOwner ?? false, what).toBe(was?.isOwner ?? false)
  }
  expect([...after].filter(([, { isOwner }]) => isOwner).map(([, rights]) => managesAll(rights))).toEqual([true])
  await checkTokens(world, one, tokensBefore, managesAll(mine))
}

/** Tokens change their owner by a transfer of an admin alone, and then may do no more than before. */
async function checkTokens(
  world: RightsWorld,
  one: Step,
  before: Awaited<ReturnType<typeof readTokens>>,
  isManager: boolean,
): Promise<void> {
  const after = await readTokens(world, await readRights(world))
  for (const [id, { owner, rights }] of after) {
    const was = before.get(id)
    const what = `${JSON.stringify(one)}: token ${id}`
    if (was && was.owner !== owner) expect([one.act, isManager], what).toEqual(['transfer', true])
    if (was && (one.act === 'transfer' || one.act === 'rotate')) expect(isMore(was.rights, rights), what).toBe(false)
  }
}

test('nobody raises their own rights, and no credential may do more than its owner', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 50, maxLength: 70 }), async (sequence) => {
      const world = await createRightsWorld(service, people, `rights-${++workspaces}`)
      for (const one of [...opening, ...sequence]) {
        await takeAndCheck(world, one)
        const reader = world.held[one.reader % world.held.length]
        if (reader) await checkUse(world, reader)
      }
      for (const held of world.held) await checkUse(world, held)
    }),
    { numRuns: times(6, engine === 'sqlite' ? 12 : 6), endOnFailure: true },
  )
  expect(refusals).toBeGreaterThan(50)
  expect(steps - refusals).toBeGreaterThan(50)
  for (const act of ['grants', 'account', 'serviceToken']) expect(succeeded.get(act), act).toBeGreaterThan(0)
})
