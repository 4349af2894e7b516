/** Finds secrets by name in every project that the caller reaches. No value is loaded. */
import type { WorkspacePath } from '@coffer/contract/field'
import type { FoundSecret, SecretSearch } from '@coffer/contract/secret-search'
import { openCursor, sealCursor } from '../../crypto/cursor.ts'
import type { NamedSecret, NamePosition } from '../../store/secret/secret.ts'
import { ownersSeen } from '../../store/secret/value.ts'
import { type Access, reachedEnvironments, requireWorkspace, seesProject } from '../access/access.ts'
import type { SnapshotEnvironment, SnapshotProject } from '../cache/workspace-snapshot.ts'
import type { Context } from '../context.ts'
import { unknownCursor } from '../cursor.ts'
import { defaultPageLength, type Page } from '../page.ts'
import { reachesProject } from '../scope.ts'
import { personalOwner } from './choose-environment.ts'

/** Names per query: SQLite reads on the event loop, and takes about a millisecond for these. */
const namesPerQuery = 1_000
/** Matches whose values are looked up by one query. */
const maxLookedUp = 256
/** Names per request. A longer search ends its page early, and the cursor continues it. */
const maxNames = 50_000

const start: NamePosition = { name: '', id: '' }

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
  const pageAfter = (position: NamePosition) => ({ items, nextCursor: writeCursor(ctx, access, position) })
  let after = cursor === undefined ? start : await readCursor(ctx, access, cursor)
  /** Grows, so that a caller who sees few of the matches causes few queries. */
  let lookedUp = limit + 1
  for (let read = 0; read < maxNames; read += namesPerQuery) {
    const rows = await ctx.store.secrets.listNamesAfter(snapshot.workspace.id, after, namesPerQuery)
    const matches = rows.filter(isMatch)
    while (matches.length > 0) {
      for (const secret of await listSeen(ctx, access, matches.splice(0, lookedUp))) {
        const last = items.at(-1)
        // One match more than the page holds signals a next page.
        if (items.length === limit && last) return pageAfter(last)
        items.push(secret)
      }
      lookedUp = Math.min(2 * lookedUp, maxLookedUp)
    }
    after = rows.at(-1) ?? after
    if (rows.length < namesPerQuery) return { items, nextCursor: undefined }
    await ctx.longWork.giveWay()
  }
  return pageAfter(after)
}

/** Sealed: a page may end at a name that the caller must not see. */
function writeCursor(ctx: Context, { snapshot }: Access, { name, id }: NamePosition): string {
  return sealCursor(ctx.keys.keyring, listOf(snapshot), `${name} ${id}`)
}

async function readCursor(ctx: Context, { snapshot }: Access, cursor: string): Promise<NamePosition> {
  const position = await ctx.keys.lookTwice('cursor', async () =>
    openCursor(ctx.keys.keyring, listOf(snapshot), cursor),
  )
  const [name, id] = position?.split(' ') ?? []
  if (name === undefined || id === undefined) throw unknownCursor()
  return { name, id }
}

const listOf = ({ workspace }: Access['snapshot']) => `secrets of ${workspace.id}`

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
  const secretIds = secrets.map(({ id }) => id)
  const places = await ctx.store.secretValues.listAllPlacesOf(secretIds, ownersSeen(personalOwner(ctx)))
  // Personal values are hidden where the environment does not allow them.
  const shown = places.filter(
    ({ ownerId, environmentId }) => ownerId === '' || snapshot.environments.get(environmentId)?.hasPersonalOverrides,
  )
  const held = Map.groupBy(shown, ({ secretId }) => secretId)
  return secrets.flatMap(({ id, name, projectId }): FoundSecret[] => {
    const found = projects.get(projectId)
    if (!found) return []
    const holding = new Set(held.get(id)?.map(({ environmentId }) => environmentId))
    const environments = found.environments.filter((environment) => holding.has(environment.id))
    // A secret does not exist for callers who reach a part of its project and see none of its values.
    if (environments.length === 0 && !reachesProject(reach, found.project)) return []
    const { slug, name: projectName } = found.project
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
