/** Fills every queue of a service until the test releases them. */

import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { systemChain } from '../server/src/domain/audit/event.ts'
import { asOperator, type Services, type WriteContext } from '../server/src/domain/context.ts'
import { enterTransaction, newOutcome, outcomeLink } from '../server/src/domain/transaction.ts'
import type { Slot } from '../server/src/slot/pool.ts'
import { headRows } from '../server/src/store/audit/head.ts'
import type { Transaction } from '../server/src/store/engine/sql.ts'
import type { TestService } from './harness.ts'

type FullQueue = {
  /** True once a request waits in a queue. */
  hasWaiter(): boolean
  /** Runs the work in the transaction that blocks the others, commits it and releases them. */
  release(work: (ctx: WriteContext) => Promise<void>): Promise<void>
}

/** Acquires every slot of every pool. */
async function fillSlots({ slots }: Services): Promise<{ held: Slot[]; countWaiting(): number }> {
  const pools = [slots.largeRead, slots.largeWrite, slots.password, slots.sharePassword, slots.tokenLookUp]
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

/**
 * PostgreSQL releases the locks of a commit before it acknowledges it. The service learns of the next commit only after
 * the requests that waited for its locks have continued.
 */
function delayNextCommit(): void {
  const { query } = pg.Client.prototype
  const lateMs = 30
  Object.assign(pg.Client.prototype, {
    query(this: pg.Client, ...given: Parameters<typeof query>) {
      const asked = given[0] as unknown as pg.QueryConfig
      if (asked.text !== 'commit') return Reflect.apply(query, this, given)
      Object.assign(pg.Client.prototype, { query })
      const answering: Promise<unknown> = Reflect.apply(query as never, this, given)
      return answering.then((result) => sleep(lateMs, result))
    },
  })
}

/** Holds all slots and the locks of the system chain and the workspace, which writers and recorded reads wait for. */
export async function fillQueues({ app: { services } }: TestService, workspaceId: string): Promise<FullQueue> {
  const { engine } = services
  const { held, countWaiting } = await fillSlots(services)
  const chains = [systemChain, workspaceId].sort()
  const isHeld = Promise.withResolvers<void>()
  const release = Promise.withResolvers<(ctx: WriteContext) => Promise<void>>()
  const outcome = newOutcome()
  const hold = async (transaction: Transaction) => {
    const ctx = enterTransaction(asOperator(services), transaction, outcome)
    isHeld.resolve()
    const work = await release.promise
    await work(ctx)
  }
  const options = { rows: headRows(chains), link: outcomeLink(services), note: outcome }
  const holding = engine.transaction(workspaceId, hold, options)
  await Promise.race([isHeld.promise, holding])
  let arrived = 0
  const { transaction, commit } = engine
  const count = (lock: string) => {
    const isBackground = /^[a-z-]+$/.test(lock)
    // SQLite has one queue for everything; PostgreSQL has one per lock, and only those of the chains are held.
    if (engine.kind === 'sqlite' ? !isBackground : chains.some((chain) => lock.includes(chain))) arrived++
  }
  Object.assign(engine, {
    transaction: (lock: string, work: never, options: never) => {
      count(lock)
      return transaction(lock, work, options)
    },
    commit: (lock: string, job: never, options: never) => {
      count(lock)
      return commit(lock, job, options)
    },
  })
  return {
    hasWaiter: () => arrived + countWaiting() > 0,
    async release(work) {
      Object.assign(engine, { transaction, commit })
      if (engine.kind === 'postgres') delayNextCommit()
      release.resolve(work)
      await holding
      for (const slot of held) slot.release()
    },
  }
}
