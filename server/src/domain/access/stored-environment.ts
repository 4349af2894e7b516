import { toSnapshotEnvironment, withEnvironments } from '../cache/workspace-snapshot.ts'
import type { WriteContext } from '../context.ts'
import type { ProjectAccess } from './access.ts'

/**
 * Reloads the project's environments under the workspace lock. The cached snapshot may lack an environment that another
 * node created a moment ago, and a change to the whole project must not skip it.
 */
export async function withStoredEnvironments<Held extends ProjectAccess>(
  ctx: WriteContext,
  access: Held,
): Promise<Held> {
  const { snapshot, project: cached } = access
  const rows = await ctx.store.environments.listOf(cached.id, snapshot.workspace.id)
  const known = new Set(cached.environments.map(({ id }) => id))
  if (rows.length === known.size && rows.every(({ id }) => known.has(id))) return access
  const project = withEnvironments(cached, rows.map(toSnapshotEnvironment))
  const others = [...snapshot.environments].filter(([id]) => !known.has(id))
  const current = {
    ...snapshot,
    environments: new Map([...others, ...project.environments.map((one) => [one.id, one] as const)]),
    projects: new Map(snapshot.projects).set(project.id, project),
    projectsBySlug: new Map(snapshot.projectsBySlug).set(project.slug, project),
  }
  return { ...access, project, snapshot: current }
}
