/**
 * The snapshot of a workspace (`WorkspaceSnapshot`) that access is decided from: members, service accounts, teams,
 * projects, environments, and the tokens in use. It is cached in memory, dropped at every commit that changes it, and reloaded by the next request.
 */
import type { Log } from '../../log.ts'
import type { KeyList } from '../../store/audit/key-list.ts'
import type { KeyMemory } from '../../store/secret/value-seal.ts'
import type { ReadStore } from '../../store/store.ts'
import type { EnvironmentRow } from '../../store/workspace/environment.ts'
import type { WorkspaceRow } from '../../store/workspace/workspace.ts'
import { type ReadyPolicy, toReadyPolicy } from '../policy.ts'
import { type Principal, principalOf, servicePrincipal } from '../principal.ts'
import { type ReadyIdentity, type ReadyToken, toReadyIdentity, toReadyToken } from '../ready-token.ts'
import { iso } from '../time.ts'
import { createLoadingCache, type LoadingCache } from './loading-cache.ts'

export type SnapshotEnvironment = {
  readonly id: string
  readonly name: string
  readonly projectId: string
  readonly hasPersonalOverrides: boolean
  readonly createdAt: number
  readonly updatedAt: string
}
export type SnapshotProject = {
  readonly id: string
  readonly name: string
  readonly slug: string
  readonly teamId: string
  readonly createdAt: string
  readonly updatedAt: string
  readonly environments: readonly SnapshotEnvironment[]
  /** By the name in lower case; made at the first search, because few projects are referred to. */
  environmentsByName: ReadonlyMap<string, SnapshotEnvironment> | undefined
}
export type SnapshotTeam = {
  readonly id: string
  readonly name: string
  readonly createdAt: string
  readonly projects: readonly SnapshotProject[]
}

export type WorkspaceSnapshot = {
  /** Tells this snapshot from earlier and later ones. Caches hold it instead of the snapshot, which may be large. */
  readonly identity: symbol
  readonly workspace: WorkspaceRow
  /** Undefined if everything is allowed, so that the check costs such workspaces nothing. */
  readonly policy: ReadyPolicy | undefined
  /** By the id of the user or of the service account. */
  readonly principals: ReadonlyMap<string, Principal>
  readonly teams: ReadonlyMap<string, SnapshotTeam>
  readonly projects: ReadonlyMap<string, SnapshotProject>
  readonly projectsBySlug: ReadonlyMap<string, SnapshotProject>
  readonly environments: ReadonlyMap<string, SnapshotEnvironment>
  /** Tokens by id, loaded on demand and dropped with the snapshot. */
  readonly tokens: LoadingCache<ReadyToken>
  /** Identities of outside issuers, loaded on demand too. */
  readonly identities: LoadingCache<ReadyIdentity>
  readonly environmentKeys: KeyMemory
  /**
   * The base lists of audit entries that were used last. Cached responses share their texts, which may be megabytes long.
   * Held weakly: only the response cache, which counts their bytes, keeps them in memory.
   */
  readonly nameBases: Map<string, WeakRef<KeyList>>
  /** How long lists of rows were when they were last read. */
  readonly listLengths: Map<string, number>
}

export type WorkspaceSnapshots = LoadingCache<WorkspaceSnapshot>

const maxSnapshots = 1_000
const maxTokens = 10_000
const maxIdentities = 1_000

export function createWorkspaceSnapshots(store: ReadStore, log: Log): WorkspaceSnapshots {
  return createLoadingCache(maxSnapshots, (workspaceId) => loadSnapshot(store, log, workspaceId))
}

export const toSnapshotEnvironment = (row: EnvironmentRow): SnapshotEnvironment => ({
  ...row,
  updatedAt: iso(row.updatedAt),
})

/** The project with these environments. */
export function withEnvironments(
  project: Omit<SnapshotProject, 'environments' | 'environmentsByName'>,
  environments: readonly SnapshotEnvironment[],
): SnapshotProject {
  return { ...project, environments, environmentsByName: undefined }
}

async function loadSnapshot(store: ReadStore, log: Log, workspaceId: string): Promise<WorkspaceSnapshot | undefined> {
  const workspace = await store.workspaces.find(workspaceId)
  if (!workspace) return undefined
  const [rights, teamRows, projectRows, environmentRows] = await Promise.all([
    loadRights(store, log, workspaceId),
    store.teams.list(workspaceId),
    store.projects.list(workspaceId),
    store.environments.list(workspaceId),
  ])
  const environments = environmentRows.map(toSnapshotEnvironment)
  const environmentsByProject = Map.groupBy(environments, (environment) => environment.projectId)
  const projects = projectRows.map((row) =>
    withEnvironments(
      { ...row, createdAt: iso(row.createdAt), updatedAt: iso(row.updatedAt) },
      environmentsByProject.get(row.id) ?? [],
    ),
  )
  const projectsByTeam = Map.groupBy(projects, (project) => project.teamId)
  const teams = teamRows.map((row) => ({
    id: row.id,
    name: row.name,
    createdAt: iso(row.createdAt),
    projects: projectsByTeam.get(row.id) ?? [],
  }))
  return {
    identity: Symbol(workspaceId),
    workspace,
    ...rights,
    teams: new Map(teams.map((team) => [team.id, team])),
    projects: new Map(projects.map((project) => [project.id, project])),
    projectsBySlug: new Map(projects.map((project) => [project.slug, project])),
    environments: new Map(environments.map((environment) => [environment.id, environment])),
    tokens: createLoadingCache(maxTokens, async (id) => {
      const token = await store.tokens.find(id, workspaceId)
      return token && toReadyToken(token)
    }),
    identities: createLoadingCache(maxIdentities, async (id) => {
      const identity = await store.oidc.find(id, workspaceId)
      return identity && toReadyIdentity(identity)
    }),
    environmentKeys: { byVersion: new Map(), newest: new Map() },
    nameBases: new Map(),
    listLengths: new Map(),
  }
}

/**
 * Principals and policy. If their rows are not all of the set and nothing else, nobody knows what the policy was, or who
 * had which grants: the workspace is closed.
 */
async function loadRights(
  store: ReadStore,
  log: Log,
  workspaceId: string,
): Promise<Pick<WorkspaceSnapshot, 'policy' | 'principals'>> {
  const { loaded, isWhole } = await store.rowSets.load({ workspaceId, kind: 'access' }, (add) =>
    Promise.all([
      store.policies.find(workspaceId, add),
      store.members.list(workspaceId, add),
      store.serviceAccounts.list(workspaceId, add),
    ]),
  )
  const [policy, { members, tampered }, services] = loaded
  if (tampered > 0) log.error('membership rows failed their integrity check', { workspaceId, count: tampered })
  if (services.tampered > 0) {
    log.error('service account rows failed their integrity check', { workspaceId, count: services.tampered })
  }
  if (policy === 'tampered') {
    log.error('the policy of a workspace failed its integrity check: the workspace is closed', { workspaceId })
  }
  if (!isWhole) {
    log.error('members, service accounts or policy were removed or put back: the workspace is closed', { workspaceId })
  }
  return {
    policy: isWhole || policy === 'tampered' ? toReadyPolicy(policy) : 'incomplete',
    principals: new Map([
      ...members.map((member) => [member.userId, principalOf(member)] as const),
      ...services.accounts.map((account) => [account.id, servicePrincipal(account)] as const),
    ]),
  }
}

/** Called for every reference: the index saves a scan of the project's environments each time. */
export function findEnvironmentByName(project: SnapshotProject, name: string): SnapshotEnvironment | undefined {
  project.environmentsByName ??= new Map(
    project.environments.map((environment) => [environment.name.toLowerCase(), environment]),
  )
  return project.environmentsByName.get(name.toLowerCase())
}
