import { Failure } from '../failure.ts'
import type { ProjectAccess } from './access.ts'
import type { WriteContext } from './context.ts'
import { referenceOptions } from './secret-read.ts'
import { hasReferences } from './secret-reference.ts'
import { findCycle, type Place, type PlacedValue, placeName } from './secret-reference-graph.ts'

/** Values that would lead back to themselves, as this owner sees them (nobody's: only what is shared), are refused. */
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
  const cycle = await findCycle(roots, {
    locate: options.locate,
    // What this very request writes counts as written, and what it removes as gone.
    load: async (places) => {
      const stored = await options.load(places)
      const values = new Map(stored)
      for (const place of removed) values.delete(placeName(place))
      for (const name of places.map(placeName)) {
        const value = byPlace.get(name)
        if (value !== undefined) values.set(name, value)
      }
      return values
    },
  })
  if (cycle) {
    throw new Failure('conflict', `This would refer back to itself: ${cycle.map(({ key }) => key).join(' → ')}.`)
  }
}
