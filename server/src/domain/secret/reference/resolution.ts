import {
  type GraphOptions,
  type Link,
  loadReferenceGraph,
  numberComponents,
  type Place,
  type PlacedValue,
  type ValueNode,
} from './graph.ts'
import { createReferencePause, defaultMaxDepth, maxLinks } from './limit.ts'
import { parsePieces, readReference, surveyReferences, writeReferenceName } from './reference.ts'

/**
 * Replaces references with values. Every value is measured before it is written. Measuring shares work between values,
 * so a few bytes that would expand to gigabytes are detected by arithmetic. Writing costs no more than its output.
 */

/** `error` writes the same text as `keep`: the caller checks `unresolved` and refuses. */
export type OnUnresolved = 'keep' | 'empty' | 'error'

/** `unresolved` lists the text between `${` and `}`, without duplicates, in order of appearance. */
export type Resolved = { readonly value: string; readonly unresolved: readonly string[] }

/** An unresolved reference, and the value that contains it. */
export type Gap = {
  readonly name: string
  readonly at: Place
  /** The reference in the root value that leads to the gap, and all places on the way, starting with the root. */
  readonly through: string
  readonly way: readonly Place[]
}

export type ResolveOptions = GraphOptions & {
  readonly onUnresolved: OnUnresolved
  /** Called for every unresolved reference in a root value, and at least once for each other unresolved name. */
  readonly onGap?: ((root: Place, gap: Gap) => void) | undefined
  /** Called with all loaded values before any is resolved. */
  readonly prune?: ((nodes: readonly ValueNode[]) => Promise<void>) | undefined
  /** Maximum size of one resolved value. If a value would exceed it, all of its references stay unresolved. */
  readonly maxBytes?: number
  /** Maximum growth of all values of one call together. Values that would exceed it stay unresolved. */
  readonly maxGrowthBytes?: number
}

export type Resolution = {
  readonly results: readonly Resolved[]
  /** Places that the results depend on, missing ones included. References that `locate` refused have no place. */
  readonly visited: { readonly places: ReadonlySet<string>; readonly environments: ReadonlySet<string> }
}

const mebibyte = 2 ** 20

// Values beyond the reference limit are not resolved, and naming all of their references would make a huge response.
// After `maxLinks` names in total, each further value lists only this many.
const minNames = 10

// The size of a cycle depends on where it is entered, and a tangle of cycles has exponentially many paths. A tangle
// that takes more link visits than this counts as too large. The limit per value keeps one tangle from affecting other
// values; the limit per call keeps many of them from adding up.
const maxLooksPerEntry = 2 ** 14
const maxLooksPerCall = 2 ** 20

export async function resolveValues(roots: readonly PlacedValue[], options: ResolveOptions): Promise<Resolution> {
  const { maxDepth = defaultMaxDepth, maxBytes = mebibyte, maxGrowthBytes = 32 * mebibyte } = options
  const graph = await loadReferenceGraph(roots, options)
  await options.prune?.([...graph.nodes.values()].flat())
  const measure = createMeasure(await numberComponents(graph, options.giveWay))
  let growthLeft = maxGrowthBytes
  let namesLeft = options.maxLinks ?? maxLinks

  const isPause = createReferencePause()
  const results: Resolved[] = []
  for (const [index, { value, environmentId, key }] of roots.entries()) {
    const root = graph.roots[index]
    if (!root) {
      const left = leaveValue(value, options.onUnresolved, Math.max(namesLeft, minNames))
      const place = { environmentId, key }
      for (const name of left.unresolved) options.onGap?.(place, { name, at: place, through: name, way: [place] })
      results.push(left)
      namesLeft -= left.unresolved.length
      if (isPause(value.length)) await options.giveWay()
      continue
    }
    if (root.links.length === 0) {
      results.push(writeValue(root, 0, options))
      continue
    }
    const bytes = measure(root, maxDepth)
    const growth = Math.max(0, bytes - measure(root, 0))
    const fits = bytes <= maxBytes && growth <= growthLeft
    if (fits) growthLeft -= growth
    results.push(writeValue(root, fits ? maxDepth : 0, options))
    if (isPause(value.length + (fits ? growth : 0))) await options.giveWay()
  }
  const visited = { places: graph.places, environments: graph.environments }
  return { results, visited }
}

/**
 * Measures the UTF-8 bytes of a resolved value as if unresolved references were kept, so that the limit does not depend
 * on `onUnresolved`. Each followed reference adds one, so that the size bounds the work even if all values are empty.
 */
function createMeasure(components: ReadonlyMap<string, number>): (node: ValueNode, hopsLeft: number) => number {
  const ownSizes = new Map<ValueNode, number>()
  const sizes = new Map<ValueNode, Map<number, number>>()
  let callLooksLeft = maxLooksPerCall

  function literalBytes(node: ValueNode): number {
    const known = ownSizes.get(node)
    if (known !== undefined) return known
    const bytes = node.pieces.reduce(
      (sum, piece) => sum + (typeof piece === 'string' ? Buffer.byteLength(piece) : 0),
      0,
    )
    ownSizes.set(node, bytes)
    return bytes
  }

  // Call only for a node whose component is not on the path: its size then depends only on the hops left and is cached.
  function measureEntry(entry: ValueNode, entryHopsLeft: number): number {
    const known = sizes.get(entry)?.get(entryHopsLeft)
    if (known !== undefined) return known
    const component = components.get(entry.name)
    const path = new Set<string>()
    let looksLeft = maxLooksPerEntry

    function measureLink(link: Link, hopsLeft: number): number {
      const { target } = link
      if (target === undefined || hopsLeft === 0 || path.has(target.name)) return writeLink(link).length
      if (components.get(target.name) !== component) return 1 + measureEntry(target, hopsLeft - 1)
      looksLeft -= target.links.length
      callLooksLeft -= target.links.length
      if (looksLeft < 0 || callLooksLeft < 0) return Number.POSITIVE_INFINITY
      return 1 + measureNode(target, hopsLeft - 1)
    }
    function measureNode(node: ValueNode, hopsLeft: number): number {
      path.add(node.name)
      let bytes = literalBytes(node)
      for (const link of node.links) {
        bytes += link.count * measureLink(link, hopsLeft)
        if (bytes === Number.POSITIVE_INFINITY) break
      }
      path.delete(node.name)
      return bytes
    }

    const bytes = measureNode(entry, entryHopsLeft)
    const entrySizes = sizes.get(entry) ?? new Map<number, number>()
    sizes.set(entry, entrySizes.set(entryHopsLeft, bytes))
    return bytes
  }
  return measureEntry
}

function writeValue(root: ValueNode, maxDepth: number, { onUnresolved, onGap }: ResolveOptions): Resolved {
  const written: string[] = []
  const unresolved = new Set<string>()
  const path = new Map<string, Place>()

  function writeNode(node: ValueNode, hopsLeft: number, through?: Link): void {
    path.set(node.name, node.place)
    for (const piece of node.pieces) {
      if (typeof piece === 'string') written.push(piece)
      else followLink(node, piece, hopsLeft, through ?? piece)
    }
    path.delete(node.name)
  }
  function followLink(from: ValueNode, link: Link, hopsLeft: number, through: Link): void {
    const { target } = link
    if (target && hopsLeft > 0 && !path.has(target.name)) {
      writeNode(target, hopsLeft - 1, through)
      return
    }
    if (onGap && (from === root || !unresolved.has(link.name))) {
      onGap(root.place, { name: link.name, at: from.place, through: through.name, way: [...path.values()] })
    }
    unresolved.add(link.name)
    if (onUnresolved !== 'empty') written.push(writeLink(link))
  }

  writeNode(root, maxDepth)
  return { value: written.join(''), unresolved: [...unresolved] }
}

/** For values beyond the reference limit: all references stay unresolved, and at most `maxNames` are listed. */
function leaveValue(value: string, onUnresolved: OnUnresolved, maxNames: number): Resolved {
  const unresolved = surveyReferences(value, maxNames).references.map(writeReferenceName)
  // References contain no `$`, so no escape can begin inside one.
  if (onUnresolved !== 'empty') return { value: value.replaceAll('$${', () => '${'), unresolved }
  const kept = parsePieces(value, (name) => (readReference(name) ? '' : undefined))
  return { value: kept.join(''), unresolved }
}

function writeLink(link: Link): string {
  return `\${${link.name}}`
}
