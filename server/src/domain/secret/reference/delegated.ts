/**
 * References in values that a sync or a share hands on. A reference is followed if the creator of the sync or share may
 * read everything it leads to, and if the authors of each value in the chain may read everything after it. Also records
 * where references led and where they were stopped.
 */
import type { GiveWay } from '../../../long-work.ts'
import type { ProjectAccess } from '../../access/access.ts'
import type { Context } from '../../context.ts'
import { createAuthorRights } from './author.ts'
import type { Guard } from './follow.ts'
import { type Link, type Place, placeName, type ValueNode } from './graph.ts'
import { createReferencePause } from './limit.ts'
import { writeReferenceName } from './reference.ts'
import type { Gap } from './resolution.ts'

export type DelegatedReferences = Guard & {
  /** Everything that these values refer to, directly or indirectly, without duplicates. */
  reachedFrom(places: readonly Place[]): Place[]
  /** First unresolved reference of a value: one in the value itself if any, otherwise one in the values behind it. */
  findGap(root: Place): Gap | undefined
  /** For a reference that its authors may not follow: the places on its way, ending with the one out of reach. */
  findStop(gap: Gap): readonly Place[] | undefined
}

export function createDelegatedReferences(ctx: Context, access: ProjectAccess): DelegatedReferences {
  const authorRights = createAuthorRights(ctx, access)
  const authorsByPlace = new Map<string, string>()
  const next = new Map<string, Place[]>()
  const gaps = new Map<string, Gap>()
  /** Stopped references: the place each one names, and the environment that is out of its authors' reach. */
  const stops = new Map<string, { readonly to: Place; readonly environmentId: string }>()

  function reachedFrom(places: readonly Place[]): Place[] {
    const reached = new Map<string, Place>()
    const names = new Set(places.map(placeName))
    // The set grows during the loop, which also visits the added names.
    for (const name of names) {
      for (const place of next.get(name) ?? []) {
        reached.set(placeName(place), place)
        names.add(placeName(place))
      }
    }
    return [...reached.values()]
  }

  return {
    async load(values) {
      for (const { place, authors } of values) if (authors !== '') authorsByPlace.set(placeName(place), authors)
      await authorRights.load(values.map(({ authors }) => authors))
    },

    allows(from, reference, to) {
      const name = placeName(from)
      const authors = authorsByPlace.get(name) ?? ''
      if (to.environmentId !== from.environmentId && !authorRights.mayRead(authors, to.environmentId, true)) {
        stops.set(stopName(from, writeReferenceName(reference)), { to, environmentId: to.environmentId })
        return false
      }
      const places = next.get(name)
      if (places) places.push(to)
      else next.set(name, [to])
      return true
    },

    async prune(nodes) {
      const ledTo = await listLedTo(nodes, ctx.longWork.giveWay)
      const stopped: Link[] = []
      for (const node of nodes) {
        const authors = authorsByPlace.get(node.name) ?? ''
        if (authors === '') continue
        const named = new Set(node.links.map(({ target }) => target?.place.environmentId))
        const isOutOfReach = (id: string) =>
          id !== node.place.environmentId && !authorRights.mayRead(authors, id, named.has(id))
        for (const link of node.links) {
          const environmentId = link.target && ledTo.get(link.target)?.values().find(isOutOfReach)
          if (!link.target || environmentId === undefined) continue
          stops.set(stopName(node.place, link.name), { to: link.target.place, environmentId })
          stopped.push(link)
        }
      }
      // Links are cut after the loop, so that every node is checked against the whole graph.
      for (const link of stopped) delete link.target
    },

    reachedFrom,

    miss(root, gap) {
      const name = placeName(root)
      const known = gaps.get(name)
      if (!known || (isWithin(root, gap) && !isWithin(root, known))) gaps.set(name, gap)
    },

    findGap: (root) => (gaps.size === 0 ? undefined : gaps.get(placeName(root))),
    findStop(gap) {
      const stop = stops.get(stopName(gap.at, gap.name))
      return stop && wayTo(stop.to, stop.environmentId)
    },
  }

  function wayTo(first: Place, environmentId: string): Place[] {
    const cameFrom = new Map<string, Place | undefined>([[placeName(first), undefined]])
    const queue = [first]
    for (const place of queue) {
      if (place.environmentId === environmentId) return traceBack(place, cameFrom)
      for (const to of next.get(placeName(place)) ?? []) {
        if (cameFrom.has(placeName(to))) continue
        cameFrom.set(placeName(to), place)
        queue.push(to)
      }
    }
    return [first]
  }
}

function traceBack(last: Place, cameFrom: ReadonlyMap<string, Place | undefined>): Place[] {
  const way = [last]
  for (let place = cameFrom.get(placeName(last)); place; place = cameFrom.get(placeName(place))) way.unshift(place)
  return way
}

/** Environments that each value leads to, over any number of hops. Cycles are harmless: a set grows only so often. */
async function listLedTo(
  nodes: readonly ValueNode[],
  giveWay: GiveWay,
): Promise<ReadonlyMap<ValueNode, ReadonlySet<string>>> {
  const ledTo = new Map<ValueNode, Set<string>>(nodes.map((node) => [node, new Set()]))
  const referring = new Map<ValueNode, ValueNode[]>()
  const isPause = createReferencePause()
  for (const node of nodes) {
    for (const { target } of node.links) {
      if (!target) continue
      ledTo.get(node)?.add(target.place.environmentId)
      const known = referring.get(target)
      if (known) known.push(node)
      else referring.set(target, [node])
    }
    if (isPause(node.links.length)) await giveWay()
  }
  const queue = new Set(nodes.filter(({ links }) => links.length > 0))
  for (const node of queue) {
    queue.delete(node)
    const added = ledTo.get(node) ?? new Set()
    for (const before of referring.get(node) ?? []) {
      const known = ledTo.get(before)
      if (!known || added.isSubsetOf(known)) continue
      for (const id of added) known.add(id)
      queue.add(before)
    }
    if (isPause(referring.get(node)?.length ?? 0)) await giveWay()
  }
  return ledTo
}

/** True if the gap is in the value itself, not in a value that it leads to. */
export const isWithin = ({ environmentId, key }: Place, { at }: Gap): boolean =>
  at.environmentId === environmentId && at.key === key

/** Neither part can contain a `$`, so two stops never share a name. */
const stopName = (at: Place, reference: string) => `${placeName(at)}$${reference}`
