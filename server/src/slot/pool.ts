/**
 * Slots for what is scarce, such as expensive work or memory: a bounded number is held at a time, a bounded number waits,
 * and callers share them fairly.
 */
import { Failure, type FailureCode } from '../failure.ts'
import { createFairQueue, type Parties } from './fair-queue.ts'

/** Held while expensive work runs. A function that must not run without a slot takes one as a parameter. */
export type Slot = {
  /** Safe to call more than once. */
  release(): void
}

export type SizedSlot = Slot & { resize(size: number): void }

export type SlotPool = {
  /** Returns a free slot, or undefined if the caller would have to wait. */
  tryAcquire(parties: Parties, size?: number): SizedSlot | undefined
  /** Waits for a slot. Rejects with `overloaded` when the queue is full, and after `maxWaitMs`. */
  acquire(parties: Parties, size?: number): Promise<SizedSlot>
  /** Returns a slot even if none is free. */
  force(parties: Parties, size: number): SizedSlot
  /** False if the party would hold more than it may. One that holds nothing may hold one slot of any size. */
  mayHold(party: string, size: number): boolean
  readonly waiting: number
  readonly isIdle: boolean
}

type Limits = {
  readonly running: number
  readonly waiting?: number
  /** Slots that one party may hold at a time, be it a workspace or a person. */
  readonly runningPerParty?: number
  readonly maxWaitMs?: number
  /** The refusal of those who waited for `maxWaitMs`. */
  readonly lateCode?: FailureCode
}

type Waiter = {
  readonly parties: Parties
  readonly size: number
  grant(slot: SizedSlot): void
  refuse(failure: Failure): void
}

export function createSlotPool({ running, waiting = Number.POSITIVE_INFINITY, ...limits }: Limits): SlotPool {
  const { runningPerParty = running, maxWaitMs, lateCode = 'unavailable' } = limits
  const queue = createFairQueue<Waiter>(waiting)
  const heldBy = new Map<string, number>()
  let free = running

  const heldOf = (party: string) => heldBy.get(party) ?? 0
  const mayHold = (party: string, size: number) => heldOf(party) === 0 || heldOf(party) + size <= runningPerParty
  const fits = ({ parties, size }: Pick<Waiter, 'parties' | 'size'>) =>
    size <= free && parties.every((party) => mayHold(party, size))

  function count(parties: Parties, change: number): void {
    free -= change
    for (const party of new Set(parties)) {
      const held = heldOf(party) + change
      if (held > 0) heldBy.set(party, held)
      else heldBy.delete(party)
    }
  }

  function hold(parties: Parties, size: number): SizedSlot {
    let held = size
    count(parties, size)
    const resize = (size: number) => {
      count(parties, size - held)
      held = size
      handOver()
    }
    return {
      resize(size) {
        if (held > 0) resize(size)
      },
      release() {
        if (held > 0) resize(0)
      },
    }
  }

  /** Passes freed slots directly to waiters, so that a new caller cannot overtake them. */
  function handOver(): void {
    while (free > 0) {
      const next = queue.take(fits)
      if (!next) return
      next.grant(hold(next.parties, next.size))
    }
  }

  function tryAcquire(parties: Parties, size = 1): SizedSlot | undefined {
    // Nobody is overtaken: whoever still waits holds a full share already, or waits for more than is free.
    return fits({ parties, size }) ? hold(parties, size) : undefined
  }

  async function wait(parties: Parties, size: number): Promise<SizedSlot> {
    const { promise, resolve, reject } = Promise.withResolvers<SizedSlot>()
    const waiter = { parties, size, grant: resolve, refuse: reject }
    for (const dropped of queue.add(parties, waiter, size)) dropped.refuse(new Failure('overloaded'))
    if (maxWaitMs === undefined) return promise
    const giveUp = () => queue.remove(waiter) && reject(new Failure(lateCode))
    const timer = setTimeout(giveUp, maxWaitMs)
    return promise.finally(() => clearTimeout(timer))
  }

  return {
    tryAcquire,
    acquire: async (parties, size = 1) => tryAcquire(parties, size) ?? wait(parties, size),
    force: hold,
    mayHold,
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
