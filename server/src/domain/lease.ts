/**
 * A lease that one run of several nodes holds, acquired with a claim and renewed while the run lasts. Another claim, or a
 * person's decision, raises the fence: the run has then lost its lease and must stop.
 */
import type { ReadStore, Store } from '../store/store.ts'
import type { Services } from './context.ts'
import { minuteMs, secondMs } from './time.ts'
import { inQuietTransaction } from './transaction.ts'

export const leaseMs = minuteMs
const renewEveryMs = 20 * secondMs

/** Another run or a person has taken over: this run must stop. */
class LostLease extends Error {}

/** Where the lease is stored. */
type LeaseRow = {
  isHeld(store: ReadStore): Promise<boolean>
  /** False if the lease is lost. */
  renew(store: Store, leaseUntil: number): Promise<boolean>
}

export type Lease = {
  /** Aborted once the lease is known to be lost. */
  readonly lost: AbortSignal
  /** Throws if the lease is lost. */
  requireHeld(): Promise<void>
  /** Renews the lease in the caller's transaction, which fails if the lease is lost. */
  renew(store: Store): Promise<void>
  /** Renews the lease and runs `work`, in a transaction of its own. */
  write(work: (store: Store) => Promise<void> | void): Promise<void>
  /** Call before the end is recorded: a later renewal would extend the lease. */
  stopRenewing(): Promise<void>
  /** Time at which the lease ends unless it is renewed. */
  leaseUntil(): number
}

/** `lock` keeps renewals of one lease apart from each other. */
export function holdLease(services: Services, lock: string, row: LeaseRow, claimedUntil: number): Lease {
  const { store, now } = services
  const losing = new AbortController()
  let leaseUntil = claimedUntil

  const lose = () => {
    losing.abort()
    return new LostLease()
  }

  async function renew(store: Store): Promise<void> {
    const until = now() + leaseMs
    if (!(await row.renew(store, until))) throw lose()
    leaseUntil = until
  }

  const write: Lease['write'] = (work) =>
    inQuietTransaction(services, lock, async (store) => {
      await renew(store)
      await work(store)
    })

  let renewal: Promise<void> | undefined
  const heartbeat = setInterval(() => {
    // Failures other than a lost lease are ignored: the lease outlasts two missed renewals.
    renewal = write(async () => undefined).catch(() => undefined)
  }, renewEveryMs)
  heartbeat.unref()

  return {
    lost: losing.signal,
    async requireHeld() {
      if (!(await row.isHeld(store))) throw lose()
    },
    renew,
    write,
    async stopRenewing() {
      clearInterval(heartbeat)
      await renewal
    },
    leaseUntil: () => leaseUntil,
  }
}
