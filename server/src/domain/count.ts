/** How many secrets there are in each project and environment and when they changed, remembered until they do. */
import type { Store } from '../store/store.ts'
import { type Access, reachedEnvironments } from './access.ts'
import type { Context } from './context.ts'
import type { PicturedProject } from './picture.ts'
import { createRecall, type Recall } from './recall.ts'
import { reachesProject } from './scope.ts'
import { iso } from './time.ts'

export type Count = { readonly count: number; readonly updatedAt: string }
export type Counts = Recall<ReadonlyMap<string, Count>>

const maxWorkspaces = 1_000

export function createCounts(store: Store): Counts {
  return createRecall(maxWorkspaces, async (workspaceId) => {
    const rows = await store.secrets.listCounts(workspaceId)
    return new Map(rows.map(({ id, count, updatedAt }) => [id, { count, updatedAt: iso(updatedAt) }]))
  })
}

/** What lies inside the caller's scope: all of a project, or what its reached environments hold. */
export function countSecrets(
  ctx: Context,
  access: Access,
  project: PicturedProject,
  counts: ReadonlyMap<string, Count> | undefined,
): number | Promise<number> {
  if (reachesProject(access.reach, project)) return counts?.get(project.id)?.count ?? 0
  const reached = reachedEnvironments(access.reach, project).map(({ id }) => id)
  if (reached.length <= 1) return counts?.get(reached[0] ?? '')?.count ?? 0
  return ctx.store.secrets.countIn(reached, access.picture.workspace.id)
}
