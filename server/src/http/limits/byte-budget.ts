/**
 * Bounds the memory held for slow peers: request bodies still arriving, responses not yet read, pipelined requests. One
 * client holds at most half, and all requests without a credential together hold at most half. When room runs out,
 * stalled transfers are ended before new requests are refused.
 */
import { Failure } from '../../failure.ts'

const mebibyte = 1024 * 1024

/** The owner of a transfer. */
export type Holder = {
  /** A person with all of their credentials, an identity, or a network. */
  readonly client: string
  /** Undefined unless the client is known to belong to the workspace. */
  readonly workspace: string | undefined
  readonly hasCredential: boolean
}

/** A reservation, held until it is released. */
export type Reservation = {
  /**
   * Marks the transfer as started. From now on the budget may call `end` to make room for others, after releasing this
   * reservation.
   */
  begin(end: () => void): void
  /** Bytes that the peer has sent or read. */
  moved(bytes: number): void
  resize(bytes: number): void
  /** Safe to call more than once. */
  release(): void
}

export type ByteBudget = {
  /** Takes room at once. Throws `overloaded` if even ending stalled transfers would free too little. */
  take(holder: Holder, bytes: number): Reservation
  /** Waits for reservation. A client that would exceed half of the budget is refused at once. */
  wait(holder: Holder, bytes: number): Promise<Reservation>
  /** Takes room even beyond the budget, for a response that must not be refused any more. */
  takeAnyway(holder: Holder, bytes: number): Reservation
  /**
   * Throws `overloaded` if the client holds half of the budget, or if it has no credential and such requests have used
   * up their half.
   */
  requireRoom(holder: Holder): void
}

type Timeouts = {
  /** A transfer without progress for this long may be ended when others need its reservation. */
  readonly stalledMs: number
  /** Maximum wait for reservation. */
  readonly waitMs: number
  readonly now: () => number
}

const defaultTimeouts: Timeouts = { stalledMs: 2_000, waitMs: 10_000, now: () => performance.now() }
const sweepMs = 100
/**
 * Minimum progress is a sixteenth of the transfer and at least this much: one byte now and then keeps no transfer
 * alive.
 */
const leastProgressBytes = 64 * 1024

type Transfer = { readonly holder: Holder; bytes: number; movedBytes: number; movedAt: number; end?: () => void }
type Waiter = {
  readonly holder: Holder
  readonly bytes: number
  readonly since: number
  grant(reservation: Reservation): void
  refuse(error: Failure): void
}

export function createByteBudget(maxBytes: number, timeouts: Partial<Timeouts> = {}): ByteBudget {
  const { stalledMs, waitMs, now } = { ...defaultTimeouts, ...timeouts }
  const transfers = new Set<Transfer>()
  const waiters = new Set<Waiter>()
  const heldBy = { all: createTally(), client: createTally(), workspace: createTally() }
  const awaitedBy = { all: createTally(), client: createTally() }
  let sweep: NodeJS.Timeout | undefined

  function count({ client, workspace, hasCredential }: Holder, bytes: number): void {
    heldBy.all.add('', bytes)
    if (!hasCredential) heldBy.all.add('strangers', bytes)
    heldBy.client.add(client, bytes)
    heldBy.workspace.add(workspace ?? client, bytes)
  }

  const heldByWorkspace = ({ workspace, client }: Holder) => heldBy.workspace.of(workspace ?? client)

  /**
   * Number of bytes to release before the new ones fit. Requests without a credential must also fit into their own
   * half.
   */
  function missingBytes({ hasCredential }: Holder, bytes: number): number {
    const missing = heldBy.all.of('') + bytes - maxBytes
    if (hasCredential) return missing
    const strangers = heldBy.all.of('strangers')
    return Math.max(missing, strangers === 0 ? 0 : strangers + bytes - maxBytes / 2)
  }

  const claimedBy = ({ client }: Holder) => heldBy.client.of(client) + awaitedBy.client.of(client)

  function refuseGreedy(holder: Holder, bytes: number): void {
    const own = claimedBy(holder)
    // A client that holds nothing may always transfer one body or response, however large.
    if (own > 0 && own + bytes > maxBytes / 2) throw new Failure('overloaded')
  }

  function add(holder: Holder, bytes: number): Reservation {
    const transfer: Transfer = { holder, bytes, movedBytes: 0, movedAt: now() }
    transfers.add(transfer)
    count(holder, bytes)
    return {
      begin(end) {
        transfer.end = end
        transfer.movedAt = now()
      },
      moved(moved) {
        transfer.movedBytes += moved
        if (transfer.movedBytes < Math.max(leastProgressBytes, transfer.bytes / 16)) return
        transfer.movedBytes = 0
        transfer.movedAt = now()
      },
      resize(size) {
        if (!transfers.has(transfer)) return
        count(holder, size - transfer.bytes)
        transfer.bytes = size
        serve()
      },
      release() {
        if (drop(transfer)) serve()
      },
    }
  }

  function drop(transfer: Transfer): boolean {
    if (!transfers.delete(transfer)) return false
    count(transfer.holder, -transfer.bytes)
    return true
  }

  /** Transfers that have to end before these bytes fit; undefined where they would not fit even then. */
  function findVictims(holder: Holder, bytes: number, waitedMs: number): Transfer[] | undefined {
    const victims: Transfer[] = []
    let missing = missingBytes(holder, bytes)
    if (missing <= 0) return victims
    const at = now()
    const candidates = [...transfers].filter((transfer) => mayEnd(transfer, holder, bytes, waitedMs, at))
    for (const transfer of candidates.sort((a, b) => compareVictims(a, b, at))) {
      if (missing <= 0) break
      victims.push(transfer)
      missing -= transfer.bytes
    }
    return missing > 0 ? undefined : victims
  }

  /** The new room is taken first: a transfer that ends may release more, which serves those who wait. */
  function replace(victims: readonly Transfer[], holder: Holder, bytes: number): Reservation {
    for (const transfer of victims) drop(transfer)
    const reservation = add(holder, bytes)
    for (const { end } of victims) end?.()
    return reservation
  }

  const isStalled = ({ movedAt }: Transfer, at: number) => at - movedAt >= stalledMs

  function mayEnd(transfer: Transfer, newcomer: Holder, bytes: number, waitedMs: number, at: number): boolean {
    const { holder } = transfer
    if (!transfer.end || (!newcomer.hasCredential && holder.hasCredential)) return false
    const client = { theirs: heldBy.client.of(holder.client), ours: heldBy.client.of(newcomer.client) + bytes }
    const workspace = { theirs: heldByWorkspace(holder), ours: heldByWorkspace(newcomer) + bytes }
    if (isStalled(transfer, at)) {
      if (holder.client === newcomer.client) return true
      // A client beyond its own share takes nothing from clients that hold less.
      const isFair = (held: typeof client, share: number) => held.ours <= share || held.ours <= held.theirs
      const isSameWorkspace = holder.workspace !== undefined && holder.workspace === newcomer.workspace
      return isFair(client, maxBytes / 4) && (isSameWorkspace || isFair(workspace, maxBytes / 2))
    }
    if (waitedMs < stalledMs) return false
    const isGreedy = (held: typeof client, share: number) =>
      held.theirs > share && held.theirs - transfer.bytes >= held.ours
    return isGreedy(client, maxBytes / 4) || isGreedy(workspace, maxBytes / 2)
  }

  /**
   * Order in which transfers are ended: stalled ones first, then those without a credential, then those of the
   * workspace and client that hold the most, then the ones stalled longest.
   */
  function compareVictims(a: Transfer, b: Transfer, at: number): number {
    return (
      Number(isStalled(b, at)) - Number(isStalled(a, at)) ||
      Number(a.holder.hasCredential) - Number(b.holder.hasCredential) ||
      heldByWorkspace(b.holder) - heldByWorkspace(a.holder) ||
      heldBy.client.of(b.holder.client) - heldBy.client.of(a.holder.client) ||
      a.movedAt - b.movedAt
    )
  }

  /** Clients with a credential are served first, and among them those that hold and wait for the fewest bytes. */
  function compareWaiters(a: Waiter, b: Waiter): number {
    return (
      Number(b.holder.hasCredential) - Number(a.holder.hasCredential) ||
      claimedBy(a.holder) - claimedBy(b.holder) ||
      a.since - b.since
    )
  }

  /**
   * A waiting response occupies memory too: when the queue exceeds the budget, the waiters with the lowest priority are
   * refused.
   */
  function queue(waiter: Waiter): void {
    waiters.add(waiter)
    awaitedBy.all.add('', waiter.bytes)
    awaitedBy.client.add(waiter.holder.client, waiter.bytes)
    sweep ??= setInterval(serve, sweepMs).unref()
    for (const last of [...waiters].sort(compareWaiters).reverse()) {
      if (awaitedBy.all.of('') <= maxBytes) break
      leave(last)
      last.refuse(new Failure('overloaded'))
    }
  }

  function serve(): void {
    if (waiters.size === 0) return
    const at = now()
    for (const waiter of [...waiters].sort(compareWaiters)) {
      // Served already, by room that the end of a transfer released.
      if (!waiters.has(waiter)) continue
      const { holder, bytes, since } = waiter
      const victims = findVictims(holder, bytes, at - since)
      if (victims) {
        leave(waiter)
        waiter.grant(replace(victims, holder, bytes))
      } else if (at - since >= waitMs) {
        leave(waiter)
        waiter.refuse(new Failure('overloaded'))
      }
    }
  }

  function leave(waiter: Waiter): void {
    waiters.delete(waiter)
    awaitedBy.all.add('', -waiter.bytes)
    awaitedBy.client.add(waiter.holder.client, -waiter.bytes)
    if (waiters.size > 0) return
    clearInterval(sweep)
    sweep = undefined
  }

  return {
    take(holder, bytes) {
      refuseGreedy(holder, bytes)
      serve()
      const victims = findVictims(holder, bytes, 0)
      if (!victims) throw new Failure('overloaded')
      return replace(victims, holder, bytes)
    },
    async wait(holder, bytes) {
      refuseGreedy(holder, bytes)
      serve()
      const victims = findVictims(holder, bytes, 0)
      if (victims) return replace(victims, holder, bytes)
      const { promise, resolve, reject } = Promise.withResolvers<Reservation>()
      queue({ holder, bytes, since: now(), grant: resolve, refuse: reject })
      return promise
    },
    takeAnyway: add,
    requireRoom(holder) {
      const isGreedy = heldBy.client.of(holder.client) >= maxBytes / 2
      const isCrowded = !holder.hasCredential && heldBy.all.of('strangers') >= maxBytes / 2
      const victims = isCrowded ? findVictims(holder, 1, 0) : []
      if (isGreedy || !victims) throw new Failure('overloaded')
      if (victims.length > 0) replace(victims, holder, 1).release()
    },
  }
}

type Tally = { add(key: string, amount: number): void; of(key: string): number }

function createTally(): Tally {
  const amounts = new Map<string, number>()
  const of = (key: string) => amounts.get(key) ?? 0
  return {
    of,
    add(key, amount) {
      const sum = of(key) + amount
      if (sum > 0) amounts.set(key, sum)
      else amounts.delete(key)
    },
  }
}

export type ByteBudgets = {
  readonly arriving: ByteBudget
  readonly leaving: ByteBudget
  readonly queued: ByteBudget
}

export function createByteBudgets(timeouts: Partial<Timeouts> = {}): ByteBudgets {
  return {
    /** Eight of the largest bodies. */
    arriving: createByteBudget(64 * mebibyte, timeouts),
    /** Two of the largest responses. */
    leaving: createByteBudget(128 * mebibyte, timeouts),
    /** 8,192 pipelined requests of `queuedBytes`. */
    queued: createByteBudget(64 * mebibyte, timeouts),
  }
}

/** Bodies and responses below this size are not counted: the kernel buffers that much per connection anyway. */
export const countedBytes = 64 * 1024
/** Estimated memory of one pipelined request before its response exists. */
export const queuedBytes = 8 * 1024
/** A peer that reads nothing of a response for this long is disconnected, even if nobody needs the reservation. */
export const stalledMs = 300_000
/** The same limit for pages outside the API. It is short because anyone may request them, and request them again. */
export const pageStalledMs = 10_000
