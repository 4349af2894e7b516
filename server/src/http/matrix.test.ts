/**
 * The authorisation matrix: every endpoint of the contract, asked with every kind of credential, role and scope. What is
 * expected comes from the role table of the specification, written down once more below; nothing of the server's own
 * rules is used. What is refused must also leave the database as it was. The deep tier runs every cell; the fast one runs
 * so many that every pair of request, role, scope and kind of credential is among them, chosen by a seed.
 */

import { createHmac } from 'node:crypto'
import { type EndpointName, endpoints } from '@coffer/contract/api'
import type { DeviceCode } from '@coffer/contract/device'
import type { Endpoint } from '@coffer/contract/endpoint'
import type { Permission, Role, Scope } from '@coffer/contract/field'
import type { Token } from '@coffer/contract/token'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Ask, TokenIds } from '../../../test/ask.ts'
import { type Content, describeChanges, readContent as readEverything, restoreContent } from '../../../test/content.ts'
import { createDice, seed } from '../../../test/dice.ts'
import {
  type Answer,
  addUser,
  type CallOptions,
  createToken,
  engine,
  exchange,
  offline,
  password,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../test/harness.ts'
import { createIdentity, federate, loopbackAllowed, startIssuer, type TestIssuer } from '../../../test/issuer.ts'
import { choosePairwise } from '../../../test/pairwise.ts'
import { requestsTo, requestTable } from '../../../test/request-table.ts'
import { isDeep } from '../../../test/tier.ts'
import { changeMember, createWorld, type ScopeName, scopeNames, scopeOf, type World } from '../../../test/world.ts'
import { createBearer, sessionPrefix, tokenPrefix } from '../crypto/token.ts'
import { createStrangerRecords } from '../domain/audit/anonymous-limit.ts'
import { everything } from '../domain/scope.ts'

/** What the specification asks for: a living credential of some kind, or a right within a workspace. */
type Right =
  | 'public'
  | 'any credential'
  | 'an API token'
  | 'a session'
  | 'a session in a browser'
  | 'a scope of one environment'
  | {
      readonly role: Role | 'owner'
      readonly writes?: true
      /** Belongs to the workspace as a whole: needs scope `all`. */
      readonly whole?: true
      readonly sessionOnly?: true
      /** Not for an identity that an outside issuer vouches for. */
      readonly personOnly?: true
      /** Concerns a part of what the path names: what must be held is named by the request. */
      readonly within?: true
    }

const writesSecrets = { role: 'developer', writes: true, within: true } as const
/** Members may write their own values; what else a request needs is said with it. */
const updatesSecrets = { role: 'member', writes: true, within: true } as const
const setsUpSyncs = { role: 'admin', writes: true, within: true, personOnly: true } as const

const rights: Record<EndpointName, Right> = {
  exchangeToken: 'an API token',
  register: 'public',
  login: 'public',
  logout: 'a session',
  logoutCli: 'a session',
  createDeviceCode: 'public',
  pollDevice: 'public',
  readDevice: 'a session in a browser',
  answerDevice: 'a session in a browser',
  readMe: 'any credential',
  updateMe: 'a session',
  readPreferences: 'a session',
  updatePreferences: 'a session',
  changePassword: 'a session',
  listSessions: 'a session',
  revokeSession: 'a session',
  revokeOtherSessions: 'a session',
  verifyEmail: 'a session',
  confirmEmail: 'a session',
  changeEmail: 'a session in a browser',
  enrolTotp: 'a session in a browser',
  confirmTotp: 'a session in a browser',
  removeTotp: 'a session in a browser',
  listWorkspaces: 'any credential',
  createWorkspace: 'a session',
  readWorkspace: { role: 'member' },
  updateWorkspace: { role: 'admin', writes: true, whole: true },
  deleteWorkspace: { role: 'owner', writes: true, whole: true },
  handOverWorkspace: { role: 'owner', writes: true, whole: true, sessionOnly: true },
  listMembers: { role: 'admin', whole: true },
  createInvite: { role: 'admin', writes: true, whole: true },
  updateMember: { role: 'admin', writes: true, whole: true },
  removeMember: { role: 'admin', writes: true, whole: true },
  resendInvite: { role: 'admin', writes: true, whole: true },
  acceptInvite: 'a session',
  declineInvite: 'a session',
  listTeams: { role: 'member' },
  createTeam: { role: 'admin', writes: true, whole: true },
  updateTeam: { role: 'admin', writes: true },
  deleteTeam: { role: 'admin', writes: true },
  listProjects: { role: 'member' },
  createProject: { role: 'admin', writes: true },
  readProject: { role: 'member' },
  updateProject: { role: 'admin', writes: true },
  deleteProject: { role: 'admin', writes: true },
  listEnvironments: { role: 'member' },
  createEnvironment: { role: 'admin', writes: true },
  updateEnvironment: { role: 'admin', writes: true },
  deleteEnvironment: { role: 'admin', writes: true },
  listSecrets: { role: 'member' },
  readSecret: { role: 'member' },
  listScopedSecrets: 'a scope of one environment',
  createSecrets: writesSecrets,
  updateSecret: updatesSecrets,
  writeSecretValue: updatesSecrets,
  deleteSecret: updatesSecrets,
  listTrash: { role: 'member' },
  restoreSecret: writesSecrets,
  writeBatch: writesSecrets,
  importSecrets: writesSecrets,
  exportSecrets: { role: 'member' },
  putReminder: writesSecrets,
  deleteReminder: writesSecrets,
  listVersions: { role: 'member' },
  readVersion: { role: 'member' },
  restoreVersion: writesSecrets,
  listRevisions: { role: 'member' },
  restoreRevision: writesSecrets,
  diffSecrets: { role: 'member' },
  promoteSecrets: writesSecrets,
  createShare: { ...writesSecrets, personOnly: true },
  listShares: { role: 'developer' },
  revokeShare: { ...writesSecrets, personOnly: true },
  listShareViews: { role: 'developer' },
  readShareMeta: 'public',
  openShare: 'public',
  listSyncProviders: 'any credential',
  startSync: setsUpSyncs,
  readFlowStep: setsUpSyncs,
  submitFlowStep: setsUpSyncs,
  listSyncs: { role: 'admin' },
  readSync: { role: 'admin' },
  planSync: setsUpSyncs,
  runSync: setsUpSyncs,
  pauseSync: setsUpSyncs,
  resumeSync: setsUpSyncs,
  deleteSync: setsUpSyncs,
  listSyncRuns: { role: 'admin' },
  readSyncRun: { role: 'admin' },
  listTokens: { role: 'member' },
  createToken: { role: 'member', writes: true, sessionOnly: true },
  createCliToken: { role: 'member', writes: true, sessionOnly: true },
  rotateToken: { role: 'member', writes: true },
  revokeToken: { role: 'member', writes: true },
  exchangeIdentity: 'public',
  listIdentities: { role: 'admin', whole: true },
  createIdentity: { role: 'admin', writes: true, whole: true },
  listIdentityPresets: { role: 'admin', whole: true },
  readIdentity: { role: 'admin', whole: true },
  updateIdentity: { role: 'admin', writes: true, whole: true },
  deleteIdentity: { role: 'admin', writes: true, whole: true },
  testIdentity: { role: 'admin', whole: true },
  listAudit: { role: 'admin', whole: true },
  verifyAudit: { role: 'admin', whole: true },
}

type Caller = {
  readonly name: string
  readonly options: CallOptions
  readonly isAlive: boolean
  readonly kind: 'session' | 'token' | 'jwt' | 'oidc'
  /** A session of a command line. */
  readonly isCli?: true
  readonly permission: Permission
  /** Undefined for whoever does not belong to the workspace. */
  readonly role: Role | 'owner' | undefined
  /** Of the membership, and of the token where there is one. */
  readonly scopes: readonly Scope[]
  readonly tokens: TokenIds
}

const ranks = { member: 0, developer: 1, admin: 2, owner: 3 }

function expectedStatus(caller: Caller, name: EndpointName, ask: Ask): number {
  const right = rights[name]
  const success = ask.status ?? endpoints[name].status
  if (right === 'public') return ask.isMalformed ? 400 : success
  if (!caller.isAlive) return 401
  if (ask.isMalformed) return 400
  if (right === 'any credential') return success
  if (right === 'an API token') return caller.kind === 'token' ? success : 403
  if (right === 'a session') return caller.kind === 'session' ? success : 403
  if (right === 'a session in a browser') return caller.kind === 'session' && !caller.isCli ? success : 403
  if (right === 'a scope of one environment') return scopedStatus(caller, success)
  const { role } = caller
  if (role === undefined) return 404
  if (ask.on !== undefined && !sees(caller, ask.on)) return 404
  if (ask.token !== undefined && !seesToken(caller, ask.token)) return 404
  if (right.sessionOnly && caller.kind !== 'session') return 403
  if (right.personOnly && caller.kind === 'oidc') return 403
  if (right.writes && caller.permission === 'read') return 403
  if (ranks[role] < ranks[right.role]) return 403
  if (right.whole && !holdsAll(caller)) return 403
  if (ask.isAboutShare && !seesShare(caller)) return 404
  if (right.writes && !right.within && ask.on !== undefined && !holds(caller, ask.on)) return 403
  // All rows of an update are found before it is known what kind of values they are.
  if (name === 'updateSecret' && ask.into !== undefined && !sees(caller, ask.into)) return 404
  if (ask.isPersonal && caller.kind !== 'session') return 403
  if (ask.needs && ranks[role] < ranks[ask.needs]) return 403
  if (ask.whole !== undefined && !holds(caller, ask.whole)) return 403
  if (ask.token !== undefined && caller.kind !== 'session' && ask.token !== 'itself') return 403
  // A new value outlives a JWT by far.
  if (name === 'rotateToken' && caller.kind === 'jwt') return 403
  // The token of others that an admin sees is the owner's, which may do more than an admin.
  if (name === 'rotateToken' && ask.token === 'others' && role !== 'owner') return 403
  if (ask.newToken?.permission === 'read-write' && role === 'member') return 403
  if (ask.newToken && !holdsScope(caller, ask.newToken.scope)) return 400
  if (ask.into !== undefined && !sees(caller, ask.into)) return 404
  if (ask.into !== undefined && !holds(caller, ask.into)) return 403
  return success
}

/** The scope is that of the credential itself: a session has none. */
function scopedStatus(caller: Caller, success: number): number {
  const scope = caller.kind === 'session' ? undefined : caller.scopes.at(-1)
  const [environmentId] = scope?.environments ?? []
  if (environmentId === undefined) return 400
  return holds(caller, environmentId) ? success : 404
}

const holdsAll = ({ scopes }: Caller) => scopes.every(({ all }) => all)

/** Every scope of the caller names it, or something that it lies in. */
function holds({ scopes }: Caller, id: string): boolean {
  const start = world.homes.get(id) ?? id
  if (!world.containers.has(start)) return false
  const chain: string[] = []
  for (let next: string | undefined = start; next !== undefined; next = world.containers.get(next)) chain.push(next)
  return scopes.every(
    ({ all, teams, projects, environments }) =>
      all || [...teams, ...projects, ...environments].some((named) => chain.includes(named)),
  )
}

/** It is held, or something in it is. */
function sees(caller: Caller, id: string): boolean {
  if (holds(caller, id)) return true
  return [...world.containers].some(([part, container]) => container === id && sees(caller, part))
}

function seesToken(caller: Caller, token: keyof TokenIds | 'absent'): boolean {
  // No token was made by an identity.
  if (caller.kind === 'oidc') return false
  if (token === 'itself') return true
  // It is for all of the workspace: a token sees those of its maker that reach no further than itself.
  if (token === 'own') return caller.kind === 'session' || holdsAll(caller)
  return token === 'others' && managesTokens(caller)
}

const managesTokens = (caller: Caller) =>
  caller.role !== undefined && ranks[caller.role] >= ranks.admin && holdsAll(caller)

/** One's own, and for an admin of the whole project everyone's. */
const seesShare = (caller: Caller) =>
  caller.role === 'owner' || (caller.role === 'admin' && holds(caller, world.projects.right))

/** Nobody grants what they do not hold: to see something as the container of a part is not to hold it. */
function holdsScope(caller: Caller, { all, teams, projects, environments }: Scope): boolean {
  return all ? holdsAll(caller) : [...teams, ...projects, ...environments].every((id) => holds(caller, id))
}

/** Exactly those teams, projects, environments, secrets and tokens that an answer may name. */
function expectedIds(caller: Caller, name: EndpointName, ask: Ask): string[] | undefined {
  const seen = [...world.containers.keys()].filter((id) => sees(caller, id))
  const container = (id: string) => world.containers.get(id)
  const isTeam = (id: string) => container(id) === undefined
  const isProject = (id: string) => isTeam(container(id) ?? '') && !isTeam(id)
  const parts = seen.filter((id) => ask.on !== undefined && container(id) === ask.on)
  if (name === 'listTeams') return seen.filter(isTeam)
  if (name === 'listProjects') return seen.filter((id) => isTeam(id) || isProject(id))
  if (name === 'listEnvironments') return parts
  if (name === 'readProject' && ask.on !== undefined) return [ask.on, container(ask.on) ?? '', ...parts]
  if (name === 'listShares') return seesShare(caller) ? [world.share.id] : []
  if (name === 'listSyncs') return holds(caller, world.environments.right) ? syncIds() : [world.syncs.draft]
  if (ask.shows) return ask.shows.filter((id) => holds(caller, id))
  if (name === 'listTokens') {
    return managesTokens(caller) ? [...tokenMakers.keys()].slice(0, longestPage) : ownTokens(caller)
  }
  return undefined
}

/** Both, and the environment of the one that runs. */
const syncIds = () => [world.syncs.draft, world.syncs.live, world.environments.right]

/** The list is asked for by pages of this length; nobody's own tokens are more. */
const longestPage = 200

async function readTokenMakers({ session }: TestUser): Promise<void> {
  const list = `/v1/workspace/main/tokens?limit=${longestPage}`
  for (let cursor: string | null = ''; cursor !== null; ) {
    const page: Answer<Token[]> = await service.call<Token[]>('GET', `${list}${cursor && `&cursor=${cursor}`}`, {
      token: session,
    })
    for (const { id, createdById, scope } of page.body) tokenMakers.set(id, { userId: createdById, scope })
    cursor = page.headers.get('x-next-cursor')
  }
}

const ownTokens = (caller: Caller) => {
  const { tokens, kind } = caller
  if (kind === 'oidc') return []
  const maker = tokenMakers.get(tokens.own)?.userId
  return [...tokenMakers]
    .filter(([, token]) => token.userId === maker)
    .filter(([id, { scope }]) => kind === 'session' || id === tokens.itself || holdsScope(caller, scope))
    .map(([id]) => id)
}

type Person = { readonly name: string; readonly role: Role | 'owner'; readonly scope: ScopeName }

const people: readonly Person[] = [
  { name: 'the owner', role: 'owner', scope: 'all' },
  ...(['admin', 'developer', 'member'] as const).flatMap((role) =>
    scopeNames.map((scope) => ({ name: `${role} with scope ${scope}`, role, scope })),
  ),
]
const outsiders = ['nobody', 'expired', 'revoked', 'strangers'] as const
const groups: readonly string[] = [...outsiders, ...people.map(({ name }) => name), 'identities']

/** Tens of thousands of requests on a machine that may be busy: what takes long is not wrong. */
const patienceMs = 300_000

let service: TestService
let issuer: TestIssuer
let world: World
const callers = new Map<string, readonly Caller[]>()
/** The cells of this run. */
let plan: Map<Caller, readonly Cell[]>
/** Who made which of the workspace's tokens, and for what; in the order of the list. */
const tokenMakers = new Map<string, { readonly userId: string; readonly scope: Scope }>()
let cells = 0

beforeAll(async () => {
  service = await startService({ ...loopbackAllowed, COFFER_SYNC: 'off' }, offline)
  issuer = await startIssuer(() => service.app.services.now())
  const first = await registerOwner(service)
  const expired = await createExpired(first)
  const { body } = await service.call<{ accessToken: string }>('POST', '/v1/auth/login', {
    body: { email: first.email, password },
  })
  const owner = { ...first, session: body.accessToken }
  const { body: main } = await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: owner.session })
  const heir = await addUser(service, 'heir@example.com', { workspaceId: main.id, role: 'member' })
  world = await createWorld(service, owner, heir.memberId ?? '')
  await writeOwn(heir, heirsOwn)
  await writeOwn(owner)

  const ownersToken = await makeToken(owner)
  const adminsToken = await makeToken(await addUser(service, 'a@example.com', { workspaceId: main.id, role: 'admin' }))
  const tokens = { own: ownersToken.id, others: ownersToken.id }
  callers.set('nobody', createNobody(owner, await exchange(service, ownersToken.token), tokens))
  callers.set('expired', dead(expired, tokens))
  callers.set('revoked', await createRevoked(owner, tokens))
  callers.set('strangers', await createStrangers(owner, tokens))
  for (const person of people) {
    callers.set(person.name, await createCallers(person, owner, ownersToken.id, adminsToken.id))
  }
  callers.set('identities', await createIdentities(owner, tokens))
  await readTokenMakers(owner)
  plan = planCells()
  content = await readContent(service.app.services)
}, patienceMs)
afterAll(async () => {
  console.log(`authorisation matrix: ${cells} cells on ${engine}${isDeep ? '' : `, COFFER_TEST_SEED=${seed}`}`)
  await service.stop()
  await issuer.stop()
})

async function writeOwn({ session }: TestUser, value = `${ownValue} ${world.environments.right}`): Promise<void> {
  const body = { environmentId: world.environments.right, value, isPersonal: true }
  const path = '/v1/workspace/main/project/right/secret/SHARED/value'
  const { status, text } = await service.call('PUT', path, { token: session, body })
  expect(status, text).toBe(200)
}

const makeToken = (user: TestUser, permission: Permission = 'read-write', scope: Scope = everything) =>
  createToken(service, user.session, { permission, scope, expiresIn: 'never' })

/** All credentials of one person: the session, and tokens of either permission with their JWTs. */
async function createCallers(person: Person, owner: TestUser, ownersId: string, adminsId: string): Promise<Caller[]> {
  const isOwner = person.role === 'owner'
  const { workspaceId } = world
  const email = `${person.name.replaceAll(' ', '-')}@example.com`
  // Made as an admin of everything, and narrowed afterwards: rights are those of now, not those of a token's making.
  const user = isOwner ? owner : await addUser(service, email, { workspaceId, role: 'admin' })
  if (!isOwner) await writeOwn(user)
  const own = isOwner ? ownersId : (await makeToken(user)).id
  const others = isOwner ? adminsId : ownersId
  const memberScope = scopeOf(world, person.scope)
  const base = { isAlive: true, role: person.role } as const
  const session: Caller = {
    ...base,
    name: 'session',
    options: { token: user.session },
    kind: 'session',
    permission: 'read-write',
    scopes: [memberScope],
    tokens: { own, others },
  }
  const headers = { ...cookie(user.session), 'sec-fetch-site': 'same-origin' }
  const result: Caller[] = [session]
  if (isOwner) result.push({ ...session, name: 'session by cookie', options: { headers } })
  const tokenScopes = person.scope === 'all' ? scopeNames : (['all', person.scope] as const)
  for (const scopeName of tokenScopes) {
    for (const permission of ['read', 'read-write'] as const) {
      const scope = scopeOf(world, scopeName)
      const token = await makeToken(user, permission, scope)
      const rest = { ...base, permission, scopes: [memberScope, scope], tokens: { itself: token.id, own, others } }
      const name = `${permission} token for ${scopeName}`
      const jwt = await exchange(service, token.token)
      result.push({ ...rest, name, kind: 'token', options: { token: token.token } })
      result.push({ ...rest, name: `JWT of ${name}`, kind: 'jwt', options: { token: jwt } })
    }
  }
  // The owner's is like an admin's, and the owner asks most as it is.
  if (person.scope === 'all' && !isOwner) {
    const token = await signInDevice(user)
    result.push({ ...session, name: 'command-line session', isCli: true, options: { token } })
  }
  const cli = await service.call<{ token: string }>('POST', '/v1/workspace/main/tokens/cli', {
    token: user.session,
    body: { environmentId: world.environments.right },
  })
  const cliScopes = [memberScope, scopeOf(world, 'right environment')]
  const { body: listed } = await service.call<Token[]>('GET', '/v1/workspace/main/tokens', { token: user.session })
  const itself = listed.find(({ type, isOwner }) => type === 'cli' && isOwner)?.id
  const cliToken = { ...session, permission: 'read', scopes: cliScopes, tokens: { itself, own, others } } as const
  result.push({ ...cliToken, name: 'cli token', kind: 'token', options: { token: cli.body.token } })
  if (person.scope === 'all') {
    const cliJwt = await exchange(service, cli.body.token)
    result.push({ ...cliToken, name: 'JWT of cli token', kind: 'jwt', options: { token: cliJwt } })
  }
  if (person.role !== 'owner' && user.memberId !== undefined) {
    await changeMember(service, owner, user.memberId, { role: person.role, scope: memberScope })
  }
  return result
}

async function signInDevice(user: TestUser): Promise<string> {
  const clientId = 'matrix'
  const ask = <Body>(path: string, body: object, token?: string) =>
    service.call<Body>('POST', `/v1/auth/device/${path}`, { body, token })
  const { body: codes } = await ask<DeviceCode>('code', { clientId })
  await ask('approve', { userCode: codes.userCode, approve: true }, user.session)
  const { deviceCode } = codes
  const { body, status, text } = await ask<{ accessToken: string }>('token', { clientId, deviceCode })
  expect(status, text).toBe(200)
  return body.accessToken
}

/** Identities that an outside issuer vouches for: members where they may only read, developers otherwise. */
async function createIdentities(owner: TestUser, tokens: TokenIds): Promise<Caller[]> {
  const result: Caller[] = []
  for (const scopeName of scopeNames) {
    for (const permission of ['read', 'read-write'] as const) {
      const [name, scope] = [`${permission} identity for ${scopeName}`, scopeOf(world, scopeName)]
      await createIdentity(service, owner.session, { issuer: issuer.url, subject: name, permission, scope })
      const token = await federate(service, await issuer.sign({ sub: name }))
      const role = permission === 'read' ? 'member' : 'developer'
      const rest = { isAlive: true, kind: 'oidc', permission, role, scopes: [scope], tokens } as const
      result.push({ ...rest, name, options: { token } })
    }
  }
  return result
}

/** Every kind of credential, a day later. */
async function createExpired(owner: TestUser): Promise<Record<string, CallOptions>> {
  const minuteMs = 60 * 1000
  const read = await createToken(service, owner.session, { permission: 'read', expiresIn: '24h' })
  const write = await createToken(service, owner.session, { expiresIn: '24h' })
  const lasting = await createToken(service, owner.session, { expiresIn: 'never' })
  const expiredJwt = await exchange(service, lasting.token)
  service.clock.offsetMs += 24 * 60 * minuteMs - minuteMs
  const readJwt = await exchange(service, read.token)
  const writeJwt = await exchange(service, write.token)
  service.clock.offsetMs += 2 * minuteMs
  return {
    'expired session': { token: owner.session },
    'expired read token': { token: read.token },
    'expired read-write token': { token: write.token },
    'JWT of an expired read token': { token: readJwt },
    'JWT of an expired read-write token': { token: writeJwt },
    'expired JWT of a living token': { token: expiredJwt },
  }
}

async function createRevoked(owner: TestUser, tokens: TokenIds): Promise<Caller[]> {
  const path = '/v1/workspace/main/tokens'
  const revoked: Record<string, CallOptions> = {}
  for (const permission of ['read', 'read-write'] as const) {
    const token = await makeToken(owner, permission)
    revoked[`revoked ${permission} token`] = { token: token.token }
    revoked[`JWT of a revoked ${permission} token`] = { token: await exchange(service, token.token) }
    await service.call('DELETE', `${path}/${token.id}`, { token: owner.session })
  }
  const rotated = await makeToken(owner)
  revoked['rotated token'] = { token: rotated.token }
  revoked['JWT of a rotated token'] = { token: await exchange(service, rotated.token) }
  await service.call('POST', `${path}/${rotated.id}/rotate`, { token: owner.session })
  const bound = await createToken(service, owner.session, { allowedIps: ['192.0.2.0/24'] })
  revoked['token bound to other addresses'] = { token: bound.token }
  const { workspaceId } = world
  const leaver = await addUser(service, 'leaver@example.com', { workspaceId, role: 'admin' })
  const left = await makeToken(leaver)
  revoked['token of a removed member'] = { token: left.token }
  revoked['JWT of a removed member'] = { token: await exchange(service, left.token) }
  await changeMember(service, owner, leaver.memberId ?? '', 'removed')
  const quitter = await addUser(service, 'quitter@example.com', { workspaceId, role: 'admin' })
  revoked['ended session'] = { token: quitter.session }
  await service.call('POST', '/v1/auth/logout', { token: quitter.session })
  return dead(revoked, tokens)
}

/** No credential, and what only looks like one. */
function createNobody(owner: TestUser, jwt: string, tokens: TokenIds): Caller[] {
  const [header = '', payload = '', signature = ''] = jwt.split('.')
  const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const hmacHeader = encode({
    alg: 'HS256',
    typ: 'JWT',
    kid: JSON.parse(Buffer.from(header, 'base64url').toString()).kid,
  })
  const hmac = createHmac('sha256', 'secret').update(`${hmacHeader}.${payload}`).digest('base64url')
  const neverIssued = createBearer(tokenPrefix)
  return dead(
    {
      'no credential': {},
      'another scheme': { headers: { authorization: `Basic ${Buffer.from('owner:password').toString('base64')}` } },
      'no value': { headers: { authorization: 'Bearer' } },
      junk: { token: 'junk' },
      'a token never issued': { token: neverIssued },
      'a token with a wrong checksum': { token: `${neverIssued.slice(0, -1)}${neverIssued.endsWith('0') ? '1' : '0'}` },
      'a session never issued': { token: createBearer(sessionPrefix) },
      'a JWT without signature': { token: `${encode({ alg: 'none', typ: 'JWT' })}.${payload}.` },
      'a JWT signed by another algorithm': { token: `${hmacHeader}.${payload}.${hmac}` },
      'a JWT with other claims': { token: `${header}.${encode({ sub: tokens.own, exp: 9_999_999_999 })}.${signature}` },
      'a cookie that is not a session': { headers: { ...cookie('junk'), 'sec-fetch-site': 'same-origin' } },
      'a cookie with a token in it': { headers: { ...cookie(neverIssued), 'sec-fetch-site': 'same-origin' } },
      'a cookie from another site': { headers: { ...cookie(owner.session), 'sec-fetch-site': 'cross-site' } },
      'a cookie from nowhere': { headers: cookie(owner.session) },
      'a cookie beside a bad header': {
        token: 'junk',
        headers: { ...cookie(owner.session), 'sec-fetch-site': 'same-origin' },
      },
    },
    tokens,
  )
}

const cookie = (value: string) => ({ cookie: `__Host-coffer_session=${value}` })

function dead(options: Record<string, CallOptions>, tokens: TokenIds): Caller[] {
  const rest = {
    isAlive: false,
    kind: 'session',
    permission: 'read-write',
    role: undefined,
    scopes: [],
    tokens,
  } as const
  return Object.entries(options).map(([name, options]) => ({ ...rest, name, options }))
}

/** Living credentials of people who have nothing to do with the workspace, or not any more. */
async function createStrangers(owner: TestUser, tokens: TokenIds): Promise<Caller[]> {
  const stranger = await addUser(service, 'stranger@example.com')
  const body = { name: 'Elsewhere', slug: 'elsewhere' }
  await service.call('POST', '/v1/workspace', { token: stranger.session, body })
  const rest = { isAlive: true, role: undefined, scopes: [], tokens } as const
  const session = { ...rest, kind: 'session', permission: 'read-write' } as const
  const result: Caller[] = [{ ...session, name: 'owner of another workspace', options: { token: stranger.session } }]
  for (const permission of ['read', 'read-write'] as const) {
    const { token } = await createToken(service, stranger.session, { permission }, body.slug)
    const jwt = await exchange(service, token)
    result.push({
      ...rest,
      name: `${permission} token of another workspace`,
      kind: 'token',
      permission,
      options: { token },
    })
    result.push({
      ...rest,
      name: `${permission} JWT of another workspace`,
      kind: 'jwt',
      permission,
      options: { token: jwt },
    })
  }
  const homeless = await addUser(service, 'homeless@example.com')
  result.push({ ...session, name: 'person without a workspace', options: { token: homeless.session } })
  const leaver = await addUser(service, 'gone@example.com', { workspaceId: world.workspaceId, role: 'admin' })
  await changeMember(service, owner, leaver.memberId ?? '', 'removed')
  result.push({ ...session, name: 'removed member', options: { token: leaver.session } })
  return result
}

type Cell = {
  readonly title: string
  readonly name: EndpointName
  readonly endpoint: Endpoint
  readonly ask: Ask
  readonly status: number
}

const endpointNames = Object.keys(endpoints).filter((name): name is EndpointName => name in endpoints)

function cellsOf(caller: Caller, isSample: boolean): Cell[] {
  const table = requestTable(world, caller.tokens)
  return endpointNames.flatMap((name) => {
    if (!(name in rights)) throw new Error(`${name} has no right: add the one that the specification asks for`)
    // Hashing a password takes its time, and a credential makes no difference there.
    if (rights[name] === 'public' && !isSample) return []
    const endpoint: Endpoint = endpoints[name]
    const asks = requestsTo(table, name)
    return [...asks, ...malformed(asks[0])]
      .filter((ask) => caller.kind === 'session' || !isForSessions(ask))
      .map((ask) => ({
        title: `${caller.name}: ${name}, ${ask.what}`,
        name,
        endpoint,
        ask,
        status: expectedStatus(caller, name, ask),
      }))
  })
}

/** Where tokens are refused before it matters, or are answered like the sessions that asked before them. */
const isForSessions = ({ isMalformed, newToken }: Ask) => isMalformed || newToken?.scope.all === false

/** The same request with an unknown field, and with a path of a form that nothing has. */
function malformed(ask: Ask | undefined): Ask[] {
  if (!ask) return []
  const result: Ask[] = []
  const rest = { isMalformed: true } as const
  if (ask.body) result.push({ ...rest, what: 'unknown field', path: ask.path, body: { ...ask.body, colour: 'red' } })
  const body = ask.body ? { body: ask.body } : {}
  const badPath = ask.path
    .replace('/v1/workspace/main', '/v1/workspace/No_Slug')
    .replace(/^\/v1\/me\/session\/.*/, '/v1/me/session/No_Id')
  if (badPath !== ask.path) result.push({ ...rest, ...body, what: 'malformed path', path: badPath })
  return result
}

const isSampled = (group: string) => group === 'the owner' || outsiders.some((name) => name === group)

/** A JWT leads to what is known of its token: to one engine only the owner's ask. */
function askingIn(group: string): Caller[] {
  const isRepeated = ({ kind }: Caller) => engine === 'postgres' && kind === 'jwt' && !isSampled(group)
  return (callers.get(group) ?? []).filter((caller) => !isRepeated(caller))
}

function planCells(): Map<Caller, readonly Cell[]> {
  const every = groups.flatMap((group) =>
    askingIn(group).flatMap((caller) =>
      withoutRepeats(caller, cellsOf(caller, isSampled(group))).map((cell) => ({ group, caller, cell })),
    ),
  )
  const chosen = isDeep ? every : choosePairwise(every, featuresOf, createDice(seed))
  const byCaller = Map.groupBy(chosen, ({ caller }) => caller)
  return new Map([...byCaller].map(([caller, rows]) => [caller, rows.map(({ cell }) => cell)]))
}

/** What decides about a request, by the specification; every two of these meet in some cell. */
function featuresOf({ group, caller, cell }: { group: string; caller: Caller; cell: Cell }): string[] {
  const { name, kind, permission, role, isAlive, scopes } = caller
  // What is dead is refused by the endpoint, whatever is asked of it.
  if (!isAlive) return [`endpoint ${cell.name}`, `credential ${name}`]
  const isOneOfAKind = kind === 'session' || role === undefined
  const [membership, token] = scopes.map((scope) => JSON.stringify(scope))
  return [
    `request ${cell.name}, ${cell.ask.what}`,
    `role ${role ?? group}`,
    `membership of ${membership}`,
    `token for ${token}`,
    `credential ${isOneOfAKind ? name : `${kind} ${permission}`}`,
  ]
}

/** What differs from the expected, one line for each; empty where all is right. */
async function run(cell: Cell, caller: Caller): Promise<string[]> {
  cells++
  const { ask, endpoint, name } = cell
  const answer = await service.call(endpoint.method, ask.path, { ...caller.options, body: ask.body })
  if (answer.status !== cell.status) {
    const words = answer.status < 400 ? '' : answer.text
    return [`${cell.title}: expected ${cell.status}, was ${answer.status} ${words}`]
  }
  if (cell.status !== endpoint.status || endpoint.method !== 'GET') return []
  const expected = expectedIds(caller, name, ask)
  if (!expected) return []
  const known = name === 'listTokens' ? tokenMakers : new Map([...world.containers, ...world.homes, ...otherIds()])
  const shown = [...known.keys()].filter((id) => answer.text.includes(id))
  const outside = name === 'listTokens' ? [...world.containers.keys()].filter((id) => !holds(caller, id)) : []
  const betrayed = outside.filter((id) => answer.text.includes(id))
  if (betrayed.length > 0) return [`${cell.title}: names ${betrayed.join()}, out of scope`]
  if (ask.shows && answer.text.includes(heirsOwn)) return [`${cell.title}: shows a value of another person's own`]
  const seesOwn = caller.kind === 'session' || caller.name === 'cli token' || caller.name === 'JWT of cli token'
  const isOwnShown = answer.text.includes(ownValue)
  if (isOwnShown && !seesOwn) return [`${cell.title}: shows a machine a value of a person's own`]
  if (name === 'readSecret' && ask.what === 'by id' && !isOwnShown && seesOwn) return [`${cell.title}: hides one's own`]
  const isExact = shown.toSorted().join() === expected.toSorted().join()
  return isExact ? [] : [`${cell.title}: shows ${shown.join()} and may show ${expected.join()}`]
}

const otherIds = () => [world.share.id, world.syncs.draft, world.syncs.live].map((id) => [id, ''] as const)

/** In the environment that most requests are about; the heir is nobody who asks. */
const heirsOwn = 'only the heir may see this'
/** Everybody who asks has one in the same place, with the name of the environment after it. */
const ownValue = 'one’s own in'

const batchSize = 12

async function runAll(batch: readonly Cell[], caller: Caller): Promise<string[]> {
  const wrong: string[] = []
  for (let start = 0; start < batch.length; start += batchSize) {
    const part = batch.slice(start, start + batchSize)
    wrong.push(...(await Promise.all(part.map((cell) => run(cell, caller)))).flat())
  }
  return wrong
}

/** Reads that are allowed leave entries of their own in the audit trail, whose heads stand in `trail`. */
async function readContent(services: TestService['app']['services']): Promise<Content> {
  const everything = await readEverything(services)
  return { ...everything, tables: new Map([...everything.tables].filter(([{ name }]) => name !== 'audit_batch')) }
}

type Effects = (before: Content, after: Content) => string[]

const anyEffect: Effects = (before, after) => {
  const changes = describeChanges(before, after)
  return before.trail === after.trail ? changes : [...changes, 'the audit trail grew']
}

/** The content of the database as it was last read: whatever runs next begins with it. */
let content: Content

/** Runs what must have no effect; where it had one, once more one by one, to tell which of them it was. */
async function runQuietly(batch: readonly Cell[], caller: Caller, effects: Effects): Promise<string[]> {
  if (batch.length === 0) return []
  const before = content
  const wrong = await runAll(batch, caller)
  if ((await takeBack(before, effects)).length === 0) return wrong
  // What was answered wrongly explains an effect by itself.
  for (const cell of batch.filter(({ title }) => !wrong.some((line) => line.startsWith(title)))) {
    await run(cell, caller)
    const changes = await takeBack(before, effects)
    if (changes.length > 0) wrong.push(`${cell.title}: had an effect: ${changes.join('; ').slice(0, 500)}`)
  }
  return wrong.length > 0 ? wrong : [`${caller.name}: requests had an effect together, but none of them alone`]
}

/** Runs what is allowed to change something, proves that it did and is in the trail, and takes it back. */
async function runAndUndo(cell: Cell, caller: Caller): Promise<string[]> {
  const { trail } = content
  const { services } = service.app
  // Beyond a few per network, acts of strangers are only counted: each cell is the first of its window.
  Object.assign(services, { strangers: createStrangerRecords(services.now) })
  const wrong = await run(cell, caller)
  const changes = await takeBack(content, describeChanges)
  if (wrong.length > 0) return wrong
  if (changes.length === 0 && !mayChangeNothing.has(cell.name)) wrong.push(`${cell.title}: had no effect`)
  if (content.trail === trail) wrong.push(`${cell.title}: is not in the audit trail`)
  return wrong
}

/** What is asked with POST or DELETE and is in the trail, but need not change a row that is looked at. */
const mayChangeNothing = new Set<EndpointName>(['exchangeToken', 'readDevice', 'revokeOtherSessions'])

/** The effects since then, which are there no more. */
async function takeBack(before: Content, effects: Effects): Promise<string[]> {
  const { services } = service.app
  const after = await readContent(services)
  const hasChanged = describeChanges(before, after).length > 0
  const found = effects({ ...before, trail: content.trail }, after)
  content = hasChanged ? await restoreContent(services, before, after) : after
  return found
}

const isAllowed = ({ status }: Cell) => status < 400
const isDry = ({ ask }: Cell) => ask.body?.dryRun === true || ask.isQuestion === true
const isWrite = (cell: Cell) => isAllowed(cell) && cell.endpoint.method !== 'GET' && !isDry(cell)

/** Leaves out writes that show nothing new. */
function withoutRepeats(caller: Caller, all: readonly Cell[]): Cell[] {
  const allowed = all.filter(isAllowed)
  // Undoing takes its time: where a token has written, its JWT writes to each endpoint once.
  // Syncs are set up and changed by sessions; other credentials begin one, and are refused everywhere that they must be.
  // Which credential writes is all the same to an engine: to one of them only sessions do.
  const isRepeated = (cell: Cell) => {
    const { name, endpoint } = cell
    return engine === 'postgres' && caller.kind !== 'session'
      ? name !== 'exchangeToken'
      : endpoint.area === 'sync'
        ? caller.kind !== 'session' && name !== 'startSync'
        : (caller.kind === 'jwt' || caller.kind === 'oidc') &&
          endpoint.area === 'secret' &&
          allowed.find((other) => other.name === name) !== cell
  }
  return all.filter((cell) => !isWrite(cell) || !isRepeated(cell))
}

async function check(caller: Caller): Promise<string[]> {
  const all = plan.get(caller) ?? []
  const reads = all.filter((cell) => isAllowed(cell) && cell.endpoint.method === 'GET')
  const quiet = all.filter((cell) => !isAllowed(cell) || isDry(cell))
  // A dry run and a refused write of values are recorded as comparisons; everything else leaves no trace.
  const compares = ({ endpoint }: Cell) => endpoint.area === 'secret' && endpoint.method !== 'GET'
  const wrong = await runQuietly(
    quiet.filter((cell) => !compares(cell)),
    caller,
    anyEffect,
  )
  wrong.push(...(await runQuietly(quiet.filter(compares), caller, describeChanges)))
  wrong.push(...(await runQuietly(reads, caller, describeChanges)))
  for (const cell of all.filter(isWrite)) wrong.push(...(await runAndUndo(cell, caller)))
  return wrong
}

test('every endpoint of the contract has its right and its requests in the matrix', () => {
  const table: Record<string, readonly Ask[]> = requestTable(world, { own: '', others: '' })
  const missing = endpointNames.filter((name) => !(name in rights) || (table[name]?.length ?? 0) === 0)
  expect(missing, 'add these endpoints to `rights` above and to `requestTable` in test/request-table.ts').toEqual([])
})

/** Their success needs a code, an invite or a state that is made once: the tests of their routes have it. */
const succeedElsewhere: readonly EndpointName[] = [
  'register',
  'pollDevice',
  'revokeSession',
  'verifyEmail',
  'confirmEmail',
  'changeEmail',
  'confirmTotp',
  'removeTotp',
  'acceptInvite',
  'declineInvite',
  'planSync',
  'resumeSync',
  'exchangeIdentity',
]

test('every endpoint is asked by somebody who may, and by somebody who may not', () => {
  const asked = [...plan.values()].flat()
  const without = (fits: (cell: Cell) => boolean) =>
    endpointNames.filter((endpoint) => !asked.some((cell) => cell.name === endpoint && fits(cell)))
  expect(without(isAllowed)).toEqual(succeedElsewhere)
  expect(without((cell) => !isAllowed(cell))).toEqual([])
})

test.each(groups)(
  '%s: every route answers as the role table says, and a refusal changes nothing',
  async (group) => {
    const wrong: string[] = []
    const asking = askingIn(group)
    for (const caller of asking) wrong.push(...(await check(caller)))
    expect(asking.length).toBeGreaterThan(3)
    expect(wrong, `${wrong.length} cells are wrong`).toEqual([])
  },
  patienceMs,
)

test('the audit trail of all this is whole', async () => {
  const { body } = await service.call('GET', '/v1/workspace/main/audit/verify', callers.get('the owner')?.[0]?.options)
  expect(body).toMatchObject({ ok: true })
})
