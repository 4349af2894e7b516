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
import type { Gap } from './secret-reference-resolution.ts'

export type Trail = Guard & {
  /** What these values refer to, and what that refers to, each once. */
  reachedFrom(places: readonly Place[]): Place[]
  /** What stayed unresolved in a value: the first of its own references, or else the first of those that they lead to. */
  findGap(root: Place): Gap | undefined
  /** Where a reference would lead that whoever wrote it may not follow. */
  findStop(gap: Gap): Place | undefined
}

export function createTrail(ctx: Context, access: ProjectAccess): Trail {
  const judge = createJudge(ctx, access)
  const authorsByPlace = new Map<string, string>()
  const next = new Map<string, Place[]>()
  const gaps = new Map<string, Gap>()
  const stops = new Map<string, Place>()

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
        stops.set(stopName(from, writeReferenceName(reference)), to)
        return false
      }
      const places = next.get(name)
      if (places) places.push(to)
      else next.set(name, [to])
      return true
    },

    reachedFrom,

    miss(root, gap) {
      const name = placeName(root)
      const known = gaps.get(name)
      if (!known || (isWithin(root, gap) && !isWithin(root, known))) gaps.set(name, gap)
    },

    findGap: (root) => gaps.get(placeName(root)),
    findStop: (gap) => stops.get(stopName(gap.at, gap.name)),
  }
}

/** It stands in the value itself, and not only in what that leads to. */
export const isWithin = ({ environmentId, key }: Place, { at }: Gap): boolean =>
  at.environmentId === environmentId && at.key === key

/** Neither part of it can hold a `$`. */
const stopName = (at: Place, reference: string) => `${placeName(at)}$${reference}`
