/**
 * Bounds the memory held for slow peers: request bodies still arriving, responses not yet read. One client holds at most
 * half, and all requests without a credential together hold at most half. Transfers that find no room wait in the fair
 * queue of a slot pool, whose slots are bytes; meanwhile, transfers that stall are ended.
 */
import { Failure } from '../../failure.ts'
import type { Parties } from '../../slot/fair-queue.ts'
import { createSlotPool, type SizedSlot } from '../../slot/pool.ts'

const mebibyte = 1024 * 1024

export type Reservation = SizedSlot & {
  /** Marks the transfer as started. While others wait for room, `end` is called if the peer stalls. */
  begin(end: () => void): void
  /** Bytes that the peer has sent or read. */
  moved(bytes: number): void
}

export type ByteBudget = {
  /** Waits for room. Throws `overloaded` if there is none in time, and at once if the client would hold more than half. */
  reserve(parties: Parties, bytes: number): Promise<Reservation>
  /** Takes room even beyond the budget, for a response that must not be refused any more. */
  reserveAnyway(parties: Parties, bytes: number): Reservation
  /** False if the client, or all without a credential, hold their half. */
  hasRoom(parties: Parties): boolean
}

type Timeouts = {
  /** A transfer without progress for this long is ended while others wait for room. */
  readonly stalledMs: number
  /** Longer than `stalledMs`, so that those who wait get the room of transfers that stall. */
  readonly waitMs: number
}

const defaultTimeouts: Timeouts = { stalledMs: 2_000, waitMs: 10_000 }
/** Minimum progress is a sixteenth of the transfer and at least this: one byte now and then keeps no transfer alive. */
const leastProgressBytes = 64 * 1024

export function createByteBudget(maxBytes: number, timeouts: Partial<Timeouts> = {}): ByteBudget {
  const { stalledMs, waitMs } = { ...defaultTimeouts, ...timeouts }
  const pool = createSlotPool({
    running: maxBytes,
    runningPerParty: maxBytes / 2,
    // A waiting transfer is in memory too.
    waiting: maxBytes,
    maxWaitMs: waitMs,
    lateCode: 'overloaded',
  })

  function watch(slot: SizedSlot, bytes: number): Reservation {
    const progressBytes = Math.max(leastProgressBytes, bytes / 16)
    let timer: NodeJS.Timeout | undefined
    let movedBytes = 0
    let movedAt = 0
    return {
      resize: slot.resize,
      release() {
        clearInterval(timer)
        slot.release()
      },
      begin(end) {
        movedAt = performance.now()
        timer = setInterval(() => {
          if (pool.waiting > 0 && performance.now() - movedAt >= stalledMs) end()
        }, stalledMs / 8).unref()
      },
      moved(bytes) {
        movedBytes += bytes
        if (movedBytes < progressBytes) return
        movedBytes = 0
        movedAt = performance.now()
      },
    }
  }

  return {
    async reserve(parties, bytes) {
      // It would wait for itself, and nobody else's transfer would have to end for that.
      if (!pool.mayHold(parties.at(-1) ?? '', bytes)) throw new Failure('overloaded')
      return watch(await pool.acquire(parties, bytes), bytes)
    },
    reserveAnyway: (parties, bytes) => watch(pool.force(parties, bytes), bytes),
    hasRoom: (parties) => parties.every((party) => pool.mayHold(party, 1)),
  }
}

export type ByteBudgets = { readonly arriving: ByteBudget; readonly leaving: ByteBudget }

export function createByteBudgets(timeouts: Partial<Timeouts> = {}): ByteBudgets {
  return {
    /** Eight of the largest bodies. */
    arriving: createByteBudget(64 * mebibyte, timeouts),
    /** Two of the largest responses. */
    leaving: createByteBudget(128 * mebibyte, timeouts),
  }
}

/** Bodies and responses below this size are not counted: the kernel buffers that much per connection anyway. */
export const countedBytes = 64 * 1024
/** A peer that reads nothing of a response for this long is disconnected, even if nobody waits for its room. */
export const stalledMs = 300_000
/** The same limit for pages outside the API. It is short because anyone may request them, and request them again. */
export const pageStalledMs = 10_000
