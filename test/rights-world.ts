/** A workspace whose rights are read from the store, whatever the API says, and the credentials that were issued in it. */
import type { Grant, Role, Scope } from '@coffer/contract/field'
import type { IssuedInvite } from '@coffer/contract/invite'
import type { IssuedToken } from '@coffer/contract/token'
import type { Workspace } from '@coffer/contract/workspace'
import { expect } from 'vitest'
import { everything } from '../server/src/domain/scope.ts'
import { createProject, createTeam, type TestProject, type TestService, type TestUser } from './harness.ts'

const nothing: Scope = { all: false, teams: [], projects: [], environments: [] }

/** A session, or a token with its JWT. The holder is the id of a user; for a token it is read from the store. */
export type Held = { readonly value: string; readonly holder: string; readonly tokenId?: string }
export type Invited = IssuedInvite & { readonly person: number; grants: readonly Grant[] }
export type RightsWorld = {
  readonly service: TestService
  readonly people: readonly TestUser[]
  readonly id: string
  readonly root: string
  readonly projects: readonly TestProject[]
  readonly teams: readonly string[]
  readonly scopes: readonly Scope[]
  readonly held: Held[]
  /** By invite id, with the newest token of each. */
  readonly invites: Map<string, Invited>
}

/** Two teams with one project each. People 1 to 7 join with these grants, the last one does not. */
const starts: readonly (readonly [Role, number][])[] = [
  [['admin', 0]],
  [['admin', 1]],
  [['developer', 0]],
  [['developer', 2]],
  [['member', 0]],
  [
    ['developer', 3],
    ['member', 0],
  ],
  [
    ['member', 5],
    ['admin', 4],
  ],
]

export async function createRightsWorld(
  service: TestService,
  people: readonly TestUser[],
  slug: string,
): Promise<RightsWorld> {
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
  const held = people.map(({ session, id }) => ({ value: session, holder: id }))
  const root = `/v1/workspace/${slug}`
  const world = { service, people, id: made.body.id, root, projects, teams, scopes, held, invites: new Map() }
  const tokensOf = async ({ session: value, id: holder }: TestUser) => {
    const path = `${root}/tokens`
    await createToken(world, path, { value, holder }, everything, 'read-write')
    await createToken(world, path, { value, holder }, scopes[1] ?? everything)
  }
  await tokensOf(owner)
  for (const [index, named] of starts.entries()) {
    const person = people[index + 1]
    if (!person) throw new Error('there are too few people')
    const body = { email: person.email, role: 'admin', scope: { all: true } }
    const issued = await service.call<IssuedInvite>('POST', `${root}/rbac`, { token: session, body })
    const accepted = await service.call('POST', '/v1/workspace/invite/accept', {
      token: person.session,
      body: { token: issued.body.inviteToken },
    })
    expect(accepted.status, accepted.text).toBe(200)
    // Their tokens name more than they may reach afterwards.
    await tokensOf(person)
    const grants = named.map(([role, scope]) => ({ role, scope: scopes[scope] ?? everything }))
    const path = `${root}/rbac/${issued.body.id}`
    expect((await service.call('PUT', path, { token: session, body: { grants } })).status).toBe(200)
  }
  const accounts: Grant[] = [
    { role: 'developer', scope: everything },
    { role: 'member', scope: scopes[1] ?? everything },
  ]
  for (const [index, grant] of accounts.entries()) {
    const body = { name: `start ${index}`, grants: [grant] }
    expect((await service.call('POST', `${root}/service-account`, { token: session, body })).status).toBe(201)
  }
  return world
}

const canary = (environmentId: string) => `only for those who reach ${environmentId}`

/** A token of the path's owner, with its JWT. */
export async function createToken(
  world: RightsWorld,
  path: string,
  { value: token, holder }: Held,
  scope: Scope,
  permission = 'read',
): Promise<number> {
  const { call } = world.service
  const body = { name: 'held', permission, scope, expiresIn: 'never' }
  const answer = await call<IssuedToken>('POST', path, { token, body })
  if (answer.status === 201) await hold(world, answer.body, holder)
  return answer.status
}

export async function hold(world: RightsWorld, { token, id }: IssuedToken, holder: string): Promise<void> {
  world.held.push({ value: token, holder, tokenId: id })
  const jwt = await world.service.call<{ accessToken: string }>('POST', '/v1/auth/exchange', { token })
  if (jwt.status === 200) world.held.push({ value: jwt.body.accessToken, holder, tokenId: id })
}

const roles = ['member', 'developer', 'admin'] as const

/** For each role, the ids where it is held; `all` stands for the whole workspace. */
export type Rights = { readonly isOwner: boolean; readonly reached: Readonly<Record<Role, ReadonlySet<string>>> }

function reachedBy(world: RightsWorld, scope: Scope): Set<string> {
  const reached = new Set<string>(scope.all ? ['all'] : [])
  for (const id of world.teams) if (scope.all || scope.teams.includes(id)) reached.add(id)
  for (const { id, teamId, environments } of world.projects) {
    const isWhole = reached.has(teamId) || scope.projects.includes(id)
    if (isWhole) reached.add(id)
    for (const one of environments) if (isWhole || scope.environments.includes(one.id)) reached.add(one.id)
  }
  return reached
}

export function rightsOf(world: RightsWorld, grants: readonly Grant[], isOwner = false): Rights {
  const within = (least: Role) => {
    const counted = grants.filter(({ role }) => roles.indexOf(role) >= roles.indexOf(least))
    return new Set(counted.flatMap(({ scope }) => [...reachedBy(world, scope)]))
  }
  return { isOwner, reached: { member: within('member'), developer: within('developer'), admin: within('admin') } }
}

/** Rights of all members and service accounts, by the id of the user or account. */
export async function readRights(world: RightsWorld): Promise<Map<string, Rights>> {
  const { store } = world.service.app.services
  const { members } = await store.members.list(world.id)
  const { accounts } = await store.serviceAccounts.list(world.id)
  return new Map([
    ...members.map((one) => [one.userId, rightsOf(world, one.grants, one.isOwner)] as const),
    ...accounts.map((one) => [one.id, rightsOf(world, one.grants)] as const),
  ])
}

export function isMore(before: Rights | undefined, after: Rights | undefined): boolean {
  if (!after) return false
  if (!before || (after.isOwner && !before.isOwner)) return true
  return roles.some((role) => [...after.reached[role]].some((id) => !before.reached[role].has(id)))
}

export const isSame = (before: Rights | undefined, after: Rights | undefined) =>
  !isMore(before, after) && !isMore(after, before)
export const managesAll = (rights: Rights | undefined) => rights?.reached.admin.has('all') === true

type StoredToken = { readonly owner: string; readonly rights: Rights | undefined }

/** What each living token may do now: the rights of its owner within its scope and permission. */
export async function readTokens(
  world: RightsWorld,
  rights: ReadonlyMap<string, Rights>,
): Promise<Map<string, StoredToken>> {
  const { store } = world.service.app.services
  const { tokens } = await store.tokens.list(world.id, null, { before: 'z', limit: 1_000 })
  return new Map(
    tokens
      .filter(({ revokedAt }) => revokedAt === null)
      .map((token) => {
        const owner = token.serviceAccountId ?? token.createdBy
        return [token.id, { owner, rights: limited(world, rights.get(owner), token.permission, token.scope) }]
      }),
  )
}

function limited(world: RightsWorld, rights: Rights | undefined, permission: string, scope: Scope): Rights | undefined {
  if (!rights) return undefined
  const inScope = reachedBy(world, scope)
  const within = (role: Role) => new Set([...rights.reached[role]].filter((id) => inScope.has(id)))
  const none = new Set<string>()
  const isReader = permission === 'read'
  const reached = {
    member: within('member'),
    developer: isReader ? none : within('developer'),
    admin: isReader ? none : within('admin'),
  }
  return { isOwner: rights.isOwner, reached }
}

/** What a credential may do now; undefined if nothing. */
export async function rightsOfHeld(world: RightsWorld, { holder, tokenId }: Held): Promise<Rights | undefined> {
  const rights = await readRights(world)
  if (tokenId === undefined) return rights.get(holder)
  return (await readTokens(world, rights)).get(tokenId)?.rights
}

/** A session reads and writes exactly where its roles allow it; other credentials nowhere else. */
export async function checkUse(world: RightsWorld, held: Held): Promise<void> {
  const mine = await rightsOfHeld(world, held)
  const { call } = world.service
  for (const { slug, environments } of world.projects) {
    const path = `${world.root}/project/${slug}/secret`
    const { text } = await call('GET', path, { token: held.value })
    const shown = environments.filter(({ id }) => text.includes(canary(id))).map(({ id }) => id)
    const asked = environments[uses++ % environments.length]?.id ?? ''
    const body = { environments: [asked], secrets: [{ key: 'NEW', value: '' }], dryRun: true }
    const isWritten = (await call('POST', path, { token: held.value, body })).status < 300
    const readable = environments.filter(({ id }) => mine?.reached.member.has(id)).map(({ id }) => id)
    const isWritable = mine?.reached.developer.has(asked) === true
    if (held.tokenId === undefined) expect([shown, isWritten]).toEqual([readable, isWritable])
    expect(shown.filter((id) => !readable.includes(id))).toEqual([])
    if (isWritten) expect(isWritable).toBe(true)
  }
}

let uses = 0
