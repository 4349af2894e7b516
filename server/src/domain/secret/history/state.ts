/** The values of an environment, now or after one of its revisions, for diffs, restores and promotions. */
import { Failure, invalid } from '../../../failure.ts'
import type { VersionRow } from '../../../store/secret/value.ts'
import type { ValuePlace } from '../../../store/secret/value-seal.ts'
import type { ProjectAccess } from '../../access/access.ts'
import type { SnapshotEnvironment } from '../../cache/workspace-snapshot.ts'
import type { Context } from '../../context.ts'
import { parseTime } from '../../time.ts'
import { requireReached } from '../choose-environment.ts'
import { listSecrets, loadValues, openValues, placeOf } from '../load.ts'
import { listWhole, waitIfLong } from '../long-list.ts'
import { type Allowance, createOpeningPause } from '../size.ts'

export type StateValue = {
  readonly value: string
  readonly version: number
  readonly secretId: string
  readonly authors: string
}
export type State = ReadonlyMap<string, StateValue>

/** Shared values of an environment after a revision, keyed by the names that they had then. */
export async function stateAt(
  ctx: Context,
  access: ProjectAccess,
  allowance: Allowance,
  environment: SnapshotEnvironment,
  revision: number | undefined,
): Promise<State> {
  if (revision === undefined) return stateNow(ctx, access, allowance, environment)
  const { secretVersions } = ctx.store
  const use = `versions ${environment.id}`
  await waitIfLong(ctx, access.snapshot, use)
  const rows = await allowance.load(
    Number.POSITIVE_INFINITY,
    () => secretVersions.measureAt(environment.id, revision),
    () => listWhole(ctx, access.snapshot, use, () => secretVersions.listAt(environment.id, revision)),
  )
  const renames = await secretVersions.listRenamesBetween(environment.id, 0, revision)
  const renamesOf = Map.groupBy(renames, ({ secretId }) => secretId)
  const state = new Map<string, StateValue>()
  const isPause = createOpeningPause()
  for (const row of rows) {
    const place = placeOf(access, environment, row.secretId)
    const renamed = renamesOf.get(row.secretId)?.findLast(({ revision: at }) => at > row.revision)
    const { version, secretId, authors } = row
    const value = await openVersion(ctx, access, place, row)
    state.set(renamed?.newName ?? row.name, { value, version, secretId, authors })
    if (isPause(row.sealed?.length ?? 0)) await ctx.longWork.giveWay()
  }
  return state
}

/** Current shared values of an environment; only those of `keys`, if given. */
export async function stateNow(
  ctx: Context,
  access: ProjectAccess,
  allowance: Allowance,
  environment: SnapshotEnvironment,
  keys?: readonly string[],
): Promise<State> {
  const { secrets } = ctx.store
  const { project } = access
  const records = keys ? await secrets.listByNames(project.id, keys) : await listSecrets(ctx, access)
  const names = new Map(records.map(({ id, name }) => [id, name]))
  const sealed = await loadValues(ctx, access, allowance, [environment.id], [...names.keys()], '')
  const values = await openValues(ctx, access, sealed, names)
  return new Map(
    values.map(({ secretId, value, version, authors }) => [
      names.get(secretId) ?? '',
      { value, version, secretId, authors },
    ]),
  )
}

/** An environment, `environment@revision` or `environment@timestamp`. */
export async function parseState(ctx: Context, access: ProjectAccess, field: string, text: string) {
  const at = text.indexOf('@')
  const environment = requireReached(access, at < 0 ? text : text.slice(0, at))
  if (at < 0) return { environment, revision: undefined }
  const point = text.slice(at + 1)
  const current = await ctx.store.secretValues.currentRevision(environment.id, access.snapshot.workspace.id)
  if (/^\d{1,9}$/.test(point)) {
    if (Number(point) > current) throw new Failure('notFound')
    return { environment, revision: Number(point) }
  }
  const moment = parseTime(point)
  if (Number.isNaN(moment)) {
    const forms = 'an environment, environment@revision or environment@timestamp (ISO 8601 with Z or an offset)'
    throw invalid(field, `must be ${forms}.`)
  }
  return { environment, revision: await ctx.store.secretVersions.revisionAt(environment.id, moment) }
}

export async function openVersion(
  ctx: Context,
  access: ProjectAccess,
  place: ValuePlace,
  row: VersionRow,
): Promise<string> {
  if (row.sealed === null) throw new Failure('notFound')
  const { version, sealed, authors } = row
  return ctx.store.secretValues.open(place, { version, sealed, authors }, access.snapshot.environmentKeys)
}
