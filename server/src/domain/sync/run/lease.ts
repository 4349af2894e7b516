/**
 * A run's lease on its sync, acquired with the claim and renewed while the run lasts. A person's decision or another
 * claim raises the fence: the run has then lost its lease, and must stop writing to the store and calling the vendor.
 */
import type { Outbound } from '../../../outbound.ts'
import type { Store } from '../../../store/store.ts'
import type { ClaimedSync } from '../../../store/sync/sync.ts'
import type { Services } from '../../context.ts'
import { minuteMs, secondMs } from '../../time.ts'
import { inQuietTransaction } from '../../transaction.ts'

export const leaseMs = minuteMs
const renewEveryMs = 20 * secondMs

/** Another run or a person has taken over, or the sync is gone: this run must stop. */
class LostLease extends Error {}

export type SyncLease = {
  /** Aborted once the lease is known to be lost. */
  readonly lost: AbortSignal
  /** HTTP for the run. Checks before each request that the lease still holds. */
  readonly outbound: Outbound
  /** Renews the lease in the caller's transaction, which fails if the lease is lost. */
  renew(store: Store): Promise<void>
  /** Renews the lease and runs `work`, in a transaction of its own. */
  write(work: (store: Store) => Promise<void>): Promise<void>
  /** Ends a lost lease, so that the next run need not wait for it to expire. False if the sync is gone. */
  release(store: Store, endedAt: number): Promise<boolean>
  /** Call before recording the outcome: a later renewal would extend the lease and delay the next run. */
  stopRenewing(): Promise<void>
}

export function leaseSync(services: Services, { id, fence, leaseUntil: claimedUntil }: ClaimedSync): SyncLease {
  const { store, outbound, now } = services
  const losing = new AbortController()
  let leaseUntil = claimedUntil

  const lose = () => {
    losing.abort()
    return new LostLease()
  }

  async function renew(store: Store): Promise<void> {
    const until = now() + leaseMs
    if (!(await store.syncLeases.renew(id, fence, until))) throw lose()
    leaseUntil = until
  }

  const write: SyncLease['write'] = (work) =>
    inQuietTransaction(services, `sync:${id}`, async (store) => {
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
    outbound: {
      // Reads are checked too, so that an unwanted run ends sooner.
      async request(request) {
        if (!(await store.syncLeases.isHeld(id, fence))) throw lose()
        return outbound.request(request)
      },
    },
    renew,
    write,
    release: (store, endedAt) => store.syncLeases.release(id, leaseUntil, endedAt),
    async stopRenewing() {
      clearInterval(heartbeat)
      await renewal
    },
  }
}
