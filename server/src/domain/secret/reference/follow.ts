/** Follows the references in loaded values, with the caller's own rights at every hop. */
import type { NamedValue } from '../../../store/secret/value.ts'
import type { ProjectAccess } from '../../access/access.ts'
import { findEnvironmentByName } from '../../cache/workspace-snapshot.ts'
import type { Context } from '../../context.ts'
import { reachesEnvironment } from '../../scope.ts'
import { effectiveValues, isHidden, maxRowsOf, type OpenValue } from '../load.ts'
import { placePrefix } from '../name-base.ts'
import { createAllowance, createOpeningPause } from '../size.ts'
import { type LoadValues, type Locate, type Place, placeName, type ValueNode } from './graph.ts'
import type { Reference } from './reference.ts'
import { type Gap, type OnUnresolved, type Resolved, resolveValues } from './resolution.ts'

/** Maximum growth of a response by references. Values beyond it stay unresolved, which bounds the work of a request. */
const maxGrowthBytes = 4 * 1024 * 1024

export type ReferenceOptions = {
  readonly locate: Locate
  readonly load: LoadValues
  /** All values of these environments, keyed by `placeName`. */
  readonly loadEnvironments: (environmentIds: readonly string[]) => Promise<ReadonlyMap<string, string>>
}

/** Checks every reference in values that a sync or a share hands on, in addition to the rights of its creator. */
export type Guard = {
  /** Registers loaded values and their authors. Called before `allows` is asked about references in these values. */
  load(values: readonly { readonly place: Place; readonly authors: string }[]): Promise<void>
  allows(from: Place, reference: Reference, to: Place): boolean
  /** Called once all values are loaded: removes the target of links that lead further than their authors may read. */
  prune(nodes: readonly ValueNode[]): Promise<void>
  /** Reports a reference that stays unresolved, whatever the reason. */
  miss(root: Place, gap: Gap): void
}

/** Each hop takes one query. */
export function referenceOptions(
  ctx: Context,
  access: ProjectAccess,
  ownerId: string,
  guard?: Guard,
): ReferenceOptions {
  const { snapshot, reach } = access
  const { secretValues } = ctx.store
  const allowance = createAllowance(ctx, 'value', 'reference fewer or smaller values')

  function locate(from: string, reference: Reference, key: string): Place | undefined {
    const place = find(from, reference)
    return place && guard?.allows({ environmentId: from, key }, reference, place) !== false ? place : undefined
  }

  function find(from: string, reference: Reference): Place | undefined {
    const home = snapshot.environments.get(from)
    if (reference.environment === undefined) return home && { environmentId: from, key: reference.key }
    const project =
      reference.project === undefined
        ? home && snapshot.projects.get(home.projectId)
        : snapshot.projectsBySlug.get(reference.project)
    const environment = project && findEnvironmentByName(project, reference.environment)
    if (!project || !environment || !reachesEnvironment(reach, project, environment)) return undefined
    return { environmentId: environment.id, key: reference.key }
  }

  async function openNamed(rows: NamedValue[]): Promise<Map<string, string>> {
    const values = new Map<string, string>()
    const met: { place: Place; authors: string }[] = []
    const isPause = createOpeningPause()
    // Shared values come first, so that personal ones overwrite them in the map.
    for (const row of rows.sort((a, b) => (a.ownerId < b.ownerId ? -1 : 1))) {
      if (row.sealed === null || isHidden(access, row)) continue
      const { environmentId, secretId, version, sealed, authors } = row
      // The project is part of the AAD: moving an environment's row to another project makes its values unreadable.
      const projectId = snapshot.environments.get(environmentId)?.projectId ?? ''
      const place = { workspaceId: snapshot.workspace.id, projectId, environmentId, secretId, ownerId: row.ownerId }
      const value = await secretValues.open(place, { version, sealed, authors }, snapshot.environmentKeys)
      values.set(placeName({ environmentId, key: row.name }), value)
      met.push({ place: { environmentId, key: row.name }, authors })
      if (isPause(sealed.length)) await ctx.longWork.giveWay()
    }
    await guard?.load(met)
    return values
  }

  async function load(places: readonly Place[]): Promise<ReadonlyMap<string, string>> {
    const wanted = new Set(places.map(placeName))
    const environmentIds = [...new Set(places.map((place) => place.environmentId))]
    const names = [...new Set(places.map((place) => place.key))]
    const rows = await allowance.load(
      maxRowsOf(environmentIds.length * names.length, ownerId),
      () => secretValues.measureByNames(environmentIds, names, ownerId),
      () => secretValues.listByNames(environmentIds, names, ownerId),
    )
    return openNamed(rows.filter(({ environmentId, name }) => wanted.has(placeName({ environmentId, key: name }))))
  }

  async function loadEnvironments(environmentIds: readonly string[]): Promise<ReadonlyMap<string, string>> {
    const rows = await allowance.load(
      Number.POSITIVE_INFINITY,
      () => secretValues.measure(environmentIds, ownerId),
      () => secretValues.listNamed(environmentIds, ownerId),
    )
    return openNamed(rows)
  }

  return { locate, load, loadEnvironments }
}

export type Resolution = {
  readonly byRow: ReadonlyMap<OpenValue, Resolved>
  /** Values that were read only because others refer to them. */
  readonly referenced: readonly Place[]
  readonly environmentIds: ReadonlySet<string>
}

export async function resolveRows(
  ctx: Context,
  access: ProjectAccess,
  rows: readonly OpenValue[],
  names: ReadonlyMap<string, string>,
  options: { ownerId: string; onUnresolved: OnUnresolved; guard?: Guard },
): Promise<Resolution> {
  if (!rows.some(({ value }) => value.includes('${'))) return resolveToThemselves(rows)
  const effective = new Set(effectiveValues(rows))
  const roots = rows.map((row) => {
    const name = names.get(row.secretId) ?? ''
    // A shared value behind a personal one is resolved too, under a key that no reference can name.
    return { environmentId: row.environmentId, key: effective.has(row) ? name : `\u0000${name}`, value: row.value }
  })
  const referenced: Place[] = []
  const { locate, load } = referenceOptions(ctx, access, options.ownerId, options.guard)
  await options.guard?.load(roots.map((place, index) => ({ place, authors: rows[index]?.authors ?? '' })))
  const { results, visited } = await resolveValues(roots, {
    locate,
    load: async (places) => {
      const values = await load(places)
      for (const place of places) if (values.has(placeName(place))) referenced.push(place)
      return values
    },
    giveWay: ctx.longWork.giveWay,
    onUnresolved: options.onUnresolved,
    onGap: options.guard?.miss,
    prune: options.guard?.prune,
    maxGrowthBytes,
  })
  const byRow = new Map<OpenValue, Resolved>()
  rows.forEach((row, index) => {
    const result = results[index]
    if (result) byRow.set(row, result)
  })
  return { byRow, referenced, environmentIds: visited.environments }
}

/** Most environments have no references at all. */
function resolveToThemselves(rows: readonly OpenValue[]): Resolution {
  const byRow = new Map(rows.map((row) => [row, { value: row.value, unresolved: [] }]))
  return { byRow, referenced: [], environmentIds: new Set(rows.map(({ environmentId }) => environmentId)) }
}

/** Names referenced values as `project.environment.KEY`, for the audit trail. */
export function namePlaces({ snapshot }: ProjectAccess, places: readonly Place[]): string[] {
  return places.map(({ environmentId, key }) => placePrefix(snapshot, environmentId) + key)
}
