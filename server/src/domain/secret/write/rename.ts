import { Failure } from '../../../failure.ts'
import type { SecretRecord } from '../../../store/secret/secret.ts'
import type { ProjectAccess } from '../../access/access.ts'
import { withStoredEnvironments } from '../../access/stored-environment.ts'
import { recordTogether } from '../../audit/record.ts'
import type { WriteContext } from '../../context.ts'
import { isId } from '../../id.ts'
import { openValues } from '../load.ts'
import { largeRowsPerQuery, partsOf } from '../long-list.ts'
import { refuseCycles } from '../reference/cycle.ts'
import { announceEverywhere } from './announce.ts'
import type { WriteOptions } from './write.ts'

/** `key` is the current name or the id, `to` the new name. */
type Rename = { readonly key: string; readonly to: string }
type Renamed = { readonly secret: SecretRecord; readonly to: string }

/**
 * Renames secrets in order, as one revision of every environment where one of them has a value. A new name can close a
 * reference cycle: call `refuseRenamedCycles` after all other changes of the request.
 */
export async function renameSecrets(
  ctx: WriteContext,
  stale: ProjectAccess,
  renames: readonly Rename[],
  { revisions, message = '' }: Pick<WriteOptions, 'revisions' | 'message'>,
): Promise<readonly Renamed[]> {
  if (renames.length === 0) return []
  const access = await withStoredEnvironments(ctx, stale)
  const { snapshot, project } = access
  const workspaceId = snapshot.workspace.id
  const steps = await planRenames(ctx, access, renames)
  const at = revisions.at
  // A request may rename a secret several times: only its name before the first and after the last rename count.
  const firsts = new Map(steps.toReversed().map(({ secret }) => [secret.id, secret]))
  const lasts = new Map(steps.map(({ secret, to }) => [secret.id, { ...secret, name: to, updatedAt: at }]))
  await saveNames(ctx, [...firsts.values()], [...lasts.values()])
  const environmentIds = project.environments.map(({ id }) => id)
  const places = await ctx.store.secretValues.listPlacesOf(environmentIds, [...lasts.keys()], [''])
  for (const id of new Set(places.map(({ environmentId }) => environmentId))) await revisions.take(id, 0)
  await ctx.store.secretValues.insertRenames(
    places.map(({ environmentId, secretId }) => ({
      environmentId,
      secretId,
      revision: revisions.of(environmentId),
      workspaceId,
      oldName: firsts.get(secretId)?.name ?? '',
      newName: lasts.get(secretId)?.name ?? '',
      createdAt: at,
      createdBy: ctx.actor.name,
      message,
    })),
  )
  const placesOf = Map.groupBy(places, ({ secretId }) => secretId)
  const events = steps.map(({ secret, to }) => {
    const environmentIds = (placesOf.get(secret.id) ?? []).map(({ environmentId }) => environmentId)
    const entity = { type: 'secret', id: secret.id, name: to }
    const names = { before: { name: secret.name }, after: { name: to } }
    return { chain: workspaceId, action: 'UPDATE', entity, projectId: project.id, environmentIds, ...names } as const
  })
  recordTogether(ctx, events)
  await announceEverywhere(ctx, access)
  return steps
}

/** Checks each rename against the names that the renames before it leave. */
async function planRenames(
  ctx: WriteContext,
  { project }: ProjectAccess,
  renames: readonly Rename[],
): Promise<readonly Renamed[]> {
  const { secrets } = ctx.store
  const keys = renames.map(({ key }) => key)
  const ids = keys.filter(isId).map((id) => id.toLowerCase())
  const names = [...keys.filter((key) => !isId(key)), ...renames.map(({ to }) => to)]
  const found = [
    ...(await secrets.listByNames(project.id, [...new Set(names)])),
    ...(ids.length === 0 ? [] : await secrets.listByIds(project.id, ids)),
  ]
  const byId = new Map(found.map((secret) => [secret.id, secret]))
  const byName = new Map(found.map((secret) => [secret.name, secret]))
  return renames.map(({ key, to }) => {
    const secret = isId(key) ? byId.get(key.toLowerCase()) : byName.get(key)
    if (!secret) throw new Failure('notFound', `There is no secret ${key} to rename.`)
    if (byName.has(to)) throw new Failure('conflict', `These already exist: ${to}.`)
    const renamed = { ...secret, name: to }
    byName.delete(secret.name)
    byName.set(to, renamed)
    byId.set(secret.id, renamed)
    return { secret, to }
  })
}

/** Names must be unique at every moment: secrets that exchange names first get their ids, which no name can equal. */
async function saveNames(
  { store }: WriteContext,
  before: readonly SecretRecord[],
  after: readonly SecretRecord[],
): Promise<void> {
  const old = new Set(before.map(({ name }) => name))
  if (after.some(({ name }) => old.has(name))) {
    await store.secrets.updateMany(after.map((secret) => ({ ...secret, name: secret.id })))
  }
  await store.secrets.updateMany(after)
}

/** Refuses reference cycles through new names. Runs after the request's writes: replaced values no longer count. */
export async function refuseRenamedCycles(
  ctx: WriteContext,
  stale: ProjectAccess,
  namesById: ReadonlyMap<string, string>,
): Promise<void> {
  if (namesById.size === 0) return
  const access = await withStoredEnvironments(ctx, stale)
  const environmentIds = access.project.environments.map(({ id }) => id)
  // Loaded in batches, so that the values of many secrets are never in memory together.
  for (const ids of partsOf([...namesById.keys()], environmentIds.length, largeRowsPerQuery)) {
    const rows = await ctx.store.secretValues.listOf(environmentIds, ids, '')
    const values = await openValues(ctx, access, rows, namesById)
    const written = values.map(({ environmentId, secretId, value }) => {
      return { environmentId, key: namesById.get(secretId) ?? '', value }
    })
    await refuseCycles(ctx, access, written, [], '')
    await ctx.longWork.giveWay()
  }
}
