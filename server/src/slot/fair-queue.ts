/**
 * A queue that no party can fill for the others. Every entry names its parties from the widest to the narrowest, such as
 * workspace and person. Parties of one level are served round-robin; a full queue drops the newest entry of the largest party,
 * or of a person who waits in many workspaces.
 */
export type Parties = readonly string[]

type FairQueue<Entry> = {
  readonly size: number
  /** Adds an entry. Returns the entry dropped from a full queue: another party's, or the new one itself. */
  add(parties: Parties, entry: Entry): Entry | undefined
  /** Removes and returns the next entry, passing over parties that are not eligible, wide or narrow. */
  take(isEligible?: (party: string) => boolean): Entry | undefined
  remove(parties: Parties, entry: Entry): boolean
}

type Level<Entry> = {
  size: number
  readonly entries: Set<Entry>
  /** In the order in which they are served. */
  readonly parties: Map<string, Level<Entry>>
}

const newLevel = <Entry>(): Level<Entry> => ({ size: 0, entries: new Set(), parties: new Map() })

export function createFairQueue<Entry>(maxSize: number): FairQueue<Entry> {
  const root = newLevel<Entry>()
  /** All entries, the newest last. */
  const waiting = new Map<Entry, Parties>()

  function remove(parties: Parties, entry: Entry): boolean {
    if (!removeFrom(root, parties, entry)) return false
    waiting.delete(entry)
    return true
  }

  /** For a newcomer to a full queue; undefined where nobody has to leave for it. */
  function dropOne(parties: Parties): Entry | undefined {
    const crowded = findCrowded(root, parties)
    const dropped = crowded ? newestOf(root, crowded) : newestOfGreediest(waiting, parties)
    if (dropped !== undefined) remove(waiting.get(dropped) ?? [], dropped)
    return dropped
  }

  return {
    get size() {
      return root.size
    },
    add(parties, entry) {
      let dropped: Entry | undefined
      if (root.size >= maxSize) {
        dropped = dropOne(parties)
        if (dropped === undefined) return entry
      }
      insert(root, parties, entry)
      waiting.set(entry, parties)
      return dropped
    },
    take(isEligible) {
      const entry = takeNext(root, isEligible)
      if (entry !== undefined) waiting.delete(entry)
      return entry
    },
    remove,
  }
}

function insert<Entry>(level: Level<Entry>, [party, ...narrower]: Parties, entry: Entry): void {
  level.size++
  if (party === undefined) {
    level.entries.add(entry)
    return
  }
  const inner = level.parties.get(party) ?? newLevel<Entry>()
  level.parties.set(party, inner)
  insert(inner, narrower, entry)
}

function takeNext<Entry>(level: Level<Entry>, isEligible?: (party: string) => boolean): Entry | undefined {
  const [first] = level.entries
  if (first !== undefined) {
    level.entries.delete(first)
    level.size--
    return first
  }
  for (const [party, inner] of level.parties) {
    if (isEligible && !isEligible(party)) continue
    const entry = takeNext(inner, isEligible)
    if (entry === undefined) continue
    level.size--
    level.parties.delete(party)
    // Re-inserted at the end, so that all other parties are served first.
    if (inner.size > 0) level.parties.set(party, inner)
    return entry
  }
  return undefined
}

function removeFrom<Entry>(level: Level<Entry>, [party, ...narrower]: Parties, entry: Entry): boolean {
  const inner = party === undefined ? undefined : level.parties.get(party)
  const isRemoved = party === undefined ? level.entries.delete(entry) : inner && removeFrom(inner, narrower, entry)
  if (!isRemoved) return false
  level.size--
  if (party !== undefined && inner?.size === 0) level.parties.delete(party)
  return true
}

/**
 * Returns the path to a party that holds more than the newcomer would, or undefined if the newcomer itself holds the
 * most.
 */
function findCrowded<Entry>(level: Level<Entry>, [party, ...narrower]: Parties): Parties | undefined {
  if (party === undefined) return undefined
  const own = level.parties.get(party)
  const largest = largestOf(level)
  if (largest && largest.party !== party && largest.inner.size > (own?.size ?? 0) + 1) return [largest.party]
  const deeper = own && findCrowded(own, narrower)
  return deeper && [party, ...deeper]
}

function newestOf<Entry>(level: Level<Entry>, [party, ...narrower]: Parties): Entry | undefined {
  const name = party ?? largestOf(level)?.party
  if (name === undefined) return [...level.entries].at(-1)
  const inner = level.parties.get(name)
  return inner && newestOf(inner, narrower)
}

/** The same for the narrowest parties, whatever wider ones they wait in. */
function newestOfGreediest<Entry>(waiting: ReadonlyMap<Entry, Parties>, newcomer: Parties): Entry | undefined {
  const entries = Map.groupBy(waiting.keys(), (entry) => waiting.get(entry)?.at(-1))
  const own = entries.get(newcomer.at(-1))?.length ?? 0
  const most = [...entries.values()].reduce((a, b) => (b.length > a.length ? b : a), [])
  return most.length > own + 1 ? most.at(-1) : undefined
}

function largestOf<Entry>(level: Level<Entry>): { party: string; inner: Level<Entry> } | undefined {
  let largest: { party: string; inner: Level<Entry> } | undefined
  for (const [party, inner] of level.parties) if (inner.size > (largest?.inner.size ?? 0)) largest = { party, inner }
  return largest
}
