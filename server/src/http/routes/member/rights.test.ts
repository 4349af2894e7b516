/**
 * Random sequences of calls by people of all roles, with all their credentials: nobody raises their own rights, only an
 * admin of the whole workspace changes those of others, and no credential reads beyond the membership of its owner.
 */
import type { Role, Scope } from '@coffer/contract/field'
import type { IssuedInvite } from '@coffer/contract/invite'
import type { IssuedToken } from '@coffer/contract/token'
import type { Workspace } from '@coffer/contract/workspace'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  addUser,
  createProject,
  createTeam,
  engine,
  registerOwner,
  startService,
  type TestProject,
  type TestService,
  type TestUser,
} from '../../../../../test/harness.ts'
import { times } from '../../../../../test/tier.ts'
import { everything } from '../../../domain/scope.ts'

const nothing: Scope = { all: false, teams: [], projects: [], environments: [] }

let service: TestService
let people: TestUser[]
let workspaces = 0
let steps = 0
let refusals = 0

beforeAll(async () => {
  service = await startService()
  people = [await registerOwner(service)]
  for (let index = 1; index < 8; index++) people.push(await addUser(service, `person-${index}@example.com`))
})
afterAll(async () => {
  console.log(`rights: ${steps} calls, ${refusals} of them refused, on ${engine}`)
  await service.stop()
})

/** A credential of a person, with its own scope. */
type Held = { readonly value: string; readonly person: number; readonly scope: Scope }
type Invited = IssuedInvite & { readonly person: number; grant: { role: Role; scope: Scope } }
type World = {
  readonly id: string
  readonly root: string
  readonly projects: readonly TestProject[]
  readonly teams: readonly string[]
  readonly scopes: readonly Scope[]
  readonly held: Held[]
  /** By invite id, with the newest token of each. */
  readonly invites: Map<string, Invited>
}

/** Two teams with one project each. People 1 to 6 join with these roles, the last one does not. */
const starts: readonly [Role, (scopes: readonly Scope[]) => Scope | undefined][] = [
  ['admin', ([all]) => all],
  ['admin', ([, firstTeam]) => firstTeam],
  ['developer', ([all]) => all],
  ['developer', ([, , firstProject]) => firstProject],
  ['member', ([all]) => all],
  ['member', ([, , , firstEnvironment]) => firstEnvironment],
]

async function createWorld(): Promise<World> {
  const slug = `rights-${++workspaces}`
  const [owner] = people
  if (!owner) throw new Error('there is no owner')
  const { session } = owner
  const made = await service.call<Workspace>('POST', '/v1/workspace', { token: session, body: { name: slug, slug } })
  const teams = [await createTeam(service, session, 'One', slug), await createTeam(service, session, 'Two', slug)]
  const projects: TestProject[] = []
  for (const [index, teamId] of teams.entries()) {
    const project = await createProject(service, session, `project-${index}`, { teamId, workspace: slug })
    projects.push(project)
    for (const { id } of project.environments) {
      const body = { environments: [id], secrets: [{ key: `KEY_${id.slice(-4)}`, value: canary(id) }] }
      const path = `/v1/workspace/${slug}/project/${project.slug}/secret`
      expect((await service.call('POST', path, { token: session, body })).status).toBe(201)
    }
  }
  const [first, second] = projects
  const scopes: Scope[] = [
    everything,
    { ...nothing, teams: teams.slice(0, 1) },
    { ...nothing, projects: [first?.id ?? ''] },
    { ...nothing, environments: [first?.environments[0]?.id ?? ''] },
    { ...nothing, teams: teams.slice(1) },
    { ...nothing, environments: [first?.environments[1]?.id ?? '', second?.environments[0]?.id ?? ''] },
  ]
  const held = people.map(({ session }, person) => ({ value: session, person, scope: everything }))
  const world: World = {
    id: made.body.id,
    root: `/v1/workspace/${slug}`,
    projects,
    teams,
    scopes,
    held,
    invites: new Map(),
  }
  for (const [index, [role, scopeOf]] of starts.entries()) {
    const scope = scopeOf(scopes) ?? everything
    const body = { email: people[index + 1]?.email, role, scope }
    const issued = await service.call<IssuedInvite>('POST', `${world.root}/rbac`, { token: session, body })
    const accepted = await service.call('POST', '/v1/workspace/invite/accept', {
      token: people[index + 1]?.session ?? '',
      body: { token: issued.body.inviteToken },
    })
    expect(accepted.status, accepted.text).toBe(200)
  }
  for (const person of people.keys()) {
    for (const scope of scopes.slice(0, 2)) await createToken(world, person, 'read', scope)
  }
  return world
}

const canary = (environmentId: string) => `only for those who reach ${environmentId}`

async function createToken(world: World, person: number, permission: string, scope: Scope): Promise<number> {
  const body = { name: 'held', permission, scope, expiresIn: 'never' }
  const token = people[person]?.session ?? ''
  const answer = await service.call<IssuedToken>('POST', `${world.root}/tokens`, { token, body })
  if (answer.status !== 201) return answer.status
  world.held.push({ value: answer.body.token, person, scope })
  const jwt = await service.call<{ accessToken: string }>('POST', '/v1/auth/exchange', { token: answer.body.token })
  if (jwt.status === 200) world.held.push({ value: jwt.body.accessToken, person, scope })
  return answer.status
}

type Rights = { readonly rank: number; readonly isOwner: boolean; readonly reached: ReadonlySet<string> }
const ranks: Record<Role, number> = { member: 0, developer: 1, admin: 2 }

/** All ids that a scope covers; `all` stands for the whole workspace. */
function reachedBy(world: World, scope: Scope): Set<string> {
  const reached = new Set<string>(scope.all ? ['all'] : [])
  for (const id of world.teams) if (scope.all || scope.teams.includes(id)) reached.add(id)
  for (const { id, teamId, environments } of world.projects) {
    const isWhole = reached.has(teamId) || scope.projects.includes(id)
    if (isWhole) reached.add(id)
    for (const one of environments) if (isWhole || scope.environments.includes(one.id)) reached.add(one.id)
  }
  return reached
}

/** From the store: the rights that people really have, whatever the API says. */
async function readRights(world: World): Promise<Map<number, Rights>> {
  const { members } = await service.app.services.store.members.list(world.id)
  return new Map(
    members.map(({ userId, isOwner, grants: [{ role, scope }] }) => [
      people.findIndex(({ id }) => id === userId),
      { rank: ranks[role], isOwner, reached: reachedBy(world, scope) },
    ]),
  )
}

function isMore(before: Rights | undefined, after: Rights | undefined): boolean {
  if (!after) return false
  if (!before) return true
  return (
    after.rank > before.rank ||
    (after.isOwner && !before.isOwner) ||
    [...after.reached].some((id) => !before.reached.has(id))
  )
}

const isSame = (before: Rights | undefined, after: Rights | undefined) =>
  !isMore(before, after) && !isMore(after, before)
const managesAll = (rights: Rights | undefined) => rights?.rank === ranks.admin && rights.reached.has('all')

/** A session shows exactly the environments that it covers, other credentials no more than that. */
async function checkReads(world: World, held: Held): Promise<void> {
  const mine = (await readRights(world)).get(held.person)
  const narrowed = reachedBy(world, held.scope)
  for (const { slug, environments } of world.projects) {
    const { status, text } = await service.call('GET', `${world.root}/project/${slug}/secret`, { token: held.value })
    const shown = environments.filter(({ id }) => text.includes(canary(id))).map(({ id }) => id)
    const covered = environments.filter(({ id }) => mine?.reached.has(id) && narrowed.has(id)).map(({ id }) => id)
    const isSession = held.value === people[held.person]?.session
    if (isSession) expect(shown, `${status}`).toEqual(covered)
    else expect(shown.filter((id) => !covered.includes(id))).toEqual([])
  }
}

type Step = {
  readonly actor: number
  /** An index into the actor's credentials; the session every other time. */
  readonly credential: number
  readonly target: number
  readonly act: 'invite' | 'accept' | 'decline' | 'resend' | 'change' | 'remove' | 'handover' | 'token'
  readonly role: Role
  readonly scope: number
  readonly permission: 'read' | 'read-write'
  readonly reader: number
}

const step: fc.Arbitrary<Step> = fc.record({
  // The owner and an admin act more often, since they may do most of this.
  actor: fc.oneof(fc.nat(7), fc.nat(1)),
  credential: fc.nat(20),
  target: fc.nat(7),
  act: fc.oneof(
    { weight: 3, arbitrary: fc.constant('change' as const) },
    { weight: 3, arbitrary: fc.constant('invite' as const) },
    { weight: 3, arbitrary: fc.constant('accept' as const) },
    { weight: 2, arbitrary: fc.constantFrom('remove' as const, 'token' as const) },
    { weight: 1, arbitrary: fc.constantFrom('decline' as const, 'resend' as const, 'handover' as const) },
  ),
  role: fc.constantFrom('member' as const, 'developer' as const, 'admin' as const),
  scope: fc.nat(5),
  permission: fc.constantFrom('read' as const, 'read-write' as const),
  reader: fc.nat(200),
})

/**
 * Every other step is taken by someone who is allowed to (the owner, or the invited person), so that enough steps
 * succeed with any seed.
 */
function actorOf(world: World, step: Step, owner: number): number {
  if (step.credential % 2 === 1) return step.actor
  const isAnswer = step.act === 'accept' || step.act === 'decline'
  return isAnswer ? (inviteOf(world, step)?.person ?? step.actor) : owner
}

function inviteOf(world: World, step: Step): Invited | undefined {
  const invites = [...world.invites.values()]
  return step.credential % 2 === 0 ? invites.at(-1) : invites[step.target % invites.length]
}

async function take(world: World, step: Step, actor: number): Promise<number> {
  const own = world.held.filter(({ person }) => person === actor)
  const token = own[step.credential % 2 === 0 ? 0 : step.credential % own.length]?.value ?? ''
  const scope = world.scopes[step.scope] ?? everything
  const rowId = await rowOf(world, step.target)
  const invite = inviteOf(world, step)
  const call = async <Body>(method: string, path: string, body?: unknown) =>
    service.call<Body>(method, path, { token, ...(body !== undefined && { body }) })
  switch (step.act) {
    case 'invite': {
      const body = { email: people[step.target]?.email, role: step.role, scope }
      const { status, body: issued } = await call<IssuedInvite>('POST', `${world.root}/rbac`, body)
      const grant = { role: step.role, scope }
      if (status === 201) world.invites.set(issued.id, { ...issued, person: step.target, grant })
      return status
    }
    case 'accept':
    case 'decline': {
      const path = `/v1/workspace/invite/${step.act}`
      return (await call('POST', path, { token: invite?.inviteToken ?? 'none' })).status
    }
    case 'resend': {
      const { status, body } = await call<IssuedInvite>('POST', `${world.root}/rbac/${invite?.id ?? world.id}/resend`)
      if (invite && status === 200) world.invites.set(invite.id, { ...invite, ...body })
      return status
    }
    case 'change': {
      const { status } = await call('PUT', `${world.root}/rbac/${rowId}`, { role: step.role, scope })
      const changed = world.invites.get(rowId)
      if (status === 200 && changed) changed.grant = { role: step.role, scope }
      return status
    }
    case 'remove':
      return (await call('DELETE', `${world.root}/rbac/${rowId}`)).status
    case 'handover':
      return (await call('POST', `${world.root}/owner`, { memberId: rowId })).status
    case 'token':
      return createToken(world, actor, step.permission, scope)
  }
}

/** The row of a person in the list of members: a membership or an invite. */
async function rowOf(world: World, person: number): Promise<string> {
  const { store } = service.app.services
  const { members } = await store.members.list(world.id)
  const member = members.find(({ userId }) => userId === people[person]?.id)
  const invite = (await store.invites.list(world.id)).find(({ email }) => email === people[person]?.email)
  return member?.id ?? invite?.id ?? world.id
}

test('nobody raises their own rights, and no credential reads more than its owner may', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 40, maxLength: 60 }), async (sequence) => {
      const world = await createWorld()
      for (const one of sequence) {
        const before = await readRights(world)
        const owner = [...before].find(([, { isOwner }]) => isOwner)?.[0] ?? 0
        const who = actorOf(world, one, owner)
        const status = await take(world, one, who)
        steps++
        if (status >= 400) refusals++
        expect(status, JSON.stringify(one)).toBeLessThan(500)
        const after = await readRights(world)
        const actor = before.get(who)
        for (const person of people.keys()) {
          const [was, is] = [before.get(person), after.get(person)]
          if (isSame(was, is)) continue
          const what = `${JSON.stringify(one)}: person ${person}`
          expect(status, what).toBe(200)
          if (person !== who) expect(managesAll(actor), what).toBe(true)
          else if (isMore(was, is)) {
            // The only way up: from no membership, with an invite by someone else, to exactly what it grants.
            expect([one.act, was], what).toEqual(['accept', undefined])
            const grant = [...world.invites.values()].findLast((invite) => invite.person === person)?.grant
            expect(is, what).toEqual({
              rank: ranks[grant?.role ?? 'member'],
              isOwner: false,
              reached: reachedBy(world, grant?.scope ?? nothing),
            })
          }
          if (one.act !== 'handover') expect(is?.isOwner ?? false, what).toBe(was?.isOwner ?? false)
        }
        expect([...after.values()].filter(({ isOwner }) => isOwner)).toMatchObject([{ rank: ranks.admin }])
        const reader = world.held[one.reader % world.held.length]
        if (reader) await checkReads(world, reader)
      }
      for (const held of world.held) await checkReads(world, held)
    }),
    { numRuns: times(8, 20), endOnFailure: true },
  )
  expect(refusals).toBeGreaterThan(50)
  expect(steps - refusals).toBeGreaterThan(50)
}, 300_000)
