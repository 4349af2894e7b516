/** Loads and decrypts values: responses, exports, references and comparisons are built from these rows. */

import { nextTurn } from '../../event-loop.ts'
import type { ReminderRow } from '../../store/secret/reminder.ts'
import { type NamedValue, rowBytes, type SealedValue } from '../../store/secret/value.ts'
import type { ProjectAccess } from '../access/access.ts'
import type { PicturedEnvironment } from '../cache/workspace-snapshot.ts'
import type { Context } from '../context.ts'
import { reachesEnvironment } from '../scope.ts'
import { acquireLargeSlot } from '../slot.ts'
import { findEnvironmentByName } from './environment.ts'
import { type LoadValues, type Locate, type Place, placeName, type ValueNode } from './reference/graph.ts'
import type { Reference } from './reference/reference.ts'
import { type Gap, type OnUnresolved, type Resolved, resolveValues } from './reference/resolution.ts'
import { type Allowance, createAllowance, createOpeningPause, largeBytes, manySecrets } from './size.ts'

export type OpenValue = {
  readonly secretId: string
  readonly environmentId: string
  readonly isPersonal: boolean
  readonly version: number
  readonly updatedAt: number
  readonly value: string
  readonly authors: string
}

type Names = ReadonlyMap<string, string>

/** Maximum growth of a response by references. Values beyond it stay unresolved, which bounds the work of a request. */
const maxGrowthBytes = 4 * 1024 * 1024

/** Decrypts rows of one project. Skips removed values, hidden personal values and secrets that are not in `names`. */
export async function openValues(
  ctx: Context,
  access: ProjectAccess,
  rows: readonly SealedValue[],
  names: Names,
): Promise<OpenValue[]> {
  const { picture, project } = access
  const opened: OpenValue[] = []
  const isPause = createOpeningPause()
  for (const row of rows) {
    if (row.sealed === null || !names.has(row.secretId) || isHidden(access, row)) continue
    const { secretId, environmentId, ownerId, version, updatedAt, sealed, authors } = row
    const place = { workspaceId: picture.workspace.id, projectId: project.id, environmentId, secretId, ownerId }
    const value = await ctx.store.secretValues.open(place, { version, sealed, authors }, picture.environmentKeys)
    opened.push({ secretId, environmentId, isPersonal: ownerId !== '', version, updatedAt, value, authors })
    if (isPause(sealed.length)) await nextTurn()
  }
  return opened
}

/** Switching personal values off hides them; it does not delete them. */
function isHidden(access: ProjectAccess, row: Pick<SealedValue, 'ownerId' | 'environmentId'>): boolean {
  return row.ownerId !== '' && access.picture.environments.get(row.environmentId)?.hasPersonalOverrides !== true
}

/** Map key of a secret's value in an environment. */
export const valueKey = ({ environmentId, secretId }: Pick<OpenValue, 'environmentId' | 'secretId'>): string =>
  `${environmentId} ${secretId}`

/** One value per secret and environment: the caller's personal value overrides the shared one. */
export function effectiveValues(values: readonly OpenValue[]): OpenValue[] {
  const chosen = new Map<string, OpenValue>()
  for (const value of values) {
    const key = valueKey(value)
    if (value.isPersonal || !chosen.has(key)) chosen.set(key, value)
  }
  return [...chosen.values()]
}

/** Maximum number of rows: one shared row per value and, for an owner, one personal row. */
export const maxRowsOf = (values: number, ownerId: string): number => (ownerId === '' ? values : 2 * values)

export type ReferenceOptions = {
  readonly locate: Locate
  readonly load: LoadValues
  /** All values of these environments, keyed by `placeName`. */
  readonly loadEnvironments: (environmentIds: readonly string[]) => Promise<ReadonlyMap<string, string>>
}

/** Checks every reference in values that a sync or a share hands on, in addition to the rights of its creator. */
export type Guard = {
  /** Registers loaded values and their authors. Called before `allows` is asked about references in these values. */
  meet(values: readonly { readonly place: Place; readonly authors: string }[]): Promise<void>
  allows(from: Place, reference: Reference, to: Place): boolean
  /** Called once all values are loaded: removes the target of links that lead further than their authors may read. */
  prune(nodes: readonly ValueNode[]): Promise<void>
  /** Reports a reference that stays unresolved, whatever the reason. */
  miss(root: Place, gap: Gap): void
}

/** References are followed with the caller's own rights at every hop. Each hop takes one query. */
export function referenceOptions(
  ctx: Context,
  access: ProjectAccess,
  ownerId: string,
  guard?: Guard,
): ReferenceOptions {
  const { picture, reach } = access
  const { secretValues } = ctx.store
  const allowance = createAllowance(ctx, 'value', 'let fewer or smaller values be referred to')

  function locate(from: string, reference: Reference, key: string): Place | undefined {
    const place = find(from, reference)
    return place && guard?.allows({ environmentId: from, key }, reference, place) !== false ? place : undefined
  }

  function find(from: string, reference: Reference): Place | undefined {
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

  async function openNamed(rows: NamedValue[]): Promise<Map<string, string>> {
    const values = new Map<string, string>()
    const met: { place: Place; authors: string }[] = []
    const isPause = createOpeningPause()
    // Shared values come first, so that personal ones overwrite them in the map.
    for (const row of rows.sort((a, b) => (a.ownerId < b.ownerId ? -1 : 1))) {
      if (row.sealed === null || isHidden(access, row)) continue
      const { environmentId, secretId, version, sealed, authors } = row
      // The project is part of the AAD: moving an environment's row to another project makes its values unreadable.
      const projectId = picture.environments.get(environmentId)?.projectId ?? ''
      const place = { workspaceId: picture.workspace.id, projectId, environmentId, secretId, ownerId: row.ownerId }
      const value = await secretValues.open(place, { version, sealed, authors }, picture.environmentKeys)
      values.set(placeName({ environmentId, key: row.name }), value)
      met.push({ place: { environmentId, key: row.name }, authors })
      if (isPause(sealed.length)) await nextTurn()
    }
    await guard?.meet(met)
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
  names: Names,
  options: { ownerId: string; onUnresolved: OnUnresolved; guard?: Guard },
): Promise<Resolution> {
  const effective = new Set(effectiveValues(rows))
  const roots = rows.map((row) => {
    const name = names.get(row.secretId) ?? ''
    // A shared value behind a personal one is resolved too, under a key that no reference can name.
    return { environmentId: row.environmentId, key: effective.has(row) ? name : `\u0000${name}`, value: row.value }
  })
  const referenced: Place[] = []
  const { locate, load } = referenceOptions(ctx, access, options.ownerId, options.guard)
  await options.guard?.meet(roots.map((place, index) => ({ place, authors: rows[index]?.authors ?? '' })))
  const { results, visited } = await resolveValues(roots, {
    locate,
    load: async (places) => {
      const values = await load(places)
      for (const place of places) if (values.has(placeName(place))) referenced.push(place)
      return values
    },
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

const listAdvice =
  'name fewer environments, look for a part of the names (q), list them without values (view=keys), or read one by one'

/**
 * Loads the secrets, values and reminders of these environments. The number of queries is fixed unless the values are
 * large. With `part`, only secrets whose name contains it are loaded.
 */
export async function loadProject(
  ctx: Context,
  access: ProjectAccess,
  environments: readonly PicturedEnvironment[],
  ownerId: string,
  { part, advice = listAdvice }: { part?: string | undefined; advice?: string } = {},
) {
  const ids = environments.map(({ id }) => id)
  const allowance = createAllowance(ctx, 'environmentId', advice)
  const { secrets, allNames } = await loadNames(ctx, access, allowance, part)
  if (secrets.length > manySecrets) acquireLargeSlot(ctx)
  const names = new Map(secrets.map(({ id, name }) => [id, name]))
  // No variable holds the sealed rows, so their memory can be freed as soon as they are decrypted.
  const values = await openValues(
    ctx,
    access,
    await loadValues(ctx, access, allowance, ids, [...names.keys()], ownerId),
    names,
  )
  const reminders: ReminderRow[] = ids.length === 0 ? [] : await ctx.store.secretReminders.list(ids)
  return { secrets, names, allNames, values, reminders, advice }
}

/**
 * Loads the sealed values of these secrets. Large results are loaded in parts, so that other requests are served in
 * between. If a revision changed meanwhile, one query reads everything again: the result must not mix two revisions.
 */
export function loadValues(
  ctx: Context,
  access: ProjectAccess,
  allowance: Allowance,
  environmentIds: readonly string[],
  secretIds: readonly string[],
  ownerId: string,
): Promise<SealedValue[]> {
  const { secretValues } = ctx.store
  const revisions = async () => {
    const { id } = access.picture.workspace
    return (await Promise.all(environmentIds.map((each) => secretValues.currentRevision(each, id)))).join()
  }
  return allowance.load(
    maxRowsOf(secretIds.length * environmentIds.length, ownerId),
    () => secretValues.measureOf(environmentIds, secretIds, ownerId),
    async (isLarge) => {
      const whole = () => secretValues.listOf(environmentIds, secretIds, ownerId)
      if (!isLarge) return whole()
      const before = await revisions()
      const rows: SealedValue[] = []
      for (const part of partsOf(secretIds, environmentIds.length, ownerId)) {
        for (const row of await secretValues.listOf(environmentIds, part, ownerId)) rows.push(row)
        await nextTurn()
      }
      return (await revisions()) === before ? rows : whole()
    },
  )
}

/** Splits the ids into batches of about `rowsPerPart` rows. */
export function* partsOf(secretIds: readonly string[], environments: number, ownerId: string): Generator<string[]> {
  const perPart = Math.max(1, Math.floor(rowsPerPart / maxRowsOf(environments, ownerId)))
  for (let from = 0; from < secretIds.length; from += perPart) yield secretIds.slice(from, from + perPart)
}

/** Rows per query when a large result is loaded in parts. */
const rowsPerPart = 128

/**
 * Like `loadProject`, without the values. Each value is still decrypted, in batches, and dropped: tampering must be
 * detected here too. A long list takes as long as reading the values, and needs a slot.
 */
export async function loadKeys(
  ctx: Context,
  access: ProjectAccess,
  environments: readonly PicturedEnvironment[],
  ownerId: string,
  part: string | undefined,
) {
  const { secretValues } = ctx.store
  const ids = environments.map(({ id }) => id)
  const advice = 'name fewer environments, or look for a part of the names (q)'
  const allowance = createAllowance(ctx, 'environmentId', advice)
  const { secrets, allNames } = await loadNames(ctx, access, allowance, part)
  const names = new Map(secrets.map(({ id, name }) => [id, name]))
  const values: OpenValue[] = []
  const allIds = [...names.keys()]
  const isOnePart = maxRowsOf(allIds.length * ids.length, ownerId) <= rowsPerPart
  const isLarge = async () => !isOnePart && (await secretValues.measureOf(ids, allIds, ownerId)) > largeBytes
  if (secrets.length > manySecrets || (await isLarge())) acquireLargeSlot(ctx)
  for (const secretIds of partsOf(allIds, ids.length, ownerId)) {
    const rows = await secretValues.listOf(ids, secretIds, ownerId)
    const opened = await openValues(ctx, access, rows, names)
    allowance.spend(opened.length * rowBytes)
    for (const row of opened) values.push({ ...row, value: '' })
    await nextTurn()
  }
  const reminders: ReminderRow[] = ids.length === 0 ? [] : await ctx.store.secretReminders.list(ids)
  return { secrets, allNames, values, reminders, advice }
}

async function loadNames(ctx: Context, access: ProjectAccess, allowance: Allowance, part: string | undefined) {
  const all = await ctx.store.secrets.list(access.project.id, access.picture.workspace.id)
  const folded = part?.toLowerCase()
  const secrets = folded === undefined ? all : all.filter(({ name }) => name.toLowerCase().includes(folded))
  let bytes = 0
  for (const { note } of secrets) bytes += rowBytes + note.length
  allowance.spend(bytes)
  return { secrets, allNames: () => all.map(({ name }) => name) }
}
