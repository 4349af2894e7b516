import { Failure } from '../../../failure.ts'
import type { ProjectAccess } from '../../access/access.ts'
import type { WriteContext } from '../../context.ts'
import { type ReferenceOptions, referenceOptions } from './follow.ts'
import { findCycle, type LoadValues, type Place, type PlacedValue, placeName } from './graph.ts'
import { defaultMaxDepth } from './limit.ts'
import { hasReferences } from './reference.ts'

/** Refuses values that would refer back to themselves, as this owner sees them. Owner '' sees shared values only. */
export async function refuseCycles(
  ctx: WriteContext,
  access: ProjectAccess,
  written: readonly PlacedValue[],
  removed: readonly Place[],
  ownerId: string,
): Promise<void> {
  const roots = written.filter(({ value }) => hasReferences(value))
  if (roots.length === 0) return
  const options = referenceOptions(ctx, access, ownerId)
  const byPlace = new Map(written.map((place) => [placeName(place), place.value]))
  const gone = new Set(removed.map(placeName))
  const load = loadInFewQueries(options)
  const cycle = await findCycle(roots, {
    locate: options.locate,
    giveWay: ctx.longWork.giveWay,
    // Writes and removals of this request count as done.
    load: async (places) => {
      const values = new Map(await load(places))
      for (const name of places.map(placeName)) {
        const value = byPlace.get(name)
        if (value !== undefined) values.set(name, value)
        else if (gone.has(name)) values.delete(name)
      }
      return values
    },
  })
  if (cycle) {
    const shown = cycle.slice(0, 20).map(({ key }) => key)
    const round = [...shown, ...(cycle.length > shown.length ? ['…'] : [])].join(' → ')
    throw new Failure('conflict', `This would create a reference cycle: ${round}.`)
  }
}

/** Loads whole environments once a chain exceeds the depth of any read: long chains must not cost a query per hop. */
function loadInFewQueries({ load, loadEnvironments }: ReferenceOptions): LoadValues {
  const whole = new Map<string, string>()
  const loaded = new Set<string>()
  let hops = 0
  return async (places) => {
    hops += 1
    if (hops <= defaultMaxDepth) return load(places)
    const missing = new Set(places.map(({ environmentId }) => environmentId)).difference(loaded)
    if (missing.size > 0) for (const [name, value] of await loadEnvironments([...missing])) whole.set(name, value)
    for (const id of missing) loaded.add(id)
    const names = places.map(placeName)
    return new Map(names.flatMap((name) => (whole.has(name) ? [[name, whole.get(name) ?? '']] : [])))
  }
}
