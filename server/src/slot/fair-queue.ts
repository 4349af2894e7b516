/**
 * A queue that no party can fill for the others. Every entry names its parties from the widest to the narrowest, such as
 * workspace and person. Parties of one level are served round-robin; a full queue drops the newest entry of the largest
 * party, be it a workspace, or a person who waits in many.
 */
export type Parties = readonly string[]

type FairQueue<Entry> = {
  /** Sum of the sizes of all entries. */
  readonly size: number
  /** Returns the entries that a full queue drops: those of another party, or the new one itself. */
  add(parties: Parties, entry: Entry, size?: number): readonly Entry[]
  /** Removes and returns the next eligible entry. Of each party, only the oldest entry is looked at. */
  take(isEligible?: (entry: Entry) => boolean): Entry | undefined
  remove(entry: Entry): boolean
}

type Waiting<Entry> = { readonly entry: Entry; readonly parties: Parties; readonly size: number }

/** The parties are in the order in which they are served. */
type Party<Entry> = { readonly entries: Set<Entry>; readonly parties: Map<string, Party<Entry>> }

const newParty = <Entry>(): Party<Entry> => ({ entries: new Set(), parties: new Map() })

export function createFairQueue<Entry>(maxSize: number): FairQueue<Entry> {
  const everybody = newParty<Entry>()
  /** The newest last. */
  const waiting = new Map<Entry, Waiting<Entry>>()
  let total = 0

  function remove(entry: Entry, isServed = false): boolean {
    const found = waiting.get(entry)
    if (!found) return false
    waiting.delete(entry)
    total -= found.size
    removeFrom(everybody, found.parties, entry, isServed)
    return true
  }

  return {
    get size() {
      return total
    },
    add(parties, entry, size = 1) {
      waiting.set(entry, { entry, parties, size })
      total += size
      addTo(everybody, parties, entry)
      const dropped: Entry[] = []
      while (total > maxSize) {
        const newest = newestOfLargest([...waiting.values()].reverse())
        if (newest === undefined) break
        remove(newest)
        dropped.push(newest)
      }
      return dropped
    },
    take(isEligible = () => true) {
      const entry = nextOf(everybody, isEligible)
      if (entry !== undefined) remove(entry, true)
      return entry
    },
    remove: (entry) => remove(entry),
  }
}

function addTo<Entry>(party: Party<Entry>, [name, ...narrower]: Parties, entry: Entry): void {
  if (name === undefined) {
    party.entries.add(entry)
    return
  }
  const inner = party.parties.get(name) ?? newParty<Entry>()
  party.parties.set(name, inner)
  addTo(inner, narrower, entry)
}

function nextOf<Entry>(party: Party<Entry>, isEligible: (entry: Entry) => boolean): Entry | undefined {
  for (const inner of party.parties.values()) {
    const entry = nextOf(inner, isEligible)
    if (entry !== undefined) return entry
  }
  const [oldest] = party.entries
  return oldest !== undefined && isEligible(oldest) ? oldest : undefined
}

/** A party that was served goes behind the others. */
function removeFrom<Entry>(party: Party<Entry>, [name, ...narrower]: Parties, entry: Entry, isServed: boolean): void {
  const inner = name === undefined ? undefined : party.parties.get(name)
  if (name === undefined || !inner) {
    party.entries.delete(entry)
    return
  }
  removeFrom(inner, narrower, entry, isServed)
  const isEmpty = inner.entries.size + inner.parties.size === 0
  if (isEmpty || isServed) party.parties.delete(name)
  if (!isEmpty && isServed) party.parties.set(name, inner)
}

/** The newest entry of the largest party, and within it of the largest narrower one. The newcomer loses a tie. */
function newestOfLargest<Entry>(newestFirst: readonly Waiting<Entry>[]): Entry | undefined {
  const groups = new Map<string, Set<Waiting<Entry>>>()
  for (const one of newestFirst) {
    for (const party of one.parties) groups.set(party, (groups.get(party) ?? new Set()).add(one))
  }
  let [largest, most] = [new Set<Waiting<Entry>>(), 0]
  for (const group of groups.values()) {
    const sum = group.values().reduce((sum, { size }) => sum + size, 0)
    // A party that all of them have in common tells nothing.
    if (sum > most && group.size < newestFirst.length) [largest, most] = [group, sum]
  }
  return largest.size > 0 ? newestOfLargest([...largest]) : newestFirst[0]?.entry
}
