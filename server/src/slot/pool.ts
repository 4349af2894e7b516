/** Slots for expensive work: a few run at a time, a bounded number waits, and callers share them fairly. */
import { Failure } from '../failure.ts'
import { createFairQueue, type Parties } from './fair-queue.ts'

/** Held while expensive work runs. A function that must not run without a slot takes one as a parameter. */
export type Slot = { release(): void }

export type SlotPool = {
  /** Returns a free slot, or undefined if the caller would have to wait. */
  tryAcquire(parties: Parties): Slot | undefined
  /** Waits for a slot. Rejects with `overloaded` when the queue is full, and with `unavailable` after `maxWaitMs`. */
  acquire(parties: Parties): Promise<Slot>
  readonly waiting: number
  readonly isIdle: boolean
}

type Limits = {
  readonly running: number
  readonly waiting?: number
  /** Slots that one party may hold at a time, be it a workspace or a person. */
  readonly runningPerParty?: number
  readonly maxWaitMs?: number
}

type Waiter = { readonly parties: Parties; grant(slot: Slot): void; refuse(failure: Failure): void }

export function createSlotPool({ running, waiting = Number.POSITIVE_INFINITY, ...limits }: Limits): SlotPool {
  const { runningPerParty = running, maxWaitMs } = limits
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

  /** Passes freed slots directly to waiters, so that a new caller cannot overtake them. */
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
    if (maxWaitMs === undefined) return promise
    const giveUp = () => queue.remove(parties, waiter) && reject(new Failure('unavailable'))
    const timer = setTimeout(giveUp, maxWaitMs)
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

/** Keeps one pool per key, for as long as a caller holds or awaits one of its slots. */
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
