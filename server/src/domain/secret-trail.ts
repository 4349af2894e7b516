/**
 * References in what is handed on: a push, a share. They lead where the person in whose name it goes may read, and whoever
 * wrote them too; what they led to, and where they were stopped, is known afterwards.
 */
import type { ProjectAccess } from './access.ts'
import type { Context } from './context.ts'
import { createJudge } from './secret-author.ts'
import type { Guard } from './secret-read.ts'
import { writeReferenceName } from './secret-reference.ts'
import { type Place, placeName } from './secret-reference-graph.ts'

/** A reference that whoever wrote it may not follow. */
export type Stop = { readonly at: Place; readonly reference: string }

export type Trail = Guard & {
  /** What these values refer to, and what that refers to, each once. */
  reachedFrom(places: readonly Place[]): Place[]
  findStop(place: Place): Stop | undefined
}

export function createTrail(ctx: Context, access: ProjectAccess): Trail {
  const judge = createJudge(ctx, access)
  const authorsByPlace = new Map<string, string>()
  const next = new Map<string, Place[]>()
  const stops = new Map<string, Stop>()

  function reachedFrom(places: readonly Place[]): Place[] {
    const reached = new Map<string, Place>()
    const names = new Set(places.map(placeName))
    // It grows while it is walked over.
    for (const name of names) {
      for (const place of next.get(name) ?? []) {
        reached.set(placeName(place), place)
        names.add(placeName(place))
      }
    }
    return [...reached.values()]
  }

  return {
    async meet(values) {
      for (const { place, authors } of values) if (authors !== '') authorsByPlace.set(placeName(place), authors)
      await judge.meet(values.map(({ authors }) => authors))
    },

    allows(from, reference, to) {
      const name = placeName(from)
      const authors = authorsByPlace.get(name) ?? ''
      if (to.environmentId !== from.environmentId && !judge.mayRead(authors, to.environmentId)) {
        if (!stops.has(name)) stops.set(name, { at: from, reference: writeReferenceName(reference) })
        return false
      }
      const places = next.get(name)
      if (places) places.push(to)
      else next.set(name, [to])
      return true
    },

    reachedFrom,

    findStop(place) {
      for (const candidate of [place, ...reachedFrom([place])]) {
        const stop = stops.get(placeName(candidate))
        if (stop) return stop
      }
      return undefined
    },
  }
}
