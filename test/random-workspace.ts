/** Random workspaces for properties of access: places, principals with several grants, and their credentials. */

import type { Permission, Role, Scope } from '@coffer/contract/field'
import fc from 'fast-check'
import type { Actor, Credential } from '../server/src/domain/actor.ts'
import { createWorkspaceSnapshots } from '../server/src/domain/cache/workspace-snapshot.ts'
import { type Context, noRequest, type Services } from '../server/src/domain/context.ts'
import { toReadyIdentity, toReadyToken } from '../server/src/domain/ready-token.ts'
import { newRun } from '../server/src/domain/request-run.ts'
import type { IdentityRecord } from '../server/src/store/oidc.ts'
import type { ReadStore } from '../server/src/store/store.ts'
import type { TokenRecord } from '../server/src/store/token.ts'
import type { Grants } from '../server/src/store/workspace/grant.ts'
import type { Caller, CallerGrant } from './matrix-right.ts'

const place = fc.nat({ max: 4 })
const permission = fc.constantFrom<Permission[]>('read', 'read-write')
/** Places by number: those that do not exist were deleted after the grant. */
const scope = fc
  .record({
    all: fc.nat({ max: 4 }).map((number) => number === 4),
    teams: fc.array(place, { maxLength: 2 }),
    projects: fc.array(place, { maxLength: 2 }),
    environments: fc.array(fc.nat({ max: 9 }), { maxLength: 3 }),
  })
  // The API refuses a scope that names nothing.
  .filter(({ all, teams, projects, environments }) => all || [...teams, ...projects, ...environments].length > 0)
type NumberedScope = { all: boolean; teams: number[]; projects: number[]; environments: number[] }

const grant = fc.record({ role: fc.constantFrom<Role[]>('member', 'developer', 'admin'), scope })
const limit = fc.record({ permission, scope })

/** Numbers of the team of each project and of the project of each environment; the first person is the owner. */
export const workspaceShape = fc.record({
  teams: fc.integer({ min: 1, max: 4 }),
  projects: fc.array(place, { maxLength: 5, size: 'max' }),
  environments: fc.array(place, { maxLength: 10, size: 'max' }),
  people: fc.array(fc.array(grant, { minLength: 1, maxLength: 5 }), { minLength: 1, maxLength: 3 }),
  services: fc.array(fc.array(grant, { minLength: 1, maxLength: 5 }), { maxLength: 2 }),
  limits: fc.array(limit, { minLength: 1, maxLength: 3 }),
})
type Shape = typeof workspaceShape extends fc.Arbitrary<infer Value> ? Value : never

const insiders = ['session', 'cli', 'static', 'cli-token', 'jwt', 'oidc'] as const
/** Strangers are always refused, so few of them ask. */
export const actorKinds = [...insiders, ...insiders, ...insiders, 'stranger', 'elsewhere'] as const
type ActorKind = (typeof actorKinds)[number]

export type RandomWorkspace = {
  readonly containers: ReadonlyMap<string, string | undefined>
  readonly principals: readonly { readonly id: string; readonly isService: boolean; readonly grants: Grants }[]
  readonly limits: readonly { readonly permission: Permission; readonly scope: Scope }[]
}

/** Ids tell what something is and lies in, so that a counterexample can be read. */
export function buildWorkspace(shape: Shape): RandomWorkspace {
  const teams = Array.from({ length: shape.teams }, (_, number) => `team-${number}`)
  const projects = shape.projects.map((team, number) => [`project-${number}`, teams[team % teams.length]] as const)
  const environments = shape.environments.flatMap((project, number) => {
    const [id] = projects[project % Math.max(projects.length, 1)] ?? []
    return id === undefined ? [] : [[`environment-${number}`, id] as const]
  })
  const toScope = ({ all, ...lists }: NumberedScope): Scope =>
    all
      ? { all, teams: [], projects: [], environments: [] }
      : {
          all,
          teams: lists.teams.map((number) => `team-${number}`),
          projects: lists.projects.map((number) => `project-${number}`),
          environments: lists.environments.map((number) => `environment-${number}`),
        }
  const toGrants = (list: Shape['people'][number]): Grants => {
    const [first, ...others] = list.map((one) => ({ role: one.role, scope: toScope(one.scope) }))
    if (!first) throw new Error('nobody is without a grant')
    return [first, ...others]
  }
  const owner: Grants = [{ role: 'admin', scope: { all: true, teams: [], projects: [], environments: [] } }]
  return {
    containers: new Map([...teams.map((id) => [id, undefined] as const), ...projects, ...environments]),
    principals: [
      { id: 'owner', isService: false, grants: owner },
      ...shape.people.map((list, number) => ({ id: `person-${number}`, isService: false, grants: toGrants(list) })),
      ...shape.services.map((list, number) => ({ id: `service-${number}`, isService: true, grants: toGrants(list) })),
    ],
    limits: shape.limits.map((one) => ({ permission: one.permission, scope: toScope(one.scope) })),
  }
}

const [workspaceId, createdAt] = ['workspace', 1]

/** The services of a real server, with this workspace in place of the stored ones. */
export function servicesOf(services: Services, { containers, principals }: RandomWorkspace): Services {
  const listOf = (kind: string) => [...containers].filter(([id]) => id.startsWith(kind))
  const row = (id: string) => ({ id, workspaceId, name: id, createdAt, updatedAt: createdAt })
  const members = principals.filter(({ isService }) => !isService)
  const accounts = principals.filter(({ isService }) => isService)
  const { store } = services
  const isHere = async (userId: string) => (members.some(({ id }) => id === userId) ? workspaceId : undefined)
  const replaced = withTables(store, {
    workspaces: {
      ...store.workspaces,
      find: async (id: string) => (id === workspaceId ? { ...row(id), slug: 'main' } : undefined),
      findIdForUser: isHere,
    },
    // The rows come from here, so their stored sum says nothing.
    rowSets: {
      ...store.rowSets,
      load: async <Loaded>(_place: unknown, work: (add: () => void) => Promise<Loaded>) => ({
        loaded: await work(() => undefined),
        isWhole: true,
      }),
    },
    members: {
      ...store.members,
      list: async () => ({
        members: members.map(({ id, grants }) => ({
          ...{ id: `member-${id}`, workspaceId, userId: id, createdAt, grants },
          isOwner: id === 'owner',
        })),
        tampered: 0,
      }),
    },
    serviceAccounts: {
      ...store.serviceAccounts,
      list: async () => ({
        accounts: accounts.map(({ id, grants }) => ({ ...row(id), grants, createdBy: 'owner' })),
        tampered: 0,
      }),
    },
    teams: { ...store.teams, list: async () => listOf('team').map(([id]) => row(id)) },
    projects: {
      ...store.projects,
      list: async () => listOf('project').map(([id, teamId = '']) => ({ ...row(id), slug: `slug-${id}`, teamId })),
    },
    environments: {
      ...store.environments,
      list: async () =>
        listOf('environment').map(([id, projectId = '']) => ({ ...row(id), projectId, hasPersonalOverrides: false })),
    },
  })
  return { ...services, store: replaced, snapshots: createWorkspaceSnapshots(replaced, services.log) }
}

/** The same caller twice: for the server, and for the rules of the specification. */
export type AskingTwice = { readonly ctx: Context; readonly caller: Caller }

export function askAs(services: Services, workspace: RandomWorkspace, kind: ActorKind, number: number): AskingTwice {
  const { principals, limits } = workspace
  const holders = kind === 'static' || kind === 'jwt' ? principals : principals.filter(({ isService }) => !isService)
  const holder = holders[number % holders.length]
  const chosen = limits[number % limits.length]
  if (!holder || !chosen) throw new Error('a workspace has an owner and a limit')
  const isMarked = number % 3 === 0 && !holder.isService && (kind === 'static' || kind === 'jwt')
  const credential = credentialOf(kind, holder, chosen, isMarked)
  const isStranger = kind === 'stranger' || kind === 'elsewhere'
  const userId = kind === 'oidc' ? '' : kind === 'stranger' ? 'stranger' : holder.id
  const type = 'token' in credential ? 'token' : 'identity' in credential ? 'oidc' : 'user'
  const actor: Actor = { type, id: userId, name: '', userId, credential }
  const everywhere = { all: true, teams: [], projects: [], environments: [] }
  const asIdentity = [{ role: chosen.permission === 'read' ? 'member' : 'developer', scope: everywhere } as const]
  const asOwner: CallerGrant[] = holder.id === 'owner' ? [{ role: 'owner', scope: everywhere }] : []
  const isLimited = 'token' in credential || 'identity' in credential
  return {
    ctx: { ...services, actor, request: { id: 'test', ...noRequest }, run: newRun() },
    caller: {
      name: kind,
      options: {},
      isAlive: true,
      kind: kind === 'oidc' || kind === 'jwt' ? kind : isLimited ? 'token' : 'session',
      permission: isLimited ? chosen.permission : 'read-write',
      grants: isStranger ? [] : kind === 'oidc' ? asIdentity : [...asOwner, ...holder.grants],
      ...(isLimited && { limit: chosen.scope }),
      ...(isMarked && { mayAdminister: true }),
      tokens: { own: '', others: '' },
    },
  }
}

function credentialOf(
  kind: ActorKind,
  holder: RandomWorkspace['principals'][number],
  limit: RandomWorkspace['limits'][number],
  mayAdminister: boolean,
): Credential {
  if (kind === 'session' || kind === 'stranger') {
    return { type: 'session', sessionId: 'session', factorId: null, expiresAt: 2, generation: 0 }
  }
  if (kind === 'cli') return { type: 'cli', sessionId: 'session', factorId: null, expiresAt: 2, generation: 0 }
  const common = { id: 'credential', name: '', generation: 0, createdAt, lastUsedAt: null, ...limit } as const
  if (kind === 'oidc') {
    const rules = { issuer: '', audience: '', subject: null, claims: {}, enabled: true, updatedAt: createdAt }
    const identity: IdentityRecord = { ...common, ...rules, createdBy: null, workspaceId }
    return { type: 'oidc', identity: toReadyIdentity(identity), expiresAt: 2 }
  }
  const token: TokenRecord = {
    ...common,
    workspaceId: kind === 'elsewhere' ? 'elsewhere' : workspaceId,
    createdBy: holder.isService ? 'owner' : holder.id,
    serviceAccountId: holder.isService ? holder.id : null,
    type: kind === 'cli-token' ? 'cli' : 'static',
    prefix: '',
    hash: Buffer.alloc(0),
    hashRootId: '',
    previousHash: null,
    previousHashRootId: null,
    previousUntil: null,
    allowedIps: [],
    mayAdminister,
    expiresAt: null,
    revokedAt: null,
    lastUsedIp: null,
  }
  const type = kind === 'cli-token' || kind === 'jwt' ? kind : 'static'
  return { type, token: toReadyToken(token), generation: 0, expiresAt: null }
}

/** The tables of a store are made when they are first used, so a copy of it would have none. */
const withTables = (store: ReadStore, tables: Partial<ReadStore>): ReadStore =>
  new Proxy(Object.create(store), { get: (_target, name) => Reflect.get(name in tables ? tables : store, name) })
