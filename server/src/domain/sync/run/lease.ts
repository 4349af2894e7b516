/** A run's lease on its sync. A person's decision raises the fence too: the run must then call the vendor no more. */
import type { Outbound } from '../../../outbound.ts'
import type { ReadStore, Store } from '../../../store/store.ts'
import type { ClaimedSync } from '../../../store/sync/sync.ts'
import type { Services } from '../../context.ts'
import { holdLease, type Lease } from '../../lease.ts'

export type SyncLease = Pick<Lease, 'lost' | 'renew' | 'write' | 'stopRenewing'> & {
  /** HTTP for the run. Checks before each request that the lease still holds. */
  readonly outbound: Outbound
  /** Ends a lost lease, so that the next run need not wait for it to expire. False if the sync is gone. */
  release(store: Store, endedAt: number): Promise<boolean>
}

export function leaseSync(services: Services, { id, fence, leaseUntil }: ClaimedSync): SyncLease {
  const row = {
    isHeld: (store: ReadStore) => store.syncLeases.isHeld(id, fence),
    renew: (store: Store, until: number) => store.syncLeases.renew(id, fence, until),
  }
  const lease = holdLease(services, `sync:${id}`, row, leaseUntil)
  return {
    ...lease,
    outbound: {
      // Reads are checked too, so that an unwanted run ends sooner.
      async request(request) {
        await lease.requireHeld()
        return services.outbound.request(request)
      },
    },
    release: (store, endedAt) => store.syncLeases.release(id, lease.leaseUntil(), endedAt),
  }
}
