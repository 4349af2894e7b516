import type { GiveWay } from '../../../long-work.ts'
import { createReferencePause, defaultMaxDepth, maxLinks, maxMentions, tooManyReferences } from './limit.ts'
import { parsePieces, type Reference, readReference } from './reference.ts'

/**
 * The graph of values and their references. Each hop is loaded for all values at once, so the number of queries depends
 * on the depth of the references, not on their number. Everything after loading happens in memory.
 */

/** Address of a value. */
export type Place = { readonly environmentId: string; readonly key: string }
export type PlacedValue = Place & { readonly value: string }

/** Target of a reference in the value `key` of environment `from`; undefined if it is missing or out of reach. */
export type Locate = (from: string, reference: Reference, key: string) => Place | undefined

/**
 * Loads values that exist and that the caller may read, keyed by `placeName`. Called once per hop, never twice for the
 * same place.
 */
export type LoadValues = (places: readonly Place[]) => Promise<ReadonlyMap<string, string>>

export type GraphOptions = {
  readonly locate: Locate
  readonly load: LoadValues
  readonly giveWay: GiveWay
  readonly maxDepth?: number
  /** Maximum number of links over all values. Beyond it, values with references are left out. */
  readonly maxLinks?: number
}

/** A reference in one value. The same reference written twice is one link with a count of two. */
export type Link = {
  readonly name: string
  readonly place?: Place
  readonly placeName?: string
  count: number
  /** Set after loading, and only if the value exists, is in reach, and is within the maximum depth. */
  target?: ValueNode
}

export type ValueNode = {
  readonly place: Place
  readonly name: string
  readonly pieces: readonly (string | Link)[]
  readonly links: readonly Link[]
}

type ReferenceGraph = {
  /** In the order of the given values; undefined for values that were left out. */
  readonly roots: readonly (ValueNode | undefined)[]
  /** True if no given or loaded value was left out. */
  readonly isWhole: boolean
  /** Keyed by `placeName`. A place has several nodes only if it was given as a root repeatedly; links use the first. */
  readonly nodes: ReadonlyMap<string, readonly [ValueNode, ...ValueNode[]]>
  /** Places that the graph depends on, including those without a value. */
  readonly places: ReadonlySet<string>
  readonly environments: ReadonlySet<string>
}

/** Keys cannot contain a slash, so two places never share a name. */
export function placeName(place: Place): string {
  return `${place.environmentId}/${place.key}`
}

export async function loadReferenceGraph(
  roots: readonly PlacedValue[],
  options: GraphOptions,
): Promise<ReferenceGraph> {
  const { locate, load, giveWay, maxDepth = defaultMaxDepth } = options
  const nodes = new Map<string, [ValueNode, ...ValueNode[]]>()
  const places = new Set<string>()
  const environments = new Set<string>()
  let linksLeft = options.maxLinks ?? maxLinks
  let mentionsLeft = maxMentions
  const isFull = () => linksLeft < 0 || mentionsLeft < 0
  let isWhole = true

  /** Undefined once there are too many references: from then on, only values without references are added. */
  function addNode(place: Place, name: string, value: string): ValueNode | undefined {
    const isPlain = !value.includes('${')
    const node = isPlain
      ? { place, name, pieces: [value], links: [] }
      : isFull()
        ? undefined
        : readNode(place, name, value)
    if (!node) return undefined
    const variants = nodes.get(name)
    if (variants) variants.push(node)
    else nodes.set(name, [node])
    return node
  }
  function readNode(place: Place, name: string, value: string): ValueNode | undefined {
    const links = new Map<string, Link>()
    const pieces = parsePieces(value, (name) => {
      const known = links.get(name)
      if (known) {
        known.count += 1
        return known
      }
      const reference = readReference(name)
      if (!reference) return undefined
      const found = locate(place.environmentId, reference, place.key)
      const link: Link = found ? { name, place: found, placeName: placeName(found), count: 1 } : { name, count: 1 }
      links.set(name, link)
      return link
    })
    linksLeft -= links.size
    mentionsLeft -= pieces.length
    return isFull() ? undefined : { place, name, pieces, links: [...links.values()] }
  }
  function consult(place: Place, name: string): void {
    places.add(name)
    environments.add(place.environmentId)
  }

  const isPause = createReferencePause()
  const rootNodes: (ValueNode | undefined)[] = []
  for (const { environmentId, key, value } of roots) {
    const place = { environmentId, key }
    const name = placeName(place)
    const root = addNode(place, name, value)
    consult(place, name)
    rootNodes.push(root)
    isWhole &&= root !== undefined
    if (isPause(root?.links.length === 0 ? 0 : value.length)) await giveWay()
  }

  let frontier = rootNodes.filter((node) => node !== undefined)
  for (let hop = 1; hop <= maxDepth; hop += 1) {
    const wanted = new Map<string, Place>()
    for (const { links } of frontier) {
      for (const { place, placeName } of links) {
        if (place && placeName && !places.has(placeName)) wanted.set(placeName, place)
      }
      if (isPause(links.length)) await giveWay()
    }
    if (wanted.size === 0) break
    const values = await load([...wanted.values()])
    frontier = []
    for (const [name, place] of wanted) {
      consult(place, name)
      const value = values.get(name)
      if (value === undefined) continue
      const node = addNode(place, name, value)
      if (node && node.links.length > 0) frontier.push(node)
      isWhole &&= node !== undefined
      if (isPause(node?.links.length === 0 ? 0 : value.length)) await giveWay()
    }
  }
  for (const { links } of nodes.values().flatMap((variants) => variants.filter((node) => node.links.length > 0))) {
    for (const link of links) {
      const target = link.placeName === undefined ? undefined : nodes.get(link.placeName)?.[0]
      if (target) link.target = target
    }
    if (isPause(links.length)) await giveWay()
  }
  return { roots: rootNodes, nodes, places, environments, isWhole }
}

/** Skips values without references: no cycle can go through them. */
function* successors({ nodes }: ReferenceGraph, name: string): Generator<string, undefined> {
  for (const node of nodes.get(name) ?? []) {
    for (const { target } of node.links) {
      if (target && (target.links.length > 0 || (nodes.get(target.name)?.length ?? 0) > 1)) yield target.name
    }
  }
}

/**
 * Numbers the strongly connected components: two places share a number only if each reaches the other. Places without
 * references may have no number.
 * Gabow's path-based algorithm, with an explicit stack because a chain of references may be longer than the call stack.
 */
export async function numberComponents(graph: ReferenceGraph, giveWay: GiveWay): Promise<ReadonlyMap<string, number>> {
  const components = new Map<string, number>()
  const order = new Map<string, number>()
  const unassigned: string[] = []
  const boundaries: { readonly name: string; readonly order: number }[] = []
  const frames: { readonly name: string; readonly successors: Iterator<string, undefined> }[] = []
  function enter(name: string): void {
    frames.push({ name, successors: successors(graph, name) })
    boundaries.push({ name, order: order.size })
    order.set(name, order.size)
    unassigned.push(name)
  }
  function leave(name: string, position: number): void {
    if (boundaries.at(-1)?.name !== name) return
    boundaries.pop()
    for (const member of unassigned.splice(unassigned.lastIndexOf(name))) components.set(member, position)
  }

  const isPause = createReferencePause()
  for (const [start, variants] of graph.nodes) {
    // Most values have no references, and need no number of their own.
    if (!order.has(start) && variants.some((node) => node.links.length > 0)) enter(start)
    for (let frame = frames.at(-1); frame; frame = frames.at(-1)) {
      if (isPause(0)) await giveWay()
      const next = frame.successors.next().value
      const position = order.get(next ?? frame.name)
      if (next === undefined) {
        frames.pop()
        leave(frame.name, position ?? 0)
      } else if (position === undefined) {
        enter(next)
      } else if (!components.has(next)) {
        while ((boundaries.at(-1)?.order ?? 0) > position) boundaries.pop()
      }
    }
  }
  return components
}

/**
 * The places of one cycle through a given value, in reference order and of any length. A cycle that the given values
 * only lead to existed before and is not reported.
 */
export async function findCycle(
  roots: readonly PlacedValue[],
  options: Omit<GraphOptions, 'maxDepth'>,
): Promise<readonly Place[] | undefined> {
  const { giveWay } = options
  const graph = await loadReferenceGraph(roots, { ...options, maxDepth: Number.POSITIVE_INFINITY })
  if (!graph.isWhole) throw tooManyReferences('write fewer at once, or reference fewer')
  const components = await numberComponents(graph, giveWay)
  const isPause = createReferencePause()
  for (const start of graph.roots.flatMap((root) => (root && root.links.length > 0 ? [root.name] : []))) {
    if (isPause(graph.nodes.get(start)?.[0].links.length ?? 0)) await giveWay()
    const component = components.get(start)
    const onCycle = successors(graph, start).some((next) => components.get(next) === component)
    if (onCycle) return shortestCycle(graph, components, start)
  }
  return undefined
}

function shortestCycle(graph: ReferenceGraph, components: ReadonlyMap<string, number>, start: string): Place[] {
  const cameFrom = new Map<string, string>()
  const queue = [start]
  for (const name of queue) {
    for (const next of successors(graph, name)) {
      if (next === start) return tracePlaces(graph, cameFrom, name)
      if (cameFrom.has(next) || components.get(next) !== components.get(start)) continue
      cameFrom.set(next, name)
      queue.push(next)
    }
  }
  return []
}

function tracePlaces(graph: ReferenceGraph, cameFrom: ReadonlyMap<string, string>, last: string): Place[] {
  const places: Place[] = []
  for (let name: string | undefined = last; name !== undefined; name = cameFrom.get(name)) {
    places.push(...(graph.nodes.get(name) ?? []).slice(0, 1).map((node) => node.place))
  }
  return places.reverse()
}
