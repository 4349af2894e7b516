/** Loads and decrypts values: responses, exports, references and comparisons are built from these rows. */
import type { ReminderRow } from '../../store/secret/reminder.ts'
import { rowBytes } from '../../store/secret/row-size.ts'
import type { SecretRecord } from '../../store/secret/secret.ts'
import type { SealedValue } from '../../store/secret/value.ts'
import type { ValuePlace } from '../../store/secret/value-seal.ts'
import type { ProjectAccess } from '../access/access.ts'
import type { SnapshotEnvironment } from '../cache/workspace-snapshot.ts'
import type { Context } from '../context.ts'
import { acquireLargeSlot } from '../slot.ts'
import { type Cell, toCells } from './cell.ts'
import { largeRowsPerQuery, listWhole, partsOf, rowsPerQuery } from './long-list.ts'
import { type Allowance, createAllowance, createOpeningPause, largeBytes, manySecrets } from './size.ts'

export type OpenValue = {
  readonly secretId: string
  readonly environmentId: string
  readonly isPersonal: boolean
  readonly version: number
  readonly updatedAt: number
  readonly value: string
  readonly authors: string
  /** Present if the value was loaded to be described, and is empty here. */
  readonly cell?: Cell
}

type Names = ReadonlyMap<string, string>

/** Decrypts rows of one project. Skips removed values, hidden personal values and secrets that are not in `names`. */
export async function openValues(
  ctx: Context,
  access: ProjectAccess,
  rows: readonly SealedValue[],
  names: Names,
): Promise<OpenValue[]> {
  const { snapshot, project } = access
  const opened: OpenValue[] = []
  const isPause = createOpeningPause()
  for (const row of rows) {
    if (row.sealed === null || !names.has(row.secretId) || isHidden(access, row)) continue
    const { secretId, environmentId, ownerId, version, updatedAt, sealed, authors } = row
    const place = { workspaceId: snapshot.workspace.id, projectId: project.id, environmentId, secretId, ownerId }
    const open = ctx.store.secretValues.open(place, { version, sealed, authors }, snapshot.environmentKeys)
    const value = typeof open === 'string' ? open : await open
    opened.push({ secretId, environmentId, isPersonal: ownerId !== '', version, updatedAt, value, authors })
    if (isPause(sealed.length)) await ctx.longWork.giveWay()
  }
  return opened
}

export function placeOf(access: ProjectAccess, environment: SnapshotEnvironment, secretId: string): ValuePlace {
  const workspaceId = access.snapshot.workspace.id
  return { workspaceId, projectId: access.project.id, environmentId: environment.id, secretId, ownerId: '' }
}

/** Switching personal values off hides them; it does not delete them. */
export function isHidden(access: ProjectAccess, row: Pick<SealedValue, 'ownerId' | 'environmentId'>): boolean {
  return row.ownerId !== '' && access.snapshot.environments.get(row.environmentId)?.hasPersonalOverrides !== true
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

const listAdvice = 'name fewer environments, search by name (q), list keys only (view=keys), or read secrets one by one'

/**
 * Loads the secrets, values and reminders of these environments. The number of queries is fixed unless the values are many or
 * large. With `part`, only secrets whose name contains it are loaded.
 */
export async function loadProject(
  ctx: Context,
  access: ProjectAccess,
  environments: readonly SnapshotEnvironment[],
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
  const rowsPerSecret = environmentIds.length
  const revisions = async () => {
    const { id } = access.snapshot.workspace
    return (await Promise.all(environmentIds.map((each) => secretValues.currentRevision(each, id)))).join()
  }
  return allowance.load(
    maxRowsOf(secretIds.length * rowsPerSecret, ownerId),
    () => measureParts(ctx, environmentIds, secretIds, ownerId),
    async (isLarge) => {
      const whole = () => secretValues.listOf(environmentIds, secretIds, ownerId)
      if (!isLarge && secretIds.length * rowsPerSecret <= rowsPerQuery) return whole()
      const before = await revisions()
      const rows: SealedValue[] = []
      for (const part of partsOf(secretIds, rowsPerSecret, isLarge ? largeRowsPerQuery : rowsPerQuery)) {
        await ctx.longWork.giveWay()
        for (const row of await secretValues.listOf(environmentIds, part, ownerId)) rows.push(row)
      }
      return (await revisions()) === before ? rows : whole()
    },
  )
}

async function measureParts(
  ctx: Context,
  environmentIds: readonly string[],
  secretIds: readonly string[],
  ownerId: string,
): Promise<number> {
  let bytes = 0
  for (const part of partsOf(secretIds, environmentIds.length, measuredRowsPerQuery)) {
    if (part !== secretIds) await ctx.longWork.giveWay()
    bytes += await ctx.store.secretValues.measureOf(environmentIds, part, ownerId)
  }
  return bytes
}

/** Memory that a reference takes beside its text. */
const referenceBytes = 64

/** Measuring a row takes a third of the time of reading it. */
const measuredRowsPerQuery = 3 * rowsPerQuery

/**
 * Like `loadProject`, without the values. Each value is still decrypted, in batches, and dropped: tampering must be
 * detected here too. With `hasCells`, it is described first. A long list takes as long as reading the values, and needs
 * a slot.
 */
export async function loadWithoutValues(
  ctx: Context,
  access: ProjectAccess,
  environments: readonly SnapshotEnvironment[],
  ownerId: string,
  { part, hasCells }: { part: string | undefined; hasCells: boolean },
) {
  const { secretValues } = ctx.store
  const ids = environments.map(({ id }) => id)
  const advice = 'name fewer environments, or search by name (q)'
  const allowance = createAllowance(ctx, 'environmentId', advice)
  const { secrets, allNames } = await loadNames(ctx, access, allowance, part)
  const names = new Map(secrets.map(({ id, name }) => [id, name]))
  const values: OpenValue[] = []
  const allIds = [...names.keys()]
  const rowsPerSecret = maxRowsOf(ids.length, ownerId)
  const isOnePart = allIds.length * rowsPerSecret <= largeRowsPerQuery
  const isLarge = async () => !isOnePart && (await measureParts(ctx, ids, allIds, ownerId)) > largeBytes
  if (secrets.length > manySecrets || (await isLarge())) acquireLargeSlot(ctx)
  for (const secretIds of partsOf(allIds, rowsPerSecret, largeRowsPerQuery)) {
    if (!isOnePart) await ctx.longWork.giveWay()
    const rows = await secretValues.listOf(ids, secretIds, ownerId)
    const opened = await openValues(ctx, access, rows, names)
    allowance.spend(opened.length * rowBytes)
    for (const row of hasCells ? await toCells(opened, ctx.longWork.giveWay) : opened) {
      for (const reference of row.cell?.references ?? []) allowance.spend(reference.length + referenceBytes)
      values.push({ ...row, value: '' })
    }
  }
  const reminders: ReminderRow[] = ids.length === 0 ? [] : await ctx.store.secretReminders.list(ids)
  return { secrets, allNames, values, reminders, advice }
}

export function listSecrets(ctx: Context, { project, snapshot }: ProjectAccess): Promise<SecretRecord[]> {
  const list = () => ctx.store.secrets.list(project.id, snapshot.workspace.id)
  return listWhole(ctx, snapshot, `secrets ${project.id}`, list)
}

async function loadNames(ctx: Context, access: ProjectAccess, allowance: Allowance, part: string | undefined) {
  const all = await listSecrets(ctx, access)
  const folded = part?.toLowerCase()
  const secrets = folded === undefined ? all : all.filter(({ name }) => name.toLowerCase().includes(folded))
  let bytes = 0
  for (const { note } of secrets) bytes += rowBytes + note.length
  allowance.spend(bytes)
  return { secrets, allNames: () => all.map(({ name }) => name) }
}
