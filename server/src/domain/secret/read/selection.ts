/** What a read asks for: which secrets, in which environments, and how they are shown. Nothing is loaded yet. */
import type { SecretListQuery, SecretQuery } from '@coffer/contract/secret'
import { Failure, invalid } from '../../../failure.ts'
import { type Access, type ProjectAccess, reachedEnvironments } from '../../access/access.ts'
import { grantOf } from '../../actor.ts'
import type { SnapshotEnvironment } from '../../cache/workspace-snapshot.ts'
import type { Context } from '../../context.ts'
import { reachesProject } from '../../scope.ts'
import { chooseEnvironments } from '../choose-environment.ts'
import { mayExist } from '../name.ts'

export type Selection = {
  readonly access: ProjectAccess
  readonly environments: readonly SnapshotEnvironment[]
  /** The request or the credential names the environments: secrets without a value in them are not listed. */
  readonly isChosen: boolean
  readonly query: SecretListQuery
  /** One secret by name or id; undefined for the list. */
  readonly key: string | undefined
}

export function selectList(access: ProjectAccess, query: SecretListQuery): Selection {
  const environments = chooseEnvironments(access, query)
  return { access, environments, isChosen: query.environmentId !== undefined, query, key: undefined }
}

export function selectOne(access: ProjectAccess, query: SecretQuery, key: string): Selection {
  if (!mayExist(key)) throw new Failure('notFound')
  const environments = chooseEnvironments(access, query)
  return { access, environments, isChosen: query.environmentId !== undefined, query, key }
}

/** One secret in these environments, as a request without parameters shows it. */
export function selectPlain(
  access: ProjectAccess,
  environments: readonly SnapshotEnvironment[],
  key: string,
): Selection {
  return { access, environments, isChosen: false, query: {}, key }
}

type ScopedPath = { readonly ws: string; readonly environmentId: string }

/** The one environment that the credential is scoped to. */
export function requireScopedPath(ctx: Context): ScopedPath {
  const grant = grantOf(ctx.actor.credential)
  const scope = grant?.scope
  const [environmentId, ...others] = scope?.environments ?? []
  const isOne = scope && !scope.all && scope.teams.length + scope.projects.length + others.length === 0
  if (!grant || !environmentId || !isOne) {
    throw invalid(
      'scope',
      'this credential is not for exactly one environment: call /v1/workspace/{ws}/project/{prj}/secret?environmentId=….',
    )
  }
  return { ws: grant.workspaceId, environmentId }
}

const scopedQuery: SecretListQuery = { resolve: true }

export function selectScoped(found: Access, { environmentId }: ScopedPath): Selection {
  const environment = found.snapshot.environments.get(environmentId)
  const project = environment && found.snapshot.projects.get(environment.projectId)
  if (!environment || !project) throw new Failure('notFound')
  const access = { ...found, project }
  if (!reachedEnvironments(access.reach, project).includes(environment)) throw new Failure('notFound')
  return { access, environments: [environment], isChosen: true, query: scopedQuery, key: undefined }
}

/** True if the caller asks for all of the project and reaches all of it. Others must not learn what else is in it. */
export function isWhole({ access, isChosen }: Selection): boolean {
  return !isChosen && reachesProject(access.reach, access.project)
}

/** True if a caller can ask for any number of different lists: by search, by key, or by choice of environments. */
export function isNarrowed({ access, key, query, isChosen, environments }: Selection): boolean {
  if (key !== undefined || query.q !== undefined) return true
  return environments.length > 1 && (isChosen || environments.length < access.project.environments.length)
}
