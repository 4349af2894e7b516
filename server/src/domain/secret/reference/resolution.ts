import { nextTurn } from '../../../event-loop.ts'
import {
  defaultMaxDepth,
  type GraphOptions,
  type Link,
  loadReferenceGraph,
  numberComponents,
  type Place,
  type PlacedValue,
  type ValueNode,
} from './graph.ts'
import { createReferencePause, maxLinks } from './limit.ts'
import { parsePieces, readReference, surveyReferences, writeReferenceName } from './reference.ts'

/**
 * Replaces references by values. Every value is measured before it is written: measuring shares its work between values, so that
 * a few bytes which would unfold into gigabytes are found out by arithmetic, and writing costs no more than what it writes.
 */

/** `error` writes what `keep` writes: the caller sees from `unresolved` that it must refuse. */
export type OnUnresolved = 'keep' | 'empty' | 'error'

/** `unresolved` holds what stood between `${` and `}`, each once, in the order of appearance. */
export type Resolved = { readonly value: string; readonly unresolved: readonly string[] }

/** An unresolved reference, and where it stands. */
export type Gap = {
  readonly name: string
  readonly at: Place
  /** The reference in the value itself that leads there, and all places on the way, the value itself first. */
  readonly through: string
  readonly way: readonly Place[]
}

export type ResolveOptions = GraphOptions & {
  readonly onUnresolved: OnUnresolved
  /** Told of what stays unresolved in a value: of what stands in it, and of each other name once at least. */
  readonly onGap?: ((root: Place, gap: Gap) => void) | undefined
  /** Told of all values before any is resolved. */
  readonly prune?: ((nodes: readonly ValueNode[]) => Promise<void>) | undefined
  /** Size of one resolved value; beyond it, the value's own references are all left unresolved. */
  readonly maxBytes?: number
  /** By how much all values of one call may grow together; beyond it, further ones are left unresolved. */
  readonly maxGrowthBytes?: number
}

export type Resolution = {
  readonly results: readonly Resolved[]
  /** What the results depend on, missing places included. What `locate` refused has no place and is not here. */
  readonly visited: { readonly places: ReadonlySet<string>; readonly environments: ReadonlySet<string> }
}

const mebibyte = 2 ** 20

// Where there are more references than are looked at, naming them all would be an answer of names: as many are named as are
// looked at, and then of each value a few.
const minNames = 10

// A cycle's size depends on where one enters it, and a tangle of cycles has exponentially many ways through. A tangle that takes
// more looks at links than this counts as too large: per value, so that one spoils no other; per call, so that many do not add up.
const maxLooksPerEntry = 2 ** 14
const maxLooksPerCall = 2 ** 20

export async function resolveValues(roots: readonly PlacedValue[], options: ResolveOptions): Promise<Resolution> {
  const { maxDepth = defaultMaxDepth, maxBytes = mebibyte, maxGrowthBytes = 32 * mebibyte } = options
  const graph = await loadReferenceGraph(roots, options)
  await options.prune?.([...graph.nodes.values()].flat())
  const measure = createMeasure(await numberComponents(graph))
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
      if (isPause(value.length)) await nextTurn()
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
    if (isPause(value.length + (fits ? growth : 0))) await nextTurn()
  }
  const visited = { places: graph.places, environments: graph.environments }
  return { results, visited }
}

/**
 * Measures the UTF-8 bytes of a resolved value with its unresolved references kept, whatever is later done to those, so that
 * the limit does not depend on it. Each reference followed counts one more, so that the size bounds the work even if all is empty.
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

  // Only for a node whose component is not on the path yet: its size then depends on nothing but the hops left, and may be kept.
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

/** What is beyond the limit of references: all of its own are left unresolved, and only so many named. */
function leaveValue(value: string, onUnresolved: OnUnresolved, maxNames: number): Resolved {
  const unresolved = surveyReferences(value, maxNames).references.map(writeReferenceName)
  // No reference holds a dollar, so that none can hold the beginning of an escape.
  if (onUnresolved !== 'empty') return { value: value.replaceAll('$${', () => '${'), unresolved }
  const kept = parsePieces(value, (name) => (readReference(name) ? '' : undefined))
  return { value: kept.join(''), unresolved }
}

function writeLink(link: Link): string {
  return `\${${link.name}}`
}
