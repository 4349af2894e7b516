/** One tenant with an example of every kind of object. */
import type { Grant, Scope } from '@coffer/contract/field'
import type { IssuedInvite } from '@coffer/contract/invite'
import type { Member } from '@coffer/contract/member'
import type { WriteResults } from '@coffer/contract/secret'
import type { IssuedShare } from '@coffer/contract/share'
import { newId } from '../server/src/crypto/id.ts'
import { newTypedCode } from '../server/src/crypto/typed-code.ts'
import { everything } from '../server/src/domain/scope.ts'
import { storeOver } from '../server/src/store/store.ts'
import { createProject, createTeam, createToken, type TestProject, type TestService } from './harness.ts'
import { createServiceAccount, createServiceToken } from './service-account.ts'

export type World = {
  readonly workspaceId: string
  readonly slug: string
  readonly email: string
  readonly teams: { readonly right: string; readonly wrong: string; readonly empty: string }
  readonly projects: { readonly right: string; readonly other: string; readonly wrong: string }
  readonly environments: { readonly right: string; readonly sibling: string; readonly wrong: string }
  /** By purpose; `elsewhere` has a value in the sibling environment only. */
  readonly secrets: Readonly<Record<'shared' | 'referring' | 'elsewhere' | 'trashed' | 'wrong', string>>
  /** A text shared by the owner from the right project. */
  readonly share: Pick<IssuedShare, 'id' | 'token'>
  /** A draft, and a live sync of the right environment with a run. */
  readonly syncs: { readonly draft: string; readonly live: string; readonly run: string }
  /** The smallest scope that reveals each secret. */
  readonly homes: ReadonlyMap<string, string>
  readonly environmentNames: ReadonlyMap<string, string>
  /** A pending device login that outlasts any test, with its device code. */
  readonly device: { readonly userCode: string; readonly deviceCode: string; readonly clientId: string }
  /** The session id of the heir, who makes no requests. */
  readonly heirsSession: string
  /** An identity whose issuer does not exist and is never called. */
  readonly identityId: string
  /** A developer of everything, with one token; `persons` is a token of the owner that can be transferred to it. */
  readonly service: { readonly id: string; readonly tokens: { readonly own: string; readonly persons: string } }
  /** A member to whom the workspace can be transferred. */
  readonly heirId: string
  readonly ownerMemberId: string
  /** An invite for an address that no user has. */
  readonly invite: { readonly id: string; readonly token: string }
  /** The parent of every project and environment; a team has none. */
  readonly containers: ReadonlyMap<string, string | undefined>
}

export const scopeNames = [
  'all',
  'right team',
  'right project',
  'right environment',
  'wrong team',
  'wrong project',
  'wrong environment',
] as const
export type ScopeName = (typeof scopeNames)[number] | 'sibling environment' | 'every environment'

export function scopeOf(world: World, name: ScopeName): Scope {
  const nothing = { all: false, teams: [], projects: [], environments: [] }
  const { teams, projects, environments } = world
  const scopes: Record<ScopeName, Scope> = {
    all: everything,
    'right team': { ...nothing, teams: [teams.right, teams.empty] },
    'right project': { ...nothing, projects: [projects.right] },
    'right environment': { ...nothing, environments: [environments.right] },
    'sibling environment': { ...nothing, environments: [environments.sibling] },
    // All parts of the right project, but not the project.
    'every environment': { ...nothing, environments: [...world.environmentNames.keys()] },
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
  if (!right || !wrong || !empty) throw new Error('creating the three teams failed')
  const inTeam = (name: string, teamId: string) =>
    createProject(service, session, name, { teamId, workspace: slug }).then((project) => {
      const [first, second] = project.environments
      if (!first || !second) throw new Error('a new project has too few environments')
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
  const syncs = await createSyncs(service, session, projects.right, environments.right)
  return {
    workspaceId: workspace.id,
    slug,
    secrets,
    share,
    syncs,
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
    service: await createService(service, session, slug),
    heirId,
    ...(await createInvite(service, session, slug)),
    containers,
  }
}

async function createService(service: TestService, session: string, slug: string): Promise<World['service']> {
  const account = await createServiceAccount(service, session, { name: 'robot' }, slug)
  const own = await createServiceToken(service, session, account.id, {}, slug)
  const persons = await createToken(service, session, { name: 'transferable' }, slug)
  return { id: account.id, tokens: { own: own.id, persons: persons.id } }
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
    sessionId: null,
    createdAt,
    expiresAt: createdAt + 24 * 3_600_000,
  } as const
  await services.engine.transaction(`test:${slug}`, async ({ db }) => {
    await storeOver(db, services.keys).devices.insert(login, codes)
  })
  return { userCode: codes.user, deviceCode: codes.device, clientId: login.clientId }
}

async function findSession({ app }: TestService, memberId: string, workspaceId: string): Promise<string> {
  const { members } = await app.services.store.members.list(workspaceId)
  const member = members.find(({ id }) => id === memberId)
  const [session] = member ? await app.services.store.sessions.list(member.userId) : []
  if (!session) throw new Error('the heir has no session')
  return session.id
}

type Seeded = TestProject & { readonly first: string; readonly second: string }

/** Each value names its environment, so a leaked value shows where it came from. */
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

export const reminder = (environmentId: string) => ({
  environmentId,
  type: 'one_time',
  nextReminderDate: '2040-01-01T00:00:00.000Z',
})

export async function changeMember(
  service: TestService,
  owner: { readonly session: string },
  memberId: string,
  change: Grant | { readonly grants: readonly Grant[] } | 'removed',
): Promise<void> {
  const path = `/v1/workspace/main/rbac/${memberId}`
  const options = { token: owner.session, ...(change !== 'removed' && { body: change }) }
  const { status, text } = await service.call(change === 'removed' ? 'DELETE' : 'PUT', path, options)
  if (status !== 200) throw new Error(text)
}

export const newIdentity = {
  name: 'deployer',
  issuer: 'https://issuer.example.com',
  audience: 'coffer',
  subject: 'somebody',
  permission: 'read-write',
  scope: { all: true },
} as const

/** The live sync is written directly to the store, because no vendor is reachable for the wizard. */
async function createSyncs(
  service: TestService,
  session: string,
  project: TestProject,
  environmentId: string,
): Promise<World['syncs']> {
  const start = async (name: string) => {
    const body = { projectId: project.id, name }
    const options = { token: session, body }
    const answer = await service.call<{ syncConfigId: string }>('POST', '/v1/sync/heroku/start', options)
    return answer.body.syncConfigId
  }
  const [draft, live, run] = [await start('Being set up'), await start('Running'), newId()]
  const { engine, keys, now } = service.app.services
  await engine.transaction('syncs', async ({ db }) => {
    const store = storeOver(db, keys)
    const sync = await store.syncs.find(live)
    if (!sync) throw new Error('the sync is missing')
    const settings = {
      credential: { token: 'HRKU-nobodys' },
      credentialBy: sync.createdBy,
      account: 'ops@example.com',
      target: { app: 'shop' },
      options: {},
      mapping: { environment: environmentId, mode: 'per-key' },
      scopes: [],
      macKey: Buffer.alloc(32).toString('base64'),
    }
    await store.syncs.save(
      { ...sync, state: 'active', environmentId, target: 'shop', draftUntil: null },
      { live: settings, draft: null },
    )
    const counts = { created: 1, updated: 0, deleted: 0, unchanged: 0, conflicts: 0, failed: 0 }
    const outcome = { cause: 'first', state: 'succeeded', counts, error: null, attempts: 1, items: [] } as const
    store.syncRuns.insert({ id: run, syncId: live, startedAt: now(), endedAt: now(), ...outcome })
  })
  return { draft, live, run }
}
