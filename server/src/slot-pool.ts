/** Slots for costly work: a few run at a time, a bounded number waits, shared fairly between those who ask. */
import { Failure } from './failure.ts'
import { createFairQueue, type Parties } from './fair-queue.ts'

/** Held while the costly work runs. Functions that must not run without one ask for it by type. */
export type Slot = { release(): void }

export type SlotPool = {
  /** A slot that is free right now, with nobody ahead. */
  tryAcquire(parties: Parties): Slot | undefined
  /** Waits for a slot. Rejects with `overloaded` when the queue is full, and with `unavailable` after `patienceMs`. */
  acquire(parties: Parties): Promise<Slot>
  readonly waiting: number
  readonly isIdle: boolean
}

type Limits = {
  readonly running: number
  readonly waiting?: number
  /** Slots that one party may hold at a time, be it a workspace or a person. */
  readonly runningPerParty?: number
  readonly patienceMs?: number
}

type Waiter = { readonly parties: Parties; grant(slot: Slot): void; refuse(failure: Failure): void }

export function createSlotPool({ running, waiting = Number.POSITIVE_INFINITY, ...limits }: Limits): SlotPool {
  const { runningPerParty = running, patienceMs } = limits
  const queue = createFairQueue<Waiter>(waiting)
  const heldBy = new Map<string, number>()
  let free = running

  const isBelowShare = (party: string) => (heldBy.get(party) ?? 0) < runningPerParty

  function count(parties: Parties, change: 1 | -1): void {
    free -= change
    for (const party of new Set(parties)) {
      const held = (heldBy.get(party) ?? 0) + change
      if (held > 0) heldBy.set(party, held)
      else heldBy.delete(party)
    }
  }

  function hold(parties: Parties): Slot {
    count(parties, 1)
    let isHeld = true
    return {
      release() {
        if (!isHeld) return
        isHeld = false
        count(parties, -1)
        handOver()
      },
    }
  }

  /** Handed over at once, so that nobody who comes in between takes the slot. */
  function handOver(): void {
    while (free > 0) {
      const next = queue.take(isBelowShare)
      if (!next) return
      next.grant(hold(next.parties))
    }
  }

  function tryAcquire(parties: Parties): Slot | undefined {
    // Those who still wait while a slot is free hold their share already: nobody is overtaken.
    return free > 0 && parties.every(isBelowShare) ? hold(parties) : undefined
  }

  async function wait(parties: Parties): Promise<Slot> {
    const { promise, resolve, reject } = Promise.withResolvers<Slot>()
    const waiter = { parties, grant: resolve, refuse: reject }
    queue.add(parties, waiter)?.refuse(new Failure('overloaded'))
    if (patienceMs === undefined) return promise
    const giveUp = () => queue.remove(parties, waiter) && reject(new Failure('unavailable'))
    const timer = setTimeout(giveUp, patienceMs)
    return promise.finally(() => clearTimeout(timer))
  }

  return {
    tryAcquire,
    acquire: async (parties) => tryAcquire(parties) ?? wait(parties),
    get waiting() {
      return queue.size
    },
    get isIdle() {
      return free === running && queue.size === 0
    },
  }
}

/** A pool of its own for each key, kept while somebody holds one of its slots or waits for one. */
export function createKeyedSlots(limits: Limits): (key: string, parties: Parties) => Promise<Slot> {
  const pools = new Map<string, SlotPool>()
  return async (key, parties) => {
    const pool = pools.get(key) ?? createSlotPool(limits)
    pools.set(key, pool)
    const slot = await pool.acquire(parties)
    return {
      release() {
        slot.release()
        if (pool.isIdle && pools.get(key) === pool) pools.delete(key)
      },
    }
  }
}
