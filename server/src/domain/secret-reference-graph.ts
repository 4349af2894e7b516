import { nextTurn } from '../turns.ts'
import { parseReferences, type Reference, writeReferenceName } from './secret-reference.ts'

/**
 * Which value refers to which. It is loaded hop by hop for all values at once, so that the number of queries follows the depth of
 * the references and never their number; everything after the loading happens in memory.
 */

/** One place whose value may be asked for. */
export type Place = { readonly environmentId: string; readonly key: string }
export type PlacedValue = Place & { readonly value: string }

/** Where a reference leads that stands in this value of the environment `from`; undefined if that does not exist or may not be reached. */
export type Locate = (from: string, reference: Reference, key: string) => Place | undefined

/** Values, keyed by `placeName`, of those places that exist and that the caller may read. Asked once per hop, never twice for one place. */
export type LoadValues = (places: readonly Place[]) => Promise<ReadonlyMap<string, string>>

export type GraphOptions = { readonly locate: Locate; readonly load: LoadValues; readonly maxDepth?: number }

/** A reference as it stands in one value; the same one written twice is one link with a count of two. */
export type Link = {
  readonly name: string
  readonly place?: Place
  readonly placeName?: string
  count: number
  /** Set once all is loaded, and only if the value exists, is in reach, and is not too deep to be loaded. */
  target?: ValueNode
}

export type ValueNode = {
  readonly place: Place
  readonly name: string
  readonly pieces: readonly (string | Link)[]
  readonly links: readonly Link[]
}

export type ReferenceGraph = {
  readonly roots: readonly ValueNode[]
  /** By place name. A place has several nodes only if it was given as a root several times; references see the first. */
  readonly nodes: ReadonlyMap<string, readonly [ValueNode, ...ValueNode[]]>
  /** What the graph depends on, missing values included. */
  readonly places: ReadonlySet<string>
  readonly environments: ReadonlySet<string>
}

export const defaultMaxDepth = 16

/** Says when it is time to let others have the event loop, in a walk over values that may be full of references. */
export function createBreak(): (node: ValueNode) => boolean {
  const maxPieces = 50_000
  let pieces = 0
  return (node) => {
    pieces += node.pieces.length
    if (pieces < maxPieces) return false
    pieces = 0
    return true
  }
}

/** Keys cannot hold a slash, so two places never share a name. */
export function placeName(place: Place): string {
  return `${place.environmentId}/${place.key}`
}

export async function loadReferenceGraph(
  roots: readonly PlacedValue[],
  options: GraphOptions,
): Promise<ReferenceGraph> {
  const { locate, load, maxDepth = defaultMaxDepth } = options
  const nodes = new Map<string, [ValueNode, ...ValueNode[]]>()
  const places = new Set<string>()
  const environments = new Set<string>()
  function addNode(place: Place, value: string): ValueNode {
    const node = readNode(place, value, locate)
    const variants = nodes.get(node.name)
    if (variants) variants.push(node)
    else nodes.set(node.name, [node])
    return node
  }
  function consult(place: Place): void {
    places.add(placeName(place))
    environments.add(place.environmentId)
  }

  const isBreak = createBreak()
  const rootNodes: ValueNode[] = []
  for (const { environmentId, key, value } of roots) {
    const root = addNode({ environmentId, key }, value)
    rootNodes.push(root)
    if (isBreak(root)) await nextTurn()
  }
  for (const root of rootNodes) consult(root.place)

  let frontier = rootNodes
  for (let hop = 1; hop <= maxDepth; hop += 1) {
    const wanted = new Map<string, Place>()
    for (const link of frontier.flatMap((node) => node.links)) {
      if (link.place && link.placeName && !places.has(link.placeName)) wanted.set(link.placeName, link.place)
    }
    if (wanted.size === 0) break
    const values = await load([...wanted.values()])
    frontier = []
    for (const [name, place] of wanted) {
      consult(place)
      const value = values.get(name)
      if (value === undefined) continue
      const node = addNode(place, value)
      frontier.push(node)
      if (isBreak(node)) await nextTurn()
    }
  }
  for (const link of nodes.values().flatMap((variants) => variants.flatMap((node) => node.links))) {
    const target = link.placeName === undefined ? undefined : nodes.get(link.placeName)?.[0]
    if (target) link.target = target
  }
  return { roots: rootNodes, nodes, places, environments }
}

function readNode(place: Place, value: string, locate: Locate): ValueNode {
  const links = new Map<string, Link>()
  const pieces = parseReferences(value).map((piece) => {
    if (typeof piece === 'string') return piece
    const name = writeReferenceName(piece)
    const known = links.get(name)
    if (known) {
      known.count += 1
      return known
    }
    const found = locate(place.environmentId, piece, place.key)
    const link: Link = found ? { name, place: found, placeName: placeName(found), count: 1 } : { name, count: 1 }
    links.set(name, link)
    return link
  })
  return { place, name: placeName(place), pieces, links: [...links.values()] }
}

function* successors(graph: ReferenceGraph, name: string): Generator<string, undefined> {
  for (const node of graph.nodes.get(name) ?? []) {
    for (const { target } of node.links) if (target) yield target.name
  }
}

/**
 * Numbers the places so that two share a number only if each reaches the other: a cycle never leaves its number.
 * This is Gabow's path-based search, with its own stack because a chain of references may be longer than the engine's.
 */
export function numberComponents(graph: ReferenceGraph): ReadonlyMap<string, number> {
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

  for (const [start, variants] of graph.nodes) {
    // Most values refer to nothing: they need no number of their own unless something refers to them.
    if (!order.has(start) && variants.some((node) => node.links.length > 0)) enter(start)
    for (let frame = frames.at(-1); frame; frame = frames.at(-1)) {
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
 * The places of one cycle through a given value, in the order of reference, however long it is. One that the given values only
 * lead to was there before them, and is not theirs.
 */
export async function findCycle(
  roots: readonly PlacedValue[],
  options: Omit<GraphOptions, 'maxDepth'>,
): Promise<readonly Place[] | undefined> {
  const graph = await loadReferenceGraph(roots, { ...options, maxDepth: Number.POSITIVE_INFINITY })
  const components = numberComponents(graph)
  for (const { name: start } of graph.roots) {
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
