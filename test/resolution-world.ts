/** Values that refer to each other, without a database. */
import {
  findCycle,
  type LoadValues,
  type Locate,
  type Place,
  type PlacedValue,
  placeName,
} from '../server/src/domain/secret/reference/graph.ts'
import { type ResolveOptions, resolveValues } from '../server/src/domain/secret/reference/resolution.ts'
import { createLongWork } from '../server/src/long-work.ts'

/** Values by `environment/KEY`. A reference without an environment stays in its own; environments called `secret…` are inaccessible. */
export function createWorld(values: Readonly<Record<string, string>>) {
  const calls: (readonly Place[])[] = []
  const refused = new Set<string>()
  const locate: Locate = (from, reference) => {
    const place = { environmentId: reference.environment?.toLowerCase() ?? from, key: reference.key }
    if (!place.environmentId.startsWith('secret')) return place
    refused.add(placeName(place))
    return undefined
  }
  const load: LoadValues = async (places) => {
    calls.push(places)
    const names = places.map(placeName)
    return new Map(names.flatMap((name) => (values[name] === undefined ? [] : [[name, values[name]] as const])))
  }
  const { giveWay } = createLongWork()
  const root = (name: string): PlacedValue => {
    const [environmentId = '', key = ''] = name.split('/')
    return { environmentId, key, value: values[name] ?? '' }
  }
  const resolve = (names: readonly string[], options?: Partial<ResolveOptions>) =>
    resolveValues(names.map(root), { locate, load, giveWay, onUnresolved: 'keep', ...options })
  const cycle = async (names: readonly string[]) =>
    (await findCycle(names.map(root), { locate, load, giveWay }))?.map(placeName)
  return { calls, refused, resolve, cycle }
}

export async function resolveFirst(values: Readonly<Record<string, string>>, options?: Partial<ResolveOptions>) {
  const { results } = await createWorld(values).resolve(Object.keys(values).slice(0, 1), options)
  return results[0]
}

/** `dev/K0` refers to `dev/K1`, and so on up to `dev/K<length>`. */
export function createChain(length: number, link: (next: string) => string = (next) => next): Record<string, string> {
  const links = Array.from({ length }, (_, index) => [`dev/K${index}`, link(`\${K${index + 1}}`)])
  return Object.fromEntries([...links, [`dev/K${length}`, 'end']])
}
