/**
 * One tenant with something of everything in it, and requests to every endpoint of the contract about it. A new
 * endpoint needs its requests here: what is not asked is not proven.
 */
import type { EndpointName } from '@coffer/contract/api'
import type { Permission, Role, Scope } from '@coffer/contract/field'
import type { historyEndpoints } from '@coffer/contract/history'
import type { IssuedInvite } from '@coffer/contract/invite'
import type { Member } from '@coffer/contract/member'
import type { oidcEndpoints } from '@coffer/contract/oidc'
import type { secretEndpoints, WriteResults } from '@coffer/contract/secret'
import type { IssuedShare, shareEndpoints } from '@coffer/contract/share'
import { newId } from '../server/src/crypto/id.ts'
import { createBearer, invitePrefix } from '../server/src/crypto/token.ts'
import { newTypedCode } from '../server/src/crypto/typed-code.ts'
import { everything } from '../server/src/domain/context.ts'
import { createStore } from '../server/src/store/store.ts'
import { createProject, createTeam, password, type TestProject, type TestService } from './harness.ts'

export type World = {
  readonly workspaceId: string
  readonly slug: string
  readonly email: string
  readonly teams: { readonly right: string; readonly wrong: string; readonly empty: string }
  readonly projects: { readonly right: string; readonly other: string; readonly wrong: string }
  readonly environments: { readonly right: string; readonly sibling: string; readonly wrong: string }
  /** By what they are for; `elsewhere` has a value in the sibling environment only. */
  readonly secrets: Readonly<Record<'shared' | 'referring' | 'elsewhere' | 'trashed' | 'wrong', string>>
  /** A text that the owner shares from the right project. */
  readonly share: Pick<IssuedShare, 'id' | 'token'>
  /** The least that one must hold to be shown a secret. */
  readonly homes: ReadonlyMap<string, string>
  readonly environmentNames: ReadonlyMap<string, string>
  /** A sign-in of a device that waits for an answer for longer than any test, and the device's own code. */
  readonly device: { readonly userCode: string; readonly deviceCode: string; readonly clientId: string }
  /** The session of somebody who asks for nothing. */
  readonly heirsSession: string
  /** An identity that no issuer vouches for in truth: its issuer is never called. */
  readonly identityId: string
  /** A member with an account, to whom the workspace can be handed over. */
  readonly heirId: string
  readonly ownerMemberId: string
  /** For an address that nobody here has. */
  readonly invite: { readonly id: string; readonly token: string }
  /** What lies in what: the container of every project and environment; a team lies in nothing. */
  readonly containers: ReadonlyMap<string, string | undefined>
}

/** Tokens as one caller sees them. */
export type TokenIds = { readonly itself?: string | undefined; readonly own: string; readonly others: string }

export type Ask = {
  readonly what: string
  readonly path: string
  readonly body?: Readonly<Record<string, unknown>>
  /** The team, project or environment in the path. */
  readonly on?: string
  /** The one that the body names. */
  readonly into?: string
  readonly token?: keyof TokenIds | 'absent'
  /** Is about the owner's share. */
  readonly isAboutShare?: true
  readonly newToken?: { readonly permission: Permission; readonly scope: Scope }
  /** What must be held as a whole, though a part of it is enough to see it. */
  readonly whole?: string
  /** More than the endpoint asks for by itself. */
  readonly needs?: 'developer' | 'admin'
  /** Writes a value of the caller's own. */
  readonly isPersonal?: true
  /** All that the answer names, of which everybody is shown what they hold. */
  readonly shows?: readonly string[]
  /** Where those who may ask are answered otherwise than with success. */
  readonly status?: number
  readonly isMalformed?: true
  /** Answers a question, though not by GET: changes nothing and leaves no trace. */
  readonly isQuestion?: true
}

export const absentId = '01890000-0000-7000-8000-00000000dead'

export const scopeNames = [
  'all',
  'right team',
  'right project',
  'right environment',
  'wrong team',
  'wrong project',
  'wrong environment',
] as const
export type ScopeName = (typeof scopeNames)[number]

export function scopeOf(world: World, name: ScopeName): Scope {
  const nothing = { all: false, teams: [], projects: [], environments: [] }
  const { teams, projects, environments } = world
  const scopes: Record<ScopeName, Scope> = {
    all: everything,
    'right team': { ...nothing, teams: [teams.right, teams.empty] },
    'right project': { ...nothing, projects: [projects.right] },
    'right environment': { ...nothing, environments: [environments.right] },
    'wrong team': { ...nothing, teams: [teams.wrong] },
    'wrong project': { ...nothing, projects: [projects.wrong] },
    'wrong environment': { ...nothing, environments: [environments.wrong] },
  }
  return scopes[name]
}

export async function createWorld(
  service: TestService,
  owner: { readonly session: string; readonly email: string },
  heirId: string,
  slug = 'main',
): Promise<World> {
  const { session, email } = owner
  const { body: workspace } = await service.call<{ id: string }>('GET', `/v1/workspace/${slug}`, { token: session })
  const [right, wrong, empty] = await Promise.all(
    ['Right', 'Wrong', 'Empty'].map((name) => createTeam(service, session, name, slug)),
  )
  if (!right || !wrong || !empty) throw new Error('three teams were asked for')
  const inTeam = (name: string, teamId: string) =>
    createProject(service, session, name, { teamId, workspace: slug }).then((project) => {
      const [first, second] = project.environments
      if (!first || !second) throw new Error('a project begins with environments')
      return { ...project, first: first.id, second: second.id }
    })
  const projects = {
    right: await inTeam('right', right),
    other: await inTeam('other', right),
    wrong: await inTeam('wrong', wrong),
  }
  const containers = new Map<string, string | undefined>([right, wrong, empty].map((id) => [id, undefined]))
  for (const project of Object.values(projects)) {
    containers.set(project.id, project.teamId)
    for (const { id } of project.environments) containers.set(id, project.id)
  }
  const device = await createDevice(service, slug)
  const environments = { right: projects.right.first, sibling: projects.right.second, wrong: projects.wrong.first }
  const secrets = await createContent(service, session, slug, projects)
  const identity = await service.call<{ id: string }>('POST', `/v1/workspace/${slug}/oidc`, {
    token: session,
    body: newIdentity,
  })
  const newShare = { content: 'a shared text', expiresIn: 30 * 24 * 60 * 60, maxViews: 100 }
  const { body: share } = await service.call<IssuedShare>('POST', `/v1/workspace/${slug}/project/right/secret-share`, {
    token: session,
    body: newShare,
  })
  return {
    workspaceId: workspace.id,
    slug,
    secrets,
    share,
    homes: new Map([
      [secrets.shared, environments.right],
      [secrets.referring, environments.right],
      [secrets.elsewhere, environments.sibling],
      [secrets.trashed, projects.right.id],
      [secrets.wrong, environments.wrong],
    ]),
    environmentNames: new Map(projects.right.environments.map(({ id, name }) => [id, name])),
    email,
    teams: { right, wrong, empty },
    projects: { right: projects.right.id, other: projects.other.id, wrong: projects.wrong.id },
    environments,
    device,
    heirsSession: await findSession(service, heirId, workspace.id),
    identityId: identity.body.id,
    heirId,
    ...(await createInvite(service, session, slug)),
    containers,
  }
}

async function createInvite(
  service: TestService,
  token: string,
  slug: string,
): Promise<Pick<World, 'ownerMemberId' | 'invite'>> {
  const path = `/v1/workspace/${slug}/rbac`
  const body = { email: `invited@${slug}.example.com`, role: 'developer', scope: { all: true } }
  const { body: issued } = await service.call<IssuedInvite>('POST', path, { token, body })
  const { body: members } = await service.call<Member[]>('GET', path, { token })
  const ownerMemberId = members.find(({ isOwner }) => isOwner)?.id ?? ''
  return { ownerMemberId, invite: { id: issued.id, token: issued.inviteToken } }
}

async function createDevice(service: TestService, slug: string): Promise<World['device']> {
  const { services } = service.app
  const codes = { user: newTypedCode(2), device: `device of ${slug}` }
  const createdAt = services.now()
  const login = {
    id: newId(),
    clientId: 'cli',
    ip: '192.0.2.1',
    userAgent: '',
    state: 'pending',
    userId: null,
    createdAt,
    expiresAt: createdAt + 24 * 3_600_000,
  } as const
  await services.engine.transaction(`test:${slug}`, async ({ db }) => {
    await createStore(db, services.keys).devices.insert(login, codes)
  })
  return { userCode: codes.user, deviceCode: codes.device, clientId: login.clientId }
}

async function findSession({ app }: TestService, memberId: string, workspaceId: string): Promise<string> {
  const { members } = await app.services.store.members.list(workspaceId)
  const member = members.find(({ id }) => id === memberId)
  const [session] = member ? await app.services.store.sessions.list(member.userId) : []
  if (!session) throw new Error('the heir is signed in')
  return session.id
}

type Seeded = TestProject & { readonly first: string; readonly second: string }

/** Secrets whose values name the environment that they stand in: who is shown one has been there. */
async function createContent(
  service: TestService,
  token: string,
  slug: string,
  projects: { readonly right: Seeded; readonly wrong: Seeded },
): Promise<World['secrets']> {
  const { right, wrong } = projects
  async function send<Body>(method: string, path: string, body?: unknown): Promise<Body> {
    const answer = await service.call<Body>(method, `/v1/workspace/${slug}/project${path}`, { token, body })
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.text}`)
    return answer.body
  }
  async function create(project: string, environmentId: string, key: string, value: string): Promise<string> {
    const body = { environments: [environmentId], secrets: [{ key, value }] }
    const { results } = await send<WriteResults>('POST', `/${project}/secret`, body)
    return results[0]?.id ?? ''
  }
  await send('PUT', `/right/environment/${right.first}`, { hasPersonalOverrides: true })
  let shared = ''
  for (const { id } of right.environments) shared = await create('right', id, 'SHARED', `first in ${id}`)
  for (const { id } of right.environments) {
    await send('PUT', '/right/secret/SHARED/value', { environmentId: id, value: `shared in ${id}` })
  }
  const [siblingName, wrongName] = [right.environments[1]?.name, wrong.environments[0]?.name]
  const references = `\${${siblingName}.SHARED} and \${wrong.${wrongName}.SHARED}`
  const secrets = {
    shared,
    referring: await create('right', right.first, 'REFERRING', references),
    elsewhere: await create('right', right.second, 'ELSEWHERE', 'only here'),
    trashed: await create('right', right.first, 'TRASHED', 'gone'),
    wrong: await create('wrong', wrong.first, 'SHARED', `shared in ${wrong.first}`),
  }
  await send('DELETE', '/right/secret/TRASHED')
  await send('PUT', '/right/secret/SHARED/reminder', reminder(right.first))
  return secrets
}

const reminder = (environmentId: string) => ({
  environmentId,
  type: 'one_time',
  nextReminderDate: '2040-01-01T00:00:00.000Z',
})

export async function changeMember(
  service: TestService,
  owner: { readonly session: string },
  memberId: string,
  change: { readonly role: Role; readonly scope: Scope } | 'removed',
): Promise<void> {
  const path = `/v1/workspace/main/rbac/${memberId}`
  const options = { token: owner.session, ...(change !== 'removed' && { body: change }) }
  const { status, text } = await service.call(change === 'removed' ? 'DELETE' : 'PUT', path, options)
  if (status !== 200) throw new Error(text)
}

const one = (what: string, path: string, more: Partial<Ask> = {}): Ask => ({ what, path, ...more })

/** Requests of which each would succeed for an owner, or says how it is answered instead. */
export function requestTable(world: World, tokens: TokenIds): Record<EndpointName, readonly Ask[]> {
  const { teams, projects, environments, device, heirId, ownerMemberId, invite } = world
  const ws = `/v1/workspace/${world.slug}`
  const project = `${ws}/project/${projects.right}`
  const environment = (id: string) => `${project}/environment/${id}`
  const tokenAsks = (end: string, body?: Ask['body']): Ask[] =>
    (['itself', 'own', 'others', 'absent'] as const).flatMap((token) => {
      const id = token === 'absent' ? absentId : tokens[token]
      if (id === undefined) return []
      return one(token, `${ws}/tokens/${id}${end}`, { token, ...(body && { body }) })
    })
  return {
    exchangeToken: [one('exchange', '/v1/auth/exchange')],
    register: [
      one('closed', '/v1/auth/register', { body: newAccount, status: 403 }),
      one('with an invite for another address', '/v1/auth/register', {
        body: { ...newAccount, inviteToken: invite.token },
        status: 403,
      }),
    ],
    login: [one('login', '/v1/auth/login', { body: { email: world.email, password } })],
    logout: [one('logout', '/v1/auth/logout')],
    logoutCli: [one('logout', '/v1/auth/cli/logout', { body: {} })],
    createDeviceCode: [one('begin', '/v1/auth/device/code', { body: { clientId: 'cli' } })],
    pollDevice: [
      one('unknown', '/v1/auth/device/token', { body: { clientId: 'cli', deviceCode: 'unknown' }, status: 400 }),
      one('of another client', '/v1/auth/device/token', {
        body: { clientId: 'other', deviceCode: device.deviceCode },
        status: 400,
      }),
    ],
    readDevice: [one('waiting', '/v1/auth/device/lookup', { body: { userCode: device.userCode } })],
    answerDevice: [
      one('approve', '/v1/auth/device/approve', { body: { userCode: device.userCode, approve: true } }),
      one('refuse', '/v1/auth/device/approve', { body: { userCode: device.userCode, approve: false } }),
    ],
    readMe: [one('me', '/v1/me')],
    updateMe: [
      one('rename', '/v1/me', { body: { name: 'Renamed' } }),
      one('preferences', '/v1/me', { body: { preferences: { theme: 'dark' } } }),
    ],
    readPreferences: [one('preferences', '/v1/me/preferences')],
    updatePreferences: [
      one('theme', '/v1/me/preferences', { body: { theme: 'light' } }),
      one('a workspace that is not there', '/v1/me/preferences', { body: { defaultWorkspace: absentId }, status: 400 }),
    ],
    changePassword: [
      one('change', '/v1/me/password', { body: { currentPassword: password, newPassword: `${password} again` } }),
    ],
    listSessions: [one('list', '/v1/me/session')],
    revokeSession: [
      one('absent', `/v1/me/session/${absentId}`, { status: 404 }),
      one('of somebody else', `/v1/me/session/${world.heirsSession}`, { status: 404 }),
    ],
    revokeOtherSessions: [one('all others', '/v1/me/session')],
    enrolTotp: [one('begin', '/v1/me/mfa/totp')],
    confirmTotp: [one('nothing begun', '/v1/me/mfa/totp/confirm', { body: { code: '123456' }, status: 409 })],
    removeTotp: [one('nothing set up', '/v1/me/mfa/totp', { body: { code: '123456' }, status: 404 })],
    listWorkspaces: [one('list', '/v1/workspace')],
    createWorkspace: [one('create', '/v1/workspace', { body: { name: 'Fresh', slug: 'fresh' } })],
    readWorkspace: [one('by slug', ws), one('by id', `/v1/workspace/${world.workspaceId}`)],
    updateWorkspace: [one('rename', ws, { body: { name: 'Renamed' } })],
    deleteWorkspace: [one('delete', ws)],
    handOverWorkspace: [
      one('to a member', `${ws}/owner`, { body: { memberId: heirId } }),
      one('to nobody', `${ws}/owner`, { body: { memberId: absentId }, into: absentId }),
    ],
    listMembers: [one('list', `${ws}/rbac`)],
    createInvite: [
      ...scopeNames.map((name) => one(`for ${name}`, `${ws}/rbac`, { body: newInvite(scopeOf(world, name)) })),
      one('for nothing', `${ws}/rbac`, { body: newInvite({ ...everything, all: false }), status: 400 }),
      one('for what is not there', `${ws}/rbac`, {
        body: newInvite({ ...everything, all: false, projects: [absentId] }),
        status: 400,
      }),
      one('of a member', `${ws}/rbac`, { body: { ...newInvite(everything), email: world.email }, status: 409 }),
    ],
    updateMember: [
      one('a member', `${ws}/rbac/${heirId}`, {
        body: { role: 'admin', scope: sentScope(scopeOf(world, 'right environment')) },
      }),
      one('an invite', `${ws}/rbac/${invite.id}`, { body: { role: 'admin' } }),
      one('the owner', `${ws}/rbac/${ownerMemberId}`, { body: { role: 'developer' }, status: 409 }),
      one('nobody', `${ws}/rbac/${absentId}`, { body: { role: 'admin' }, into: absentId }),
    ],
    removeMember: [
      one('a member', `${ws}/rbac/${heirId}`),
      one('an invite', `${ws}/rbac/${invite.id}`),
      one('the owner', `${ws}/rbac/${ownerMemberId}`, { status: 409 }),
      one('nobody', `${ws}/rbac/${absentId}`, { into: absentId }),
    ],
    resendInvite: [
      one('an invite', `${ws}/rbac/${invite.id}/resend`),
      one('that was accepted', `${ws}/rbac/${heirId}/resend`, { status: 409 }),
      one('absent', `${ws}/rbac/${absentId}/resend`, { into: absentId }),
    ],
    acceptInvite: inviteAsks('accept', invite.token),
    declineInvite: inviteAsks('decline', invite.token),
    listTeams: [one('list', `${ws}/team`)],
    createTeam: [one('create', `${ws}/team`, { body: { name: 'Fresh' } })],
    updateTeam: [
      one('with projects', `${ws}/team/${teams.right}`, { body: { name: 'Renamed' }, on: teams.right }),
      one('without projects', `${ws}/team/${teams.empty}`, { body: { name: 'Renamed' }, on: teams.empty }),
      one('absent', `${ws}/team/${absentId}`, { body: { name: 'Renamed' }, on: absentId }),
    ],
    deleteTeam: [
      one('with projects', `${ws}/team/${teams.right}`, { on: teams.right, status: 409 }),
      one('without projects', `${ws}/team/${teams.empty}`, { on: teams.empty }),
      one('absent', `${ws}/team/${absentId}`, { on: absentId }),
    ],
    listProjects: [one('list', `${ws}/project/`)],
    createProject: [teams.right, teams.wrong, absentId].map((teamId) =>
      one(`in team ${teamId}`, `${ws}/project`, { body: { name: 'Fresh', slug: 'fresh', teamId }, into: teamId }),
    ),
    readProject: [
      one('by id', project, { on: projects.right }),
      one('by slug', `${ws}/project/right`, { on: projects.right }),
      one('a neighbour', `${ws}/project/${projects.other}`, { on: projects.other }),
      one('absent', `${ws}/project/${absentId}`, { on: absentId }),
    ],
    updateProject: [
      one('rename', project, { body: { name: 'Renamed' }, on: projects.right }),
      one('move', project, { body: { teamId: teams.wrong }, on: projects.right, into: teams.wrong }),
      one('move to nowhere', project, { body: { teamId: absentId }, on: projects.right, into: absentId }),
      one('a neighbour', `${ws}/project/other`, { body: { slug: 'moved' }, on: projects.other }),
    ],
    deleteProject: [
      one('delete', project, { on: projects.right }),
      one('absent', `${ws}/project/absent`, { on: absentId }),
    ],
    listEnvironments: [
      one('list', `${project}/environment`, { on: projects.right }),
      one('of a neighbour', `${ws}/project/other/environment/`, { on: projects.other }),
    ],
    createEnvironment: [one('create', `${project}/environment`, { body: { name: 'fresh' }, on: projects.right })],
    updateEnvironment: [
      one('right', environment(environments.right), { body: { name: 'renamed' }, on: environments.right }),
      one('sibling', environment(environments.sibling), {
        body: { hasPersonalOverrides: true },
        on: environments.sibling,
      }),
      // It exists, but not in this project.
      one('misplaced', environment(environments.wrong), { body: { name: 'renamed' }, on: absentId }),
    ],
    deleteEnvironment: [
      one('right', environment(environments.right), { on: environments.right }),
      one('sibling', environment(environments.sibling), { on: environments.sibling }),
      one('misplaced', environment(environments.wrong), { on: absentId }),
    ],
    ...secretAsks(world),
    ...shareAsks(world),
    listTokens: [one('list', `${ws}/tokens`)],
    createToken: (['read', 'read-write'] as const).flatMap((permission) =>
      scopeNames.map((name) => {
        const newToken = { permission, scope: scopeOf(world, name) }
        const body = { name: 'fresh', expiresIn: '24h', permission, scope: sentScope(newToken.scope) }
        return one(`${permission} for ${name}`, `${ws}/tokens`, { body, newToken })
      }),
    ),
    createCliToken: [environments.right, environments.wrong, absentId].map((environmentId) =>
      one(`for ${environmentId}`, `${ws}/tokens/cli`, { body: { environmentId }, into: environmentId }),
    ),
    rotateToken: tokenAsks('/rotate', { graceSeconds: 60 }),
    revokeToken: tokenAsks(''),
    ...identityAsks(world),
    listAudit: [
      one('page', `${ws}/audit`),
      one('of a project', `${ws}/audit?project=${projects.right}`),
      one('of an environment', `${ws}/audit?environment=${environments.right}`),
      one('of an entity', `${ws}/audit?entity=${teams.right}&limit=5`),
      one('all of it', `${ws}/audit?format=ndjson&entity=${teams.right}`),
    ],
    verifyAudit: [one('verify', `${ws}/audit/verify`)],
  }
}

function identityAsks(world: World): Record<keyof typeof oidcEndpoints, readonly Ask[]> {
  const list = `/v1/workspace/${world.slug}/oidc`
  const identity = `${list}/${world.identityId}`
  const absent = `${list}/${absentId}`
  const [body, into] = [{ name: 'Renamed' }, absentId]
  const { scope: _all, ...rest } = newIdentity
  const scope = { environments: [world.environments.right] }
  // The token is none, so that nobody is called.
  const test = { body: { token: 'none' }, isQuestion: true } as const
  return {
    exchangeIdentity: [
      one('refused', '/v1/auth/oidc/exchange', { body: { token: 'none', workspaceId: 'nobodys' }, status: 401 }),
    ],
    listIdentities: [one('list', list)],
    createIdentity: [
      one('for everything', list, { body: newIdentity }),
      one('for one environment', list, { body: { ...rest, permission: 'read', scope } }),
    ],
    listIdentityPresets: [one('list', `${list}/preset`)],
    readIdentity: [one('one', identity), one('absent', absent, { into })],
    updateIdentity: [one('rename', identity, { body }), one('absent', absent, { body, into })],
    deleteIdentity: [one('delete', identity), one('absent', absent, { into })],
    testIdentity: [one('test', `${identity}/test`, test), one('absent', `${absent}/test`, { ...test, into })],
  }
}

type SecretAsks = Record<keyof typeof secretEndpoints | keyof typeof historyEndpoints, readonly Ask[]>

function secretAsks(world: World): SecretAsks {
  const { projects, secrets, environments, environmentNames } = world
  const { right, sibling, wrong } = environments
  const { shared, referring, elsewhere } = secrets
  const list = `/v1/workspace/${world.slug}/project/${projects.right}/secret`
  const key = `${list}/SHARED`
  const environment = (id: string) => `/v1/workspace/${world.slug}/project/${projects.right}/environment/${id}`
  const all = [...environmentNames.keys()]
  const named = [shared, referring, elsewhere]
  const on = projects.right
  const value = 'fresh'
  const set = { op: 'set', key: 'FRESH', value }
  const write = (what: string, path: string, body: Ask['body'] = {}, more: Partial<Ask> = {}) =>
    one(what, path, { on, body, ...more })
  const row = (environmentId: string, isPersonal = false) => ({ environmentId, value, isPersonal })
  const created = (...ids: string[]) => ({ environments: ids, secrets: [{ key: 'FRESH', value }] })
  const changed = (...values: object[]) => ({ name: 'SHARED', values })
  const file = (environmentId: string) => ({ environmentId, format: 'dotenv', content: 'FRESH=fresh' })
  const needs = 'developer'
  return {
    listSecrets: [
      one('all in reach', list, { on, shows: [...all, ...named] }),
      one('of one', `${list}?environmentId=${right}`, { on, into: right, shows: [right, ...named] }),
      one('of a sibling by name', `${list}?environment_id=${environmentNames.get(sibling)}`, {
        on,
        into: sibling,
        shows: [sibling, ...named],
      }),
      one('of one and a sibling', `${list}?environmentId=${right}&environmentId=${sibling}`, {
        on,
        into: sibling,
        shows: [right, sibling, ...named],
      }),
      one('misplaced', `${list}?environmentId=${wrong}`, { on, into: absentId }),
      one('resolved', `${list}?environmentId=${right}&resolve=true`, {
        on,
        into: right,
        shows: [right, sibling, wrong, ...named],
      }),
      one('names only', `${list}?view=keys`, { on, shows: [...all, ...named] }),
      one('found by name', `${list}?q=else`, { on, shows: [sibling, elsewhere] }),
      one('of a neighbour', `/v1/workspace/${world.slug}/project/other/secret`, { on: projects.other, shows: [] }),
    ],
    readSecret: [
      one('by name', key, { on, shows: [...all, shared] }),
      one('by id', `${list}/${shared}?environmentId=${right}`, { on, into: right, shows: [right, shared] }),
      one('of a sibling', `${key}?environmentId=${sibling}`, { on, into: sibling, shows: [sibling, shared] }),
      one('that is elsewhere', `${list}/ELSEWHERE`, { on, into: sibling, shows: [sibling, elsewhere] }),
      one('that is elsewhere by id', `${list}/${elsewhere}`, { on, into: sibling, shows: [sibling, elsewhere] }),
      one('of another project', `${list}/${secrets.wrong}`, { on, into: absentId }),
      one('in the trash', `${list}/${secrets.trashed}`, { on, into: absentId }),
      one('resolved', `${list}/REFERRING?resolve=true`, { on, into: right, shows: [right, sibling, wrong, referring] }),
    ],
    listScopedSecrets: [one('scoped', '/v1/secrets', { shows: [right, shared, referring, wrong, secrets.wrong] })],
    createSecrets: [
      write('in one', list, created(right), { into: right }),
      write('in one and a sibling', list, created(right, sibling), { into: sibling }),
      write('misplaced', list, created(right, wrong), { into: absentId }),
      write('dry run', list, { ...created(right), dryRun: true }, { into: right, status: 200 }),
    ],
    updateSecret: [
      write('shared', key, changed(row(right)), { needs, into: right }),
      write('shared by id', `${list}/${shared}`, changed(row(right)), { needs, into: right }),
      write('of a sibling', key, changed(row(right), row(sibling)), { needs, into: sibling }),
      write('misplaced', key, changed(row(right), row(wrong)), { needs, into: absentId }),
      write('personal', key, changed(row(right, true)), { isPersonal: true, into: right }),
      write('shared and personal', key, changed(row(right), row(right, true)), {
        needs,
        isPersonal: true,
        into: right,
      }),
      write('personal where there is no such thing', key, changed(row(sibling, true)), {
        isPersonal: true,
        into: sibling,
        status: 400,
      }),
      write(
        'personal with a note',
        key,
        { ...changed(row(right, true)), note: 'changed' },
        { needs, isPersonal: true },
      ),
      write('note', key, { ...changed(), note: 'changed' }, { needs }),
      write(
        'note of one elsewhere',
        `${list}/ELSEWHERE`,
        { name: 'ELSEWHERE', note: 'changed', values: [] },
        {
          needs,
          into: sibling,
        },
      ),
      write('nothing but a rename', key, { name: 'RENAMED', values: [] }, { needs, whole: on }),
      write('absent', `${list}/NOWHERE`, { name: 'NOWHERE', values: [] }, { needs, into: absentId }),
    ],
    writeSecretValue: [
      write('shared', `${key}/value`, row(right), { needs, into: right }),
      write('of a sibling', `${key}/value`, row(sibling), { needs, into: sibling }),
      write('misplaced', `${key}/value`, row(wrong), { needs, into: absentId }),
      write('personal', `${key}/value`, row(right, true), { isPersonal: true, into: right }),
      write('personal where there is no such thing', `${key}/value`, row(sibling, true), {
        isPersonal: true,
        into: sibling,
        status: 400,
      }),
      write('of another project', `${list}/${secrets.wrong}/value`, row(right), { needs, into: absentId }),
    ],
    deleteSecret: [
      one('shared', `${key}?environmentId=${right}`, { on, needs, into: right }),
      one('of a sibling', `${key}?environmentId=${sibling}`, { on, needs, into: sibling }),
      one('misplaced', `${key}?environmentId=${wrong}`, { on, needs, into: absentId }),
      one('personal', `${key}?environmentId=${right}&personal=true`, { on, isPersonal: true, into: right }),
      one('everywhere', key, { on, needs, whole: on }),
      one('purge', `${list}/${shared}?purge=true`, { on, needs: 'admin', whole: on }),
      one('purge from the trash', `${list}/TRASHED?purge=true`, { on, needs: 'admin', whole: on }),
      one('of another project', `${list}/${secrets.wrong}`, { on, needs, whole: on, into: absentId }),
    ],
    listTrash: [
      one('list', `${list}/trash`, { on, shows: [secrets.trashed] }),
      one('of a neighbour', `/v1/workspace/${world.slug}/project/other/secret/trash`, {
        on: projects.other,
        shows: [],
      }),
    ],
    restoreSecret: [
      one('by name', `${list}/TRASHED/restore`, { on, whole: on }),
      one('by id', `${list}/${secrets.trashed}/restore`, { on, whole: on }),
      one('that is not there', `${list}/${shared}/restore`, { on, whole: on, into: absentId }),
    ],
    writeBatch: [
      write('set', `${list}/batch`, { environmentId: right, operations: [set] }, { into: right }),
      write('delete', `${list}/batch`, { environmentId: right, operations: [{ op: 'delete', key: 'SHARED' }] }),
      write('of a sibling', `${list}/batch`, { environmentId: sibling, operations: [set] }, { into: sibling }),
      write('misplaced', `${list}/batch`, { environmentId: wrong, operations: [set] }, { into: absentId }),
      write(
        'rename',
        `${list}/batch`,
        { environmentId: right, operations: [set, { op: 'rename', key: 'SHARED', to: 'RENAMED' }] },
        { whole: on },
      ),
      write('dry run', `${list}/batch`, { environmentId: right, operations: [set], dryRun: true }, { into: right }),
    ],
    importSecrets: [
      write('of one', `${list}/import`, file(right), { into: right }),
      write('of a sibling', `${list}/import`, file(sibling), { into: sibling }),
      write('misplaced', `${list}/import`, file(wrong), { into: absentId }),
      write('dry run', `${list}/import`, { ...file(right), dryRun: true }, { into: right }),
    ],
    exportSecrets: [
      one('of one', `${list}/export?environmentId=${right}`, { on, into: right, shows: [right] }),
      one('of a sibling', `${list}/export?environment_id=${sibling}&format=csv`, {
        on,
        into: sibling,
        shows: [sibling],
      }),
      one('misplaced', `${list}/export?environmentId=${wrong}`, { on, into: absentId }),
      one('resolved', `${list}/export?environmentId=${right}&resolve=true&format=yaml`, {
        on,
        into: right,
        shows: [right, sibling, wrong],
      }),
    ],
    putReminder: [
      write('of one', `${key}/reminder`, { ...reminder(right), type: 'recurring', everyDays: 7 }, { into: right }),
      write('of a sibling', `${key}/reminder`, reminder(sibling), { into: sibling }),
      write('misplaced', `${key}/reminder`, reminder(wrong), { into: absentId }),
    ],
    deleteReminder: [
      one('of one', `${key}/reminder?environmentId=${right}`, { on, into: right }),
      // There is none.
      one('of a sibling', `${key}/reminder?environmentId=${sibling}`, { on, into: absentId }),
    ],
    listVersions: [
      one('of one', `${key}/version?environmentId=${right}`, { on, into: right, shows: [] }),
      one('of a sibling', `${list}/${shared}/version?environmentId=${sibling}`, { on, into: sibling, shows: [] }),
      one('misplaced', `${key}/version?environmentId=${wrong}`, { on, into: absentId }),
      one('elsewhere', `${list}/ELSEWHERE/version?environmentId=${right}`, { on, into: absentId }),
    ],
    readVersion: [
      one('of one', `${key}/version/1?environmentId=${right}`, { on, into: right, shows: [right] }),
      one('of a sibling', `${list}/${shared}/version/2?environmentId=${sibling}`, {
        on,
        into: sibling,
        shows: [sibling],
      }),
      one('misplaced', `${key}/version/1?environmentId=${wrong}`, { on, into: absentId }),
    ],
    restoreVersion: [
      write('of one', `${key}/version/1/restore`, { environmentId: right }, { into: right }),
      write('of a sibling', `${list}/${shared}/version/1/restore`, { environmentId: sibling }, { into: sibling }),
      write('misplaced', `${key}/version/1/restore`, { environmentId: wrong }, { into: absentId }),
    ],
    listRevisions: [
      one('of one', `${environment(right)}/revision`, { on: right, shows: [] }),
      one('of a sibling', `${environment(sibling)}/revision`, { on: sibling, shows: [] }),
      one('misplaced', `${environment(wrong)}/revision`, { on: absentId }),
    ],
    restoreRevision: [
      write('of one', `${environment(right)}/revision/1/restore`, {}, { on: right }),
      write('of a sibling', `${environment(sibling)}/revision/1/restore`, {}, { on: sibling }),
      write('misplaced', `${environment(wrong)}/revision/1/restore`, {}, { on: absentId }),
      write('dry run', `${environment(right)}/revision/1/restore`, { dryRun: true }, { on: right }),
    ],
    diffSecrets: [
      one('of one', `${list}/diff?from=${right}@1&to=${right}`, { on, into: right, shows: [] }),
      one('with a sibling', `${list}/diff?from=${right}&to=${sibling}&values=true`, {
        on,
        into: sibling,
        shows: [right, sibling],
      }),
      one('from a sibling', `${list}/diff?from=${environmentNames.get(sibling)}@1&to=${right}`, {
        on,
        into: sibling,
        shows: [],
      }),
      one('misplaced', `${list}/diff?from=${right}&to=${wrong}&values=true`, { on, into: absentId }),
    ],
    promoteSecrets: [
      write('from a sibling', `${environment(right)}/promote`, { from: sibling }, { on: right, into: sibling }),
      write('to a sibling', `${environment(sibling)}/promote`, { from: right }, { on: sibling, into: right }),
      write('misplaced', `${environment(right)}/promote`, { from: wrong }, { on: right, into: absentId }),
      write('dry run', `${environment(right)}/promote`, { from: sibling, dryRun: true }, { on: right, into: sibling }),
    ],
  }
}

function shareAsks(world: World): Record<keyof typeof shareEndpoints, readonly Ask[]> {
  const { projects, secrets, environments, share } = world
  const { right, sibling, wrong } = environments
  const on = projects.right
  const list = `/v1/workspace/${world.slug}/project/${on}/secret-share`
  const expiresIn = 300
  const of = (what: string, id: string, environmentId: string, into: string) =>
    one(what, list, { on, into, body: { secrets: [{ id, environmentId }], expiresIn } })
  const zeros = (byteCount: number) => Buffer.alloc(byteCount).toString('base64url')
  const envelope = { ciphertext: zeros(284), commit: zeros(32), linkProofHash: zeros(32) }
  const isAboutShare = true
  return {
    createShare: [
      one('a text', list, { on, body: { content: 'fresh', expiresIn } }),
      one('an envelope', list, { on, body: { envelope, expiresIn } }),
      of('of one', secrets.shared, right, right),
      of('of a sibling', secrets.shared, sibling, sibling),
      of('misplaced', secrets.shared, wrong, absentId),
      of('of another project', secrets.wrong, right, absentId),
      of('in the trash', secrets.trashed, right, absentId),
    ],
    listShares: [one('list', list, { on })],
    revokeShare: [
      one('the owner’s', `${list}/${share.id}`, { on, isAboutShare }),
      one('absent', `${list}/${absentId}`, { on, into: absentId }),
    ],
    listShareViews: [
      one('of the owner’s', `${list}/${share.id}/view`, { on, isAboutShare }),
      one('absent', `${list}/${absentId}/view`, { on, into: absentId }),
    ],
    readShareMeta: [
      one('meta', `/v1/share/${share.token}/meta`),
      one('absent', '/v1/share/absent/meta', { status: 404 }),
    ],
    openShare: [
      one('view', `/v1/share/${share.token}/view`, { body: {} }),
      one('absent', '/v1/share/absent/view', { body: {}, status: 404 }),
    ],
  }
}

/** Throws for an endpoint that nobody has thought of here. */
export function requestsTo(table: Partial<Record<string, readonly Ask[]>>, name: EndpointName): readonly Ask[] {
  const asks = table[name]
  if (!asks || asks.length === 0) throw new Error(`${name} has no requests: add some to test/request-table.ts`)
  return asks
}

const newIdentity = {
  name: 'deployer',
  issuer: 'https://issuer.example.com',
  audience: 'coffer',
  subject: 'somebody',
  permission: 'read-write',
  scope: { all: true },
} as const

const newAccount = { email: 'newcomer@example.com', name: 'Newcomer', password }

const newInvite = (scope: Scope) => ({ email: 'fresh@example.com', role: 'admin', scope: sentScope(scope) })

/** Nobody who asks has the address that is invited. */
const inviteAsks = (answer: 'accept' | 'decline', token: string) => [
  one('for another address', `/v1/workspace/invite/${answer}`, { body: { token }, status: 403 }),
  one('of no form', `/v1/workspace/invite/${answer}`, { body: { token: 'made-up' }, status: 404 }),
  one('never issued', `/v1/workspace/invite/${answer}`, { body: { token: createBearer(invitePrefix) }, status: 404 }),
]

/** As a client would send it: lists that are empty are left out. */
function sentScope({ all, ...lists }: Scope): Record<string, unknown> {
  return all ? { all } : Object.fromEntries(Object.entries(lists).filter(([, ids]) => ids.length > 0))
}

/** A word that nothing is called by. */
export const absentSlug = `absent-${newId().slice(-6)}`
