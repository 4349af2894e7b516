/**
 * Base lists for audit entries whose caller chooses the names, by `q`, by environments or by revisions. They depend on
 * the stored data alone, so repeated reads of unchanged data store nothing but a bit for each name.
 */
import { isLongList, type NameBase, type NameBases, toKeyList } from '../../store/audit/key-list.ts'
import type { ProjectAccess } from '../access/access.ts'
import type { SnapshotProject, WorkspaceSnapshot } from '../cache/workspace-snapshot.ts'
import type { Context } from '../context.ts'
import type { Place } from './reference/graph.ts'

/** The part of a snapshot in which the names of an audit entry are looked up. */
type NamedSnapshot = Pick<WorkspaceSnapshot, 'workspace' | 'projects' | 'environments' | 'nameBases'>

/** `names` must be without duplicates; `use` tells the lists of one workspace apart. */
function baseOf({ nameBases }: NamedSnapshot, use: string, names: readonly string[], prefix = ''): NameBase {
  const text = JSON.stringify(names)
  const last = nameBases.get(use)?.deref()
  if (last?.text === text) return { prefix, names, list: last }
  const list = toKeyList(text)
  nameBases.set(use, new WeakRef(list))
  return { prefix, names, list }
}

/** Names for the audit entry of a read. */
export type AuditedRead = {
  readonly keys: readonly string[]
  readonly environments: readonly string[]
  readonly environmentIds: readonly string[]
  readonly referenced: readonly string[]
  readonly bases?: NameBases
}

/** Gives the long lists of a read their bases, and sorts them, as the bases are. */
export async function withBases(
  ctx: Pick<Context, 'store' | 'longWork'>,
  {
    snapshot,
    project,
  }: { readonly snapshot: NamedSnapshot; readonly project: Pick<SnapshotProject, 'id' | 'environments'> },
  read: AuditedRead,
  allKeys: () => readonly string[],
  places: readonly Place[],
): Promise<AuditedRead> {
  const bases: Record<string, readonly NameBase[]> = {}
  const sorted = (field: 'keys' | 'environments' | 'environmentIds', allNames: () => Iterable<string>) => {
    if (!isLongList(read[field])) return read[field]
    const chosen = [...new Set(read[field])]
    if (!isLongList(chosen)) return chosen
    bases[field] = [baseOf(snapshot, `${field} ${project.id}`, [...allNames()].sort())]
    return chosen.sort()
  }
  const lists = {
    keys: sorted('keys', allKeys),
    environments: sorted('environments', () => project.environments.map(({ name }) => name)),
    environmentIds: sorted('environmentIds', () => snapshot.environments.keys()),
  }
  if (!isLongList(read.referenced)) return { ...read, ...lists, bases }
  await ctx.longWork.giveWay()
  const groups = groupPlaces(snapshot, places)
  const projectIds = [...new Set(groups.map(({ projectId }) => projectId))]
  const namesOf = await ctx.store.secrets.listNames(projectIds, snapshot.workspace.id)
  bases.referenced = groups.map(({ projectId, prefix }) =>
    baseOf(snapshot, `keys ${projectId}`, namesOf.get(projectId) ?? [], prefix),
  )
  return { ...lists, referenced: groups.flatMap(({ names }) => names), bases }
}

function groupPlaces(snapshot: NamedSnapshot, places: readonly Place[]) {
  return [...Map.groupBy(places, ({ environmentId }) => environmentId)]
    .map(([environmentId, group]) => {
      const projectId = snapshot.environments.get(environmentId)?.projectId ?? ''
      const prefix = placePrefix(snapshot, environmentId)
      return { projectId, prefix, names: group.map(({ key }) => prefix + key).sort() }
    })
    .sort((a, b) => (a.prefix < b.prefix ? -1 : 1))
}

/** `project.environment.` */
export function placePrefix(
  { environments, projects }: Pick<WorkspaceSnapshot, 'environments' | 'projects'>,
  environmentId: string,
): string {
  const environment = environments.get(environmentId)
  return `${projects.get(environment?.projectId ?? '')?.slug}.${environment?.name}.`
}

/** A base for keys at any revision: every name that a secret of the project has or had. */
export async function loadPastBases(
  ctx: Pick<Context, 'store' | 'longWork'>,
  { snapshot, project }: ProjectAccess,
  keys: readonly string[],
): Promise<NameBases | undefined> {
  if (!isLongList(keys)) return undefined
  const { secrets } = ctx.store
  await ctx.longWork.giveWay()
  const past = new Set(await secrets.listPastNames(project.id, snapshot.workspace.id))
  const isComplete = keys.every((key) => past.has(key))
  await ctx.longWork.giveWay()
  const others = isComplete ? [] : await secrets.listVersionNames(project.id, snapshot.workspace.id)
  const names = [...past.union(new Set(others))].sort()
  return { keys: [{ prefix: '', names, list: toKeyList(JSON.stringify(names)) }] }
}
