/** Finds the environments that a request names, and whose personal values the caller sees in them. */
import { Failure, invalid } from '../../failure.ts'
import { type Access, type ProjectAccess, reachedEnvironments } from '../access/access.ts'
import type { SnapshotEnvironment, SnapshotProject } from '../cache/workspace-snapshot.ts'
import type { Context } from '../context.ts'
import { reachesEnvironment } from '../scope.ts'

/**
 * Sessions and CLI tokens see the personal values of their user; machine tokens see none. A JWT counts as the
 * credential that it was issued for.
 */
export function personalOwner(ctx: Context): string {
  const { credential, userId } = ctx.actor
  if ('token' in credential) return credential.token.type === 'cli' ? userId : ''
  return credential.type === 'session' || credential.type === 'cli' ? userId : ''
}

/** An environment of the project by id or name, if the caller reaches it. */
export function requireReached(access: ProjectAccess, idOrName: string): SnapshotEnvironment {
  const { reach, project } = access
  const environment = findByIdOrName(project.environments, idOrName)
  // Names are unique within a project, so no other environment can match.
  if (!environment || !reachesEnvironment(reach, project, environment)) throw new Failure('notFound')
  return environment
}

function findByIdOrName(list: readonly SnapshotEnvironment[], idOrName: string): SnapshotEnvironment | undefined {
  const folded = idOrName.toLowerCase()
  return (
    list.find((environment) => environment.id === folded) ??
    list.find((environment) => environment.name.toLowerCase() === folded)
  )
}

/** An environment of the workspace by id, or by a name that the caller reaches only once: in the named project, or in all. */
export function requireInWorkspace(
  { snapshot, reach }: Access,
  idOrName: string,
  slug: string | undefined,
): { readonly project: SnapshotProject; readonly environment: SnapshotEnvironment } {
  const [found, another] = [...snapshot.projects.values()].flatMap((project) => {
    if (slug !== undefined && project.slug !== slug) return []
    const environment = findByIdOrName(project.environments, idOrName)
    return environment && reachesEnvironment(reach, project, environment) ? [{ project, environment }] : []
  })
  if (another) throw invalid('environmentId', 'is a name in more than one project: send project too, or the id.')
  if (!found) throw new Failure('notFound')
  return found
}

type Chosen = { readonly environmentId?: string | string[] | undefined }

/** The environments that the query names, without duplicates; all in reach if it names none. */
export function chooseEnvironments(access: ProjectAccess, query: Chosen): SnapshotEnvironment[] {
  const wanted = [query.environmentId ?? []].flat()
  if (wanted.length === 0) return reachedEnvironments(access.reach, access.project)
  return [...new Set(wanted.map((idOrName) => requireReached(access, idOrName)))]
}

/** The one environment that a request names, in any of its fields; undefined if it names none. */
export function findNamed(
  access: ProjectAccess,
  names: readonly (string | undefined)[],
): SnapshotEnvironment | undefined {
  const given = names.filter((name) => name !== undefined)
  const [environment, another] = new Set(given.map((idOrName) => requireReached(access, idOrName)))
  if (another) throw invalid('environmentId', 'names more than one environment: name one.')
  return environment
}

/** For operations that must name their environment, even if the caller reaches only one. */
export function requireNamed(access: ProjectAccess, ...names: (string | undefined)[]): SnapshotEnvironment {
  const environment = findNamed(access, names)
  if (!environment) throw invalid('environmentId', 'is required.')
  return environment
}

/** For operations on one environment, which need not be named if the caller reaches only one. */
export function chooseEnvironment(access: ProjectAccess, query: Chosen): SnapshotEnvironment {
  const chosen = chooseEnvironments(access, query)
  const [only] = chosen
  if (!only || chosen.length > 1) throw invalid('environmentId', 'is required: name one environment.')
  return only
}
