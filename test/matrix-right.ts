/** Rights that the authorisation matrix expects: the role table, written a second time from the specification alone. */
import { type EndpointName, endpoints } from '@coffer/contract/api'
import type { Permission, Role, Scope } from '@coffer/contract/field'
import type { Ask, TokenIds } from './ask.ts'
import type { CallOptions } from './harness.ts'
import type { World } from './world.ts'

/** A requirement of the specification: a live credential of some kind, or a right within a workspace. */
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
      /** For sessions, and tokens that were created with `mayAdminister`. */
      readonly administers?: true
      /** Not for an identity that an outside issuer vouches for. */
      readonly personOnly?: true
      /** Concerns a part of what the path names: what must be held is named by the request. */
      readonly within?: true
    }

const writesSecrets = { role: 'developer', writes: true, within: true } as const
/** Members may write their own values; what else a request needs is said with it. */
const updatesSecrets = { role: 'member', writes: true, within: true } as const
const setsUpSyncs = { role: 'admin', writes: true, within: true, personOnly: true } as const

export const rights: Record<EndpointName, Right> = {
  readAuthState: 'public',
  exchangeToken: 'an API token',
  register: 'public',
  login: 'public',
  resetPassword: 'public',
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
  deleteWorkspace: { role: 'owner', writes: true, whole: true, sessionOnly: true },
  handOverWorkspace: { role: 'owner', writes: true, whole: true, sessionOnly: true },
  listMembers: { role: 'admin', whole: true },
  createInvite: { role: 'admin', writes: true, whole: true, administers: true },
  updateMember: { role: 'admin', writes: true, whole: true, administers: true },
  removeMember: { role: 'admin', writes: true, whole: true, administers: true },
  resetMemberMfa: { role: 'admin', writes: true, whole: true, administers: true },
  resendInvite: { role: 'admin', writes: true, whole: true, administers: true },
  lookUpInvite: 'public',
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
  writeBatch: updatesSecrets,
  importSecrets: writesSecrets,
  exportSecrets: { role: 'member' },
  searchSecrets: { role: 'member' },
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
  transferSync: { ...setsUpSyncs, whole: true },
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
  createIdentity: { role: 'admin', writes: true, whole: true, administers: true },
  listIdentityPresets: { role: 'admin', whole: true },
  readIdentity: { role: 'admin', whole: true },
  updateIdentity: { role: 'admin', writes: true, whole: true, administers: true },
  deleteIdentity: { role: 'admin', writes: true, whole: true, administers: true },
  testIdentity: { role: 'admin', whole: true },
  listServiceAccounts: { role: 'admin', whole: true },
  createServiceAccount: { role: 'admin', writes: true, whole: true, administers: true },
  updateServiceAccount: { role: 'admin', writes: true, whole: true, administers: true },
  removeServiceAccount: { role: 'admin', writes: true, whole: true, administers: true },
  createServiceToken: { role: 'admin', writes: true, whole: true, sessionOnly: true },
  transferToken: { role: 'admin', writes: true, whole: true, sessionOnly: true },
  readPolicy: { role: 'owner', whole: true },
  updatePolicy: { role: 'owner', writes: true, whole: true, sessionOnly: true },
  explainAccess: { role: 'admin', whole: true },
  listAccess: { role: 'admin', whole: true },
  listAudit: { role: 'admin', whole: true },
  verifyAudit: { role: 'admin', whole: true },
}

export type Caller = {
  readonly name: string
  readonly options: CallOptions
  readonly isAlive: boolean
  readonly kind: 'session' | 'token' | 'jwt' | 'oidc'
  /** A token that was created with `mayAdminister`, or its JWT. */
  readonly mayAdminister?: boolean
  /** A session of a command line. */
  readonly isCli?: true
  readonly permission: Permission
  /** Grants of the person or identity; none for whoever does not belong to the workspace. */
  readonly grants: readonly CallerGrant[]
  /** How `explain` finds people and identities; it finds a token by its id. */
  readonly actor?: string
  /** Scope of the credential itself; a session has none. */
  readonly limit?: Scope
  readonly tokens: TokenIds
}

type CallerRole = Role | 'owner'
export type CallerGrant = { readonly role: CallerRole; readonly scope: Scope }

const ranks = { member: 0, developer: 1, admin: 2, owner: 3 }

/** The parts of a world that rights depend on. */
type Places = Pick<World, 'containers' | 'homes' | 'projects'>

export function expectedStatus(world: Places, caller: Caller, name: EndpointName, ask: Ask): number {
  const right = rights[name]
  const success = ask.status ?? endpoints[name].status
  if (right === 'public') return ask.isMalformed ? 400 : success
  if (!caller.isAlive) return 401
  if (ask.isMalformed) return 400
  if (right === 'any credential') return success
  if (right === 'an API token') return caller.kind === 'token' ? success : 403
  if (right === 'a session') return caller.kind === 'session' ? success : 403
  if (right === 'a session in a browser') return caller.kind === 'session' && !caller.isCli ? success : 403
  if (right === 'a scope of one environment') return scopedStatus(world, caller, success)
  if (caller.grants.length === 0) return 404
  if (ask.on !== undefined && !sees(world, caller, ask.on)) return 404
  if (ask.token !== undefined && !seesToken(caller, ask.token)) return 404
  if (right.sessionOnly && caller.kind !== 'session') return 403
  if (right.administers && caller.kind !== 'session' && !caller.mayAdminister) return 403
  if (right.personOnly && caller.kind === 'oidc') return 403
  if (right.writes && caller.permission === 'read') return 403
  if (right.whole ? !holdsAll(caller, right.role) : !holdsPart(world, caller, ask.on, right.role)) return 403
  if (ask.isAboutShare && !seesShare(world, caller)) return 404
  const isOnWhole = right.writes && !right.within && ask.on !== undefined
  if (isOnWhole && !holds(world, caller, ask.on, right.role)) return 403
  // All rows of an update are found before it is known what kind of values they are.
  const into = [ask.into ?? []].flat()
  const isHidden = [...into, ask.from ?? []].flat().some((id) => !sees(world, caller, id))
  if (name === 'updateSecret' && isHidden) return 404
  if (ask.isPersonal && caller.kind !== 'session') return 403
  const role = ask.needs ?? right.role
  if (!holdsPart(world, caller, ask.on, role)) return 403
  if (ask.whole !== undefined && !holds(world, caller, ask.whole, role)) return 403
  if (ask.token !== undefined && caller.kind !== 'session' && ask.token !== 'itself') return 403
  if (name === 'rotateToken' && caller.mayAdminister) return 403
  // A new value outlives a JWT by far.
  if (name === 'rotateToken' && caller.kind === 'jwt') return 403
  // The token of others that an admin sees is the owner's, which may do more than an admin.
  if (name === 'rotateToken' && ask.token === 'others' && !isOwner(caller)) return 403
  if (ask.newToken) return newTokenStatus(world, caller, ask.newToken, success)
  if (isHidden) return 404
  // Only the admins of its environment know of a sync.
  if (into.some((id) => !holds(world, caller, id, role))) return endpoints[name].area === 'sync' ? 404 : 403
  return success
}

/** The scope is that of the credential itself: a session has none. */
function scopedStatus(world: Places, caller: Caller, success: number): number {
  const [environmentId] = caller.limit?.environments ?? []
  if (environmentId === undefined) return 400
  return holds(world, caller, environmentId) ? success : 404
}

/** A token that writes is for developers, somewhere in what it covers. */
function newTokenStatus(world: Places, caller: Caller, wanted: NewToken, success: number): number {
  const { permission, scope } = wanted
  const writes = permission === 'read-write'
  if (writes && !holdsPart(world, caller, undefined, 'developer')) return 403
  if (!holdsScope(world, caller, scope)) return 400
  const named = scope.all ? [undefined] : [...scope.teams, ...scope.projects, ...scope.environments]
  if (writes && !named.some((id) => holdsPart(world, caller, id, 'developer'))) return 403
  return wanted.mayAdminister && !managesTokens(caller) ? 403 : success
}
type NewToken = NonNullable<Ask['newToken']>

const isOwner = ({ grants }: Caller) => grants.some(({ role }) => role === 'owner')

const isAtLeast = (role: CallerRole, least: CallerRole) => ranks[role] >= ranks[least]

function holdsAll({ grants, limit }: Caller, least: CallerRole = 'member'): boolean {
  const isLimited = limit !== undefined && !limit.all
  return !isLimited && grants.some(({ role, scope }) => scope.all && isAtLeast(role, least))
}

/**
 * One of the caller's grants has the role and names the place, or something that it lies in; so does the scope of the
 * credential. All parts together are not the whole.
 */
export function holds(world: Places, caller: Caller, id: string | undefined, least: CallerRole = 'member'): boolean {
  if (id === undefined) return false
  const start = world.homes.get(id) ?? id
  if (!world.containers.has(start)) return false
  const chain: string[] = []
  for (let next: string | undefined = start; next !== undefined; next = world.containers.get(next)) chain.push(next)
  const names = ({ all, teams, projects, environments }: Scope) =>
    all || [...teams, ...projects, ...environments].some((named) => chain.includes(named))
  const { grants, limit } = caller
  return (!limit || names(limit)) && grants.some(({ role, scope }) => isAtLeast(role, least) && names(scope))
}

/** The caller has the role at the place or at something in it; without a place, somewhere in the workspace. */
function holdsPart(world: Places, caller: Caller, id: string | undefined, least: CallerRole): boolean {
  if (id === undefined) return caller.grants.some(({ role }) => isAtLeast(role, least))
  if (holds(world, caller, id, least)) return true
  return [...world.containers].some(([part, container]) => container === id && holdsPart(world, caller, part, least))
}

/** It is held, or something in it is. */
export const sees = (world: Places, caller: Caller, id: string) => holdsPart(world, caller, id, 'member')

function seesToken(caller: Caller, token: keyof TokenIds | 'absent'): boolean {
  // No token was made by an identity.
  if (caller.kind === 'oidc') return false
  if (token === 'itself') return true
  // It is for all of the workspace: a token sees those of its maker that reach no further than itself.
  if (token === 'own') return caller.kind === 'session' || holdsAll(caller)
  return token === 'others' && managesTokens(caller)
}

export const managesTokens = (caller: Caller) => holdsAll(caller, 'admin')

/** One's own, and for an admin of the whole project everyone's. */
export const seesShare = (world: Places, caller: Caller) =>
  isOwner(caller) || holds(world, caller, world.projects.right, 'admin')

/** Nobody grants what they do not hold: to see something as the container of a part is not to hold it. */
export function holdsScope(world: Places, caller: Caller, { all, teams, projects, environments }: Scope): boolean {
  return all ? holdsAll(caller) : [...teams, ...projects, ...environments].every((id) => holds(world, caller, id))
}
