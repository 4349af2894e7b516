/** The values of environments, opened: the rows that answers, exports, references and comparisons are made from. */
import type { ReminderRow } from '../store/secret-reminder.ts'
import type { SealedValue } from '../store/secret-value.ts'
import type { ProjectAccess } from './access.ts'
import type { Context } from './context.ts'
import type { PicturedEnvironment } from './picture.ts'
import { reachesEnvironment } from './scope.ts'
import { findEnvironmentByName } from './secret-environment.ts'
import type { Reference } from './secret-reference.ts'
import { type LoadValues, type Locate, type Place, placeName } from './secret-reference-graph.ts'
import { type OnUnresolved, type Resolved, resolveValues } from './secret-reference-resolution.ts'

export type OpenValue = {
  readonly secretId: string
  readonly environmentId: string
  readonly isPersonal: boolean
  readonly version: number
  readonly updatedAt: number
  readonly value: string
}

type Names = ReadonlyMap<string, string>

/** By how much references may make one answer grow: beyond it they stay unresolved, so that no request works for long. */
const maxGrowthBytes = 4 * 1024 * 1024

/** Opens rows of one project; those of secrets that are not among the names are left out. */
export async function openValues(
  ctx: Context,
  access: ProjectAccess,
  rows: readonly SealedValue[],
  names: Names,
): Promise<OpenValue[]> {
  const { picture, project } = access
  const opened: OpenValue[] = []
  for (const row of rows) {
    if (row.sealed === null || !names.has(row.secretId) || isHidden(access, row)) continue
    const { secretId, environmentId, ownerId, version, updatedAt, sealed } = row
    const place = { workspaceId: picture.workspace.id, projectId: project.id, environmentId, secretId, ownerId }
    const value = await ctx.store.secretValues.open(place, { version, sealed }, picture.environmentKeys)
    opened.push({ secretId, environmentId, isPersonal: ownerId !== '', version, updatedAt, value })
  }
  return opened
}

/** Switching personal values off hides them; it does not delete them. */
function isHidden(access: ProjectAccess, row: SealedValue): boolean {
  return row.ownerId !== '' && access.picture.environments.get(row.environmentId)?.hasPersonalOverrides !== true
}

/** One value for each secret and environment: a person's own wins over the shared one. */
export function effectiveValues(values: readonly OpenValue[]): OpenValue[] {
  const chosen = new Map<string, OpenValue>()
  for (const value of values) {
    const name = `${value.environmentId}:${value.secretId}`
    if (value.isPersonal || !chosen.has(name)) chosen.set(name, value)
  }
  return [...chosen.values()]
}

/** What references may reach: the caller's own rights at every hop, by one query for each hop. */
export function referenceOptions(
  ctx: Context,
  access: ProjectAccess,
  ownerId: string,
): { locate: Locate; load: LoadValues } {
  const { picture, reach } = access

  function locate(from: string, reference: Reference): Place | undefined {
    const home = picture.environments.get(from)
    if (reference.environment === undefined) return home && { environmentId: from, key: reference.key }
    const project =
      reference.project === undefined
        ? home && picture.projects.get(home.projectId)
        : picture.projectsBySlug.get(reference.project)
    const environment = project && findEnvironmentByName(project, reference.environment)
    if (!project || !environment || !reachesEnvironment(reach, project, environment)) return undefined
    return { environmentId: environment.id, key: reference.key }
  }

  async function load(places: readonly Place[]): Promise<ReadonlyMap<string, string>> {
    const wanted = new Set(places.map(placeName))
    const environmentIds = [...new Set(places.map((place) => place.environmentId))]
    const names = [...new Set(places.map((place) => place.key))]
    const rows = await ctx.store.secretValues.listByNames(environmentIds, names, ownerId)
    const values = new Map<string, string>()
    // Shared ones first, so that a person's own overwrites them.
    for (const row of rows.sort((a, b) => (a.ownerId < b.ownerId ? -1 : 1))) {
      const name = placeName({ environmentId: row.environmentId, key: row.name })
      if (!wanted.has(name) || row.sealed === null || isHidden(access, row)) continue
      const { environmentId, secretId, projectId, version, sealed } = row
      const place = { workspaceId: picture.workspace.id, projectId, environmentId, secretId, ownerId: row.ownerId }
      values.set(name, await ctx.store.secretValues.open(place, { version, sealed }, picture.environmentKeys))
    }
    return values
  }

  return { locate, load }
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
  names: Names,
  options: { ownerId: string; onUnresolved: OnUnresolved },
): Promise<Resolution> {
  const effective = new Set(effectiveValues(rows))
  const roots = rows.map((row) => {
    const name = names.get(row.secretId) ?? ''
    // A shared value under a personal one is resolved too, but no reference can mean it.
    return { environmentId: row.environmentId, key: effective.has(row) ? name : `\u0000${name}`, value: row.value }
  })
  const referenced: Place[] = []
  const { locate, load } = referenceOptions(ctx, access, options.ownerId)
  const { results, visited } = await resolveValues(roots, {
    locate,
    load: async (places) => {
      const values = await load(places)
      referenced.push(...places.filter((place) => values.has(placeName(place))))
      return values
    },
    onUnresolved: options.onUnresolved,
    maxGrowthBytes,
  })
  const byRow = new Map<OpenValue, Resolved>()
  rows.forEach((row, index) => {
    const result = results[index]
    if (result) byRow.set(row, result)
  })
  return { byRow, referenced, environmentIds: visited.environments }
}

/** Everything about the chosen environments of a project, by a fixed number of queries. */
export async function loadProject(
  ctx: Context,
  access: ProjectAccess,
  environments: readonly PicturedEnvironment[],
  ownerId: string,
) {
  const workspaceId = access.picture.workspace.id
  const ids = environments.map(({ id }) => id)
  const secrets = await ctx.store.secrets.list(access.project.id, workspaceId)
  const sealed = ids.length === 0 ? [] : await ctx.store.secretValues.list(ids, ownerId)
  const reminders: ReminderRow[] = ids.length === 0 ? [] : await ctx.store.secretReminders.list(ids)
  const names = new Map(secrets.map(({ id, name }) => [id, name]))
  return { secrets, names, sealed, reminders }
}
