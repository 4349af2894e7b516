/**
 * A run's hold on its sync: a lease that comes with the claim and is renewed while the run lasts. Whoever decides about
 * the sync meanwhile, or takes it over, raises its fence: the hold is lost, and nothing more is written, here or there.
 */
import type { Outbound } from '../../../outbound.ts'
import type { Store } from '../../../store/store.ts'
import type { ClaimedSync } from '../../../store/sync.ts'
import type { Services } from '../../context.ts'
import { minuteMs, secondMs } from '../../time.ts'
import { inQuietTransaction } from '../../transaction.ts'

export const leaseMs = minuteMs
const renewEveryMs = 20 * secondMs

/** Somebody else works at it, or it is gone: whatever this run still wanted is no longer its business. */
class LostHold extends Error {}

export type Hold = {
  /** Aborted once the hold is known to be lost. */
  readonly lost: AbortSignal
  /** The way out for as long as the sync is held: each request is preceded by a look whether it is. */
  readonly outbound: Outbound
  /** Within a transaction of the caller's, which fails where the hold is lost. */
  renew(store: Store): Promise<void>
  /** Within a transaction of its own. */
  write(work: (store: Store) => Promise<void>): Promise<void>
  /** Where it was lost: the next run need not wait for our lease to end. False where the sync is gone. */
  release(store: Store, endedAt: number): Promise<boolean>
  /** Before the end is written down: a renewal that comes after it would keep the next run waiting. */
  stopRenewing(): Promise<void>
}

export function holdSync(services: Services, { id, fence, leaseUntil: claimedUntil }: ClaimedSync): Hold {
  const { store, outbound, now } = services
  const losing = new AbortController()
  let leaseUntil = claimedUntil

  const lose = () => {
    losing.abort()
    return new LostHold()
  }

  async function renew(store: Store): Promise<void> {
    const until = now() + leaseMs
    if (!(await store.syncHolds.renew(id, fence, until))) throw lose()
    leaseUntil = until
  }

  const write: Hold['write'] = (work) =>
    inQuietTransaction(services, `sync:${id}`, async (store) => {
      await renew(store)
      await work(store)
    })

  let renewal: Promise<void> | undefined
  const heartbeat = setInterval(() => {
    // Where it fails for another reason than a lost hold, the next one may not: the lease outlasts two of them.
    renewal = write(async () => undefined).catch(() => undefined)
  }, renewEveryMs)
  heartbeat.unref()

  return {
    lost: losing.signal,
    outbound: {
      // Before reads, too: a run that nobody wants any more ends the sooner.
      async request(request) {
        if (!(await store.syncHolds.isHeld(id, fence))) throw lose()
        return outbound.request(request)
      },
    },
    renew,
    write,
    release: (store, endedAt) => store.syncHolds.release(id, leaseUntil, endedAt),
    async stopRenewing() {
      clearInterval(heartbeat)
      await renewal
    },
  }
}
