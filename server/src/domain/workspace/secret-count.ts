import { type Access, reachedEnvironments } from '../access/access.ts'
import type { SnapshotProject } from '../cache/workspace-snapshot.ts'
import type { Context } from '../context.ts'
import { reachesProject } from '../scope.ts'
import { waitIfLong } from '../secret/long-list.ts'

/**
 * Counts the secrets in the caller's scope, by project. Projects of which the caller reaches several but not all
 * environments need a query, one for all of them: a secret that is in two environments counts once.
 */
export async function countSecrets(
  ctx: Context,
  { snapshot, reach }: Access,
  projects: readonly SnapshotProject[],
): Promise<ReadonlyMap<string, number>> {
  const workspaceId = snapshot.workspace.id
  const counts = ctx.counts.peek(workspaceId) ?? (await ctx.counts.get(workspaceId))
  const counted = new Map<string, number>()
  const several: string[] = []
  for (const project of projects) {
    const parts = reachesProject(reach, project) ? [project] : reachedEnvironments(reach, project)
    if (parts.length > 1) several.push(...parts.map(({ id }) => id))
    else counted.set(project.id, counts?.get(parts[0]?.id ?? '')?.count ?? 0)
  }
  if (several.length === 0) return counted
  await waitIfLong(ctx, snapshot, 'counts')
  const rows = await ctx.store.secrets.countIn(several, workspaceId)
  snapshot.listLengths.set(
    'counts',
    rows.reduce((sum, { count }) => sum + count, 0),
  )
  for (const { projectId, count } of rows) counted.set(projectId, count)
  return counted
}
