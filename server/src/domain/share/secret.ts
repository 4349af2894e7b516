/**
 * Copies secrets into a share: shared values only, with references resolved by the rights of the share's creator and of
 * the values' authors.
 */
import type { NewShare } from '@coffer/contract/share'
import { Failure, invalid } from '../../failure.ts'
import type { SealedValue } from '../../store/secret/value.ts'
import type { ProjectAccess } from '../access/access.ts'
import type { Context } from '../context.ts'
import { openValues, valueKey } from '../secret/load.ts'
import { createDelegatedReferences } from '../secret/reference/delegated.ts'
import { namePlaces, resolveRows } from '../secret/reference/follow.ts'
import { requireWritable } from '../secret/right.ts'

export type CopiedSecrets = {
  /** In the requested order. */
  readonly secrets: { name: string; value: string }[]
  /** The requested environments, and those that references led to. */
  readonly environmentIds: readonly string[]
  /** Names for the audit trail. */
  readonly keys: readonly string[]
  readonly environments: readonly string[]
  readonly referenced: readonly string[]
}

/** Personal values are never copied into a share: the reader would take them for the shared values. */
const nobody = ''

export async function copySecrets(
  ctx: Context,
  access: ProjectAccess,
  wanted: NonNullable<NewShare['secrets']>,
): Promise<CopiedSecrets> {
  const places = wanted.map(({ id, environmentId }) => {
    const environment = requireWritable(access, environmentId)
    return { secretId: id.toLowerCase(), environmentId: environment.id, environment }
  })
  if (new Set(places.map(valueKey)).size < places.length) throw invalid('secrets', 'names the same value twice.')
  const environments = [...new Set(places.map(({ environment }) => environment))]
  const environmentIds = environments.map(({ id }) => id)
  const secretIds = [...new Set(places.map(({ secretId }) => secretId))]
  const records = await ctx.store.secrets.listByIds(access.project.id, secretIds)
  const names = new Map(records.map(({ id, name }) => [id, name]))
  const rows = await openValues(ctx, access, await loadWanted(ctx, places), names)
  // Unresolved references are usually meant for another program, such as a shell, and stay as they are.
  const guard = createDelegatedReferences(ctx, access)
  const resolution = await resolveRows(ctx, access, rows, names, { ownerId: nobody, onUnresolved: 'keep', guard })
  const { byRow, referenced } = resolution
  const rowOf = new Map(rows.map((row) => [valueKey(row), row]))
  const secrets = places.map((place) => {
    const row = rowOf.get(valueKey(place))
    const resolved = row && byRow.get(row)
    const name = names.get(place.secretId)
    if (!resolved || name === undefined) throw new Failure('notFound')
    return { name, value: resolved.value }
  })
  const environmentNames = environments.map(({ name }) => name)
  const keys = [...new Set(secrets.map(({ name }) => name))]
  return {
    secrets,
    environmentIds: [...new Set([...environmentIds, ...resolution.environmentIds])],
    keys,
    environments: environmentNames,
    referenced: namePlaces(access, referenced),
  }
}

/** One query per environment: a single query would load every secret in every environment, far more than requested. */
async function loadWanted(
  ctx: Context,
  places: readonly { readonly secretId: string; readonly environmentId: string }[],
): Promise<SealedValue[]> {
  const rows: SealedValue[] = []
  for (const [environmentId, wanted] of Map.groupBy(places, (place) => place.environmentId)) {
    const secretIds = wanted.map(({ secretId }) => secretId)
    rows.push(...(await ctx.store.secretValues.listOf([environmentId], secretIds, nobody)))
  }
  return rows
}
