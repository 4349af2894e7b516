/** Finds secrets by name in every project that the caller reaches. No value is loaded. */
import type { WorkspacePath } from '@coffer/contract/field'
import type { FoundSecret, SecretSearch } from '@coffer/contract/secret-search'
import { yieldToEventLoop } from '../../event-loop.ts'
import type { NamedSecret, NamePosition } from '../../store/secret/secret.ts'
import { ownersSeen } from '../../store/secret/value.ts'
import { type Access, reachedEnvironments, requireWorkspace, seesProject } from '../access/access.ts'
import type { SnapshotEnvironment, SnapshotProject } from '../cache/workspace-snapshot.ts'
import type { Context } from '../context.ts'
import { decodeNameCursor, encodeCursor } from '../cursor.ts'
import { defaultPageLength, type Page } from '../page.ts'
import { reachesProject } from '../scope.ts'
import { personalOwner } from './choose-environment.ts'

/** Names per query: SQLite reads on the event loop, and takes about a millisecond for these. */
const namesPerQuery = 1_000
/** Names per request. A longer search ends its page early, and the cursor continues it. */
const maxNames = 50_000

const start: NamePosition = { name: '', id: '' }
const positionOf = ({ name, id }: NamePosition): string => encodeCursor(`${name} ${id}`)

export async function searchSecrets(
  ctx: Context,
  path: WorkspacePath,
  { q = '', limit = defaultPageLength, cursor }: SecretSearch,
): Promise<Page<FoundSecret>> {
  const access = await requireWorkspace(ctx, path, 'secret:read')
  const { snapshot, reach } = access
  const folded = q.toLowerCase()
  const isMatch = ({ name, projectId }: NamedSecret) => {
    const project = snapshot.projects.get(projectId)
    return project !== undefined && name.toLowerCase().includes(folded) && seesProject(reach, project)
  }
  const items: FoundSecret[] = []
  let after = cursor === undefined ? start : decodeNameCursor(cursor)
  for (let read = 0; read < maxNames; read += namesPerQuery) {
    const rows = await ctx.store.secrets.listNamesAfter(snapshot.workspace.id, after, namesPerQuery)
    const matches = rows.filter(isMatch)
    while (matches.length > 0) {
      for (const secret of await listSeen(ctx, access, matches.splice(0, limit + 1))) {
        const last = items.at(-1)
        // One match more than the page holds signals a next page.
        if (items.length === limit && last) return { items, nextCursor: positionOf(last) }
        items.push(secret)
      }
    }
    after = rows.at(-1) ?? after
    if (rows.length < namesPerQuery) return { items, nextCursor: undefined }
    await yieldToEventLoop()
  }
  return { items, nextCursor: positionOf(after) }
}

/** Those of the secrets that the caller sees, each with the environments where the caller sees a value of it. */
async function listSeen(
  ctx: Context,
  { snapshot, reach }: Access,
  secrets: readonly NamedSecret[],
): Promise<FoundSecret[]> {
  const projects = new Map<string, { project: SnapshotProject; environments: readonly SnapshotEnvironment[] }>()
  for (const { projectId } of secrets) {
    const project = snapshot.projects.get(projectId)
    if (project && !projects.has(projectId)) {
      projects.set(projectId, { project, environments: reachedEnvironments(reach, project) })
    }
  }
  const environmentIds = [...projects.values()].flatMap(({ environments }) => environments.map(({ id }) => id))
  const secretIds = secrets.map(({ id }) => id)
  const places = await ctx.store.secretValues.listPlacesOf(environmentIds, secretIds, ownersSeen(personalOwner(ctx)))
  // Personal values are hidden where the environment does not allow them.
  const shown = places.filter(
    ({ ownerId, environmentId }) => ownerId === '' || snapshot.environments.get(environmentId)?.hasPersonalOverrides,
  )
  const held = Map.groupBy(shown, ({ secretId }) => secretId)
  return secrets.flatMap(({ id, name, projectId }): FoundSecret[] => {
    const found = projects.get(projectId)
    if (!found) return []
    const holding = new Set(held.get(id)?.map(({ environmentId }) => environmentId))
    // A secret does not exist for callers who reach a part of its project and see none of its values.
    if (holding.size === 0 && !reachesProject(reach, found.project)) return []
    const { slug, name: projectName } = found.project
    const environments = found.environments.filter((environment) => holding.has(environment.id))
    return [
      {
        id,
        name,
        project: { id: projectId, slug, name: projectName },
        environments: environments.map((environment) => ({ id: environment.id, name: environment.name })),
      },
    ]
  })
}
