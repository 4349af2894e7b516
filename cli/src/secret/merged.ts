/** Reads what the `sources` of .coffer.json give together, under the names that `coffer run` sets. */
import type { Api, Secret, SecretQuery } from '@coffer/sdk'
import { connect } from '../connect.ts'
import type { Context } from '../context.ts'
import { usageError } from '../error.ts'
import { readSettings } from '../place/place.ts'
import { mergedSources, mergeSources, type NamedSource } from '../source/source.ts'
import { explainMissing, missingSecrets, type Project } from './project.ts'

/** Undefined if no sources count here. */
export function findMerged(ctx: Context): readonly NamedSource[] | undefined {
  const sources = mergedSources(readSettings(ctx))
  if (!sources?.some(({ environment }) => environment.includes(','))) return sources
  throw usageError('Name one environment.', '--environment NAME, or a --project too')
}

const projectOf = (api: Api, { workspace, project }: NamedSource): Project => ({
  api,
  path: { ws: workspace, prj: project },
})

/** A secret under its name after merging. */
export type MergedSecret = Secret & { readonly source: string }

type ListOptions = { readonly filter: string | undefined; readonly hasValues: boolean }

export async function listMerged(
  ctx: Context,
  sources: readonly NamedSource[],
  { filter, hasValues }: ListOptions,
): Promise<MergedSecret[]> {
  const api = connect(ctx)
  const readOne = async (source: NamedSource) => {
    const project = projectOf(api, source)
    const secrets = await explainMissing(project, { environments: [source.environment] }, () =>
      api.secret.list(project.path, {
        environmentId: source.environment,
        ...(hasValues ? { view: 'full', resolve: true } : { view: 'keys' }),
        // A prefix may be a part of what the name contains.
        ...(filter !== undefined && source.prefix === '' && { q: filter }),
      }),
    )
    return { source, values: Object.fromEntries(secrets.map((secret) => [secret.name, secret])) }
  }
  const merged = mergeSources(await Promise.all(sources.map(readOne)))
  return sorted(merged)
    .filter(([name]) => filter === undefined || name.toLowerCase().includes(filter.toLowerCase()))
    .map(([name, { value, from }]) => ({ ...value, name, source: from }))
}

const sorted = <Value>(merged: ReadonlyMap<string, Value>): [string, Value][] =>
  [...merged].sort(([one], [other]) => (one < other ? -1 : 1))

/** The origin of a name: the source, and the key there. */
type Origin = { readonly source: NamedSource; readonly key: string }

/** No value is read. Throws if no source has a name. */
async function findOrigins(
  ctx: Context,
  sources: readonly NamedSource[],
  names: readonly string[],
): Promise<(Origin & { readonly name: string })[]> {
  const api = connect(ctx)
  const readOne = async (source: NamedSource) => {
    const project = projectOf(api, source)
    const secrets = await explainMissing(project, { environments: [source.environment] }, () =>
      api.secret.list(project.path, { environmentId: source.environment, view: 'keys' }),
    )
    return { source, values: Object.fromEntries(secrets.map(({ name }) => [name, { source, key: name }])) }
  }
  const merged = mergeSources<Origin>(await Promise.all(sources.map(readOne)))
  const labels = sources.map(({ label }) => label)
  const missing = names.filter((name) => !merged.has(name))
  if (missing.length > 0) throw missingSecrets(missing, labels)
  return names.flatMap((name) => {
    const found = merged.get(name)
    return found ? [{ ...found.value, name }] : []
  })
}

/** Reads each of them from its source alone, so that only these reads are recorded. */
export async function readMerged(
  ctx: Context,
  sources: readonly NamedSource[],
  names: readonly string[],
  query: Omit<SecretQuery, 'environmentId'>,
): Promise<MergedSecret[]> {
  const api = connect(ctx)
  const found: MergedSecret[] = []
  for (const { name, key, source } of await findOrigins(ctx, sources, names)) {
    const project = projectOf(api, source)
    const asked = { environments: [source.environment], key }
    const secret = await explainMissing(project, asked, () =>
      api.secret.read({ ...project.path, key }, { ...query, environmentId: source.environment }),
    )
    found.push({ ...secret, name, source: source.label })
  }
  return found
}

type ReadValues = (
  project: Project,
  environment: string,
  /** Undefined for all. */
  keys: readonly string[] | undefined,
) => Promise<Readonly<Record<string, string>>>

/** The values of these names, or of all. `read` is called for each source that gives one of them. */
export async function mergeValues(
  ctx: Context,
  sources: readonly NamedSource[],
  only: readonly string[] | undefined,
  read: ReadValues,
): Promise<[name: string, value: string][]> {
  const api = connect(ctx)
  const origins = only && Map.groupBy(await findOrigins(ctx, sources, [...new Set(only)]), ({ source }) => source)
  const wanted = origins
    ? [...origins].map(([source, found]) => ({ source, keys: found.map(({ key }) => key) }))
    : sources.map((source) => ({ source, keys: undefined }))
  const reads = await Promise.all(
    wanted.map(async ({ source, keys }) => ({
      source,
      values: await read(projectOf(api, source), source.environment, keys),
    })),
  )
  return sorted(mergeSources(reads)).map(([name, { value }]) => [name, value])
}
