/** A service in which everything that can be waited for is taken, until the test lets it go. */

import { systemChain } from '../server/src/domain/audit/event.ts'
import { asOperator, type Services, type WriteContext } from '../server/src/domain/context.ts'
import { enterTransaction } from '../server/src/domain/transaction.ts'
import type { Slot } from '../server/src/slot-pool.ts'
import type { TestService } from './harness.ts'

type FullQueue = {
  /** True once somebody has come to a queue. */
  hasWaiter(): boolean
  /** Does the work in the transaction that everybody waits for, commits it, and lets all others go on. */
  goOn(work: (ctx: WriteContext) => Promise<void>): Promise<void>
}

/** Every slot of the pool is held by others. */
async function fillSlots({ slots }: Services): Promise<{ held: Slot[]; countWaiting(): number }> {
  const pools = [slots.largeRead, slots.largeWrite, slots.password, slots.sharePassword, slots.shareLookUp]
  const held: Slot[] = []
  for (const pool of pools) {
    for (let party = 0; ; party++) {
      const slot = pool.tryAcquire([`someone else ${party}`])
      if (!slot) break
      held.push(slot)
    }
  }
  return { held, countWaiting: () => pools.reduce((sum, { waiting }) => sum + waiting, 0) }
}

/** Holds all slots, and the locks of the system and of the workspace, on which writers and recorded readers wait. */
export async function fillQueues({ app: { services } }: TestService, workspaceId: string): Promise<FullQueue> {
  const { engine } = services
  const { held, countWaiting } = await fillSlots(services)
  const chains = [systemChain, workspaceId].sort()
  const isHeld = Promise.withResolvers<void>()
  const release = Promise.withResolvers<(ctx: WriteContext) => Promise<void>>()
  const holding = engine.transaction(workspaceId, async (transaction) => {
    const ctx = await enterTransaction(asOperator(services), transaction, chains)
    isHeld.resolve()
    const work = await release.promise
    await work(ctx)
  })
  await Promise.race([isHeld.promise, holding])
  let arrived = 0
  const { transaction, joinTransaction } = engine
  const count = (lock: string) => {
    const isBackground = /^[a-z-]+$/.test(lock)
    // SQLite has one queue for everything; PostgreSQL has one for each lock, and only those of the chains are held.
    if (engine.kind === 'sqlite' ? !isBackground : chains.some((chain) => lock.includes(chain))) arrived++
  }
  Object.assign(engine, {
    transaction: (lock: string, work: never) => {
      count(lock)
      return transaction(lock, work)
    },
    joinTransaction: (lock: string, group: string, item: never, work: never) => {
      count(lock)
      return joinTransaction(lock, group, item, work)
    },
  })
  return {
    hasWaiter: () => arrived + countWaiting() > 0,
    async goOn(work) {
      Object.assign(engine, { transaction, joinTransaction })
      release.resolve(work)
      await holding
      for (const slot of held) slot.release()
    },
  }
}
