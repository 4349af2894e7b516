/**
 * One tenant with something of everything in it, and requests to every endpoint of the contract about it. A new
 * endpoint needs its requests here: what is not asked is not proven.
 */
import type { EndpointName } from '@coffer/contract/api'
import type { Permission, Role, Scope } from '@coffer/contract/field'
import { newId } from '../server/src/crypto/id.ts'
import { everything } from '../server/src/domain/context.ts'
import { createStore } from '../server/src/store/store.ts'
import { createProject, createTeam, password, type TestService } from './harness.ts'

export type World = {
  readonly workspaceId: string
  readonly slug: string
  readonly email: string
  readonly teams: { readonly right: string; readonly wrong: string; readonly empty: string }
  readonly projects: { readonly right: string; readonly other: string; readonly wrong: string }
  readonly environments: { readonly right: string; readonly sibling: string; readonly wrong: string }
  /** A member with an account, to whom the workspace can be handed over. */
  readonly heirId: string
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
  readonly newToken?: { readonly permission: Permission; readonly scope: Scope }
  /** Where those who may ask are answered otherwise than with success. */
  readonly status?: number
  readonly isMalformed?: true
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
  return {
    workspaceId: workspace.id,
    slug,
    email,
    teams: { right, wrong, empty },
    projects: { right: projects.right.id, other: projects.other.id, wrong: projects.wrong.id },
    environments: { right: projects.right.first, sibling: projects.right.second, wrong: projects.wrong.first },
    heirId,
    containers,
  }
}

/** Role and scope changed behind the service's back, as long as members have no route of their own. */
export async function changeMember(
  service: TestService,
  workspaceId: string,
  memberId: string,
  change: { readonly role: Role; readonly scope: Scope } | 'removed',
): Promise<void> {
  const { services } = service.app
  await services.engine.transaction(`test:${memberId}`, async ({ db }) => {
    const { members } = createStore(db, services.keys)
    const member = (await members.list(workspaceId)).members.find(({ id }) => id === memberId)
    if (!member) throw new Error('there is no such member')
    if (change === 'removed') await members.remove(memberId, workspaceId)
    else await members.update({ ...member, ...change }, services.now())
  })
  services.pictures.drop(workspaceId)
}

const one = (what: string, path: string, more: Partial<Ask> = {}): Ask => ({ what, path, ...more })

/** Requests of which each would succeed for an owner, or says how it is answered instead. */
export function requestTable(world: World, tokens: TokenIds): Record<EndpointName, readonly Ask[]> {
  const { teams, projects, environments, heirId } = world
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
    register: [one('closed', '/v1/auth/register', { body: newAccount, status: 403 })],
    login: [one('login', '/v1/auth/login', { body: { email: world.email, password } })],
    logout: [one('logout', '/v1/auth/logout')],
    logoutCli: [one('logout', '/v1/auth/cli/logout', { body: {} })],
    readMe: [one('me', '/v1/me')],
    listWorkspaces: [one('list', '/v1/workspace')],
    createWorkspace: [one('create', '/v1/workspace', { body: { name: 'Fresh', slug: 'fresh' } })],
    readWorkspace: [one('by slug', ws), one('by id', `/v1/workspace/${world.workspaceId}`)],
    updateWorkspace: [one('rename', ws, { body: { name: 'Renamed' } })],
    deleteWorkspace: [one('delete', ws)],
    handOverWorkspace: [
      one('to a member', `${ws}/owner`, { body: { memberId: heirId } }),
      one('to nobody', `${ws}/owner`, { body: { memberId: absentId }, into: absentId }),
    ],
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

/** Throws for an endpoint that nobody has thought of here. */
export function requestsTo(table: Partial<Record<string, readonly Ask[]>>, name: EndpointName): readonly Ask[] {
  const asks = table[name]
  if (!asks || asks.length === 0) throw new Error(`${name} has no requests: add some to test/request-table.ts`)
  return asks
}

const newAccount = { email: 'newcomer@example.com', name: 'Newcomer', password }

/** As a client would send it: lists that are empty are left out. */
function sentScope({ all, ...lists }: Scope): Record<string, unknown> {
  return all ? { all } : Object.fromEntries(Object.entries(lists).filter(([, ids]) => ids.length > 0))
}

/** A word that nothing is called by. */
export const absentSlug = `absent-${newId().slice(-6)}`
