/**
 * Group commit for both engines. While one transaction waits for the disk, others queue up and share the next commit.
 * Each runs behind its own savepoint, so a failed one does not undo the rest. Transactions that ask for the same joint
 * work are done in one call.
 */
import { yieldToEventLoop } from '../../event-loop.ts'
import type { Db, JointWork, Transaction } from './sql.ts'

/** One connection with an open transaction. */
export type EngineConnection = {
  readonly db: Db
  savepoint(): Promise<void>
  releaseSavepoint(): Promise<void>
  rollbackToSavepoint(): Promise<void>
  commit(): Promise<void>
  /** Resolves once the commit survives a power failure. Present only if `commit` itself does not wait for the disk. */
  harden?(): Promise<void>
  rollback(): Promise<void>
  /** True once the engine has aborted the whole transaction, so that no savepoint can rescue it. */
  isLost(error: unknown): boolean
}

type Job = {
  readonly work: JointWork<unknown, unknown>
  readonly item: unknown
  /** Jobs with the same group and work run together; undefined if the job runs alone. */
  readonly group: string | undefined
  resolve(value: unknown): void
  reject(error: unknown): void
}
type Outcome = { readonly job: Job; readonly settled: PromiseSettledResult<unknown> }

const maxBatch = 128
/** Joint work cannot be interrupted, so its size is bounded. */
const maxGroup = 64
/** Maximum total wait for more jobs, and maximum wait without a new arrival. */
const maxGatherMs = 2
const maxQuietMs = 0.15
/** A batch that has run this long commits early, to give the event loop back to other requests. */
const maxBatchMs = 8

export type CommitQueue = {
  run<Result>(work: (transaction: Transaction) => Promise<Result>): Promise<Result>
  join<Item, Result>(group: string, item: Item, work: JointWork<Item, Result>): Promise<Result>
  readonly isIdle: boolean
}

type Listeners = {
  readonly onIdle?: () => void
  /** A batch was lost: the storage failed, or the only job in the batch did. */
  readonly onFailure?: (error: unknown) => void
}

export function createCommitQueue(
  begin: () => Promise<EngineConnection>,
  { onIdle, onFailure }: Listeners = {},
): CommitQueue {
  let waiting: Job[] = []
  let isRunning = false
  let lastCount = 0

  async function drain(): Promise<void> {
    isRunning = true
    while (waiting.length > 0) {
      await gather(() => waiting.length, lastCount)
      const jobs = waiting.splice(0, maxBatch)
      lastCount = jobs.length
      const left = await runBatch(begin, jobs, onFailure)
      waiting = left.concat(waiting)
    }
    isRunning = false
    onIdle?.()
  }

  function add<Item, Result>(group: string | undefined, item: Item, work: JointWork<Item, Result>): Promise<Result> {
    return new Promise<Result>((resolve, reject) => {
      // The queue holds jobs of all types; each is given its own item and resolves with the result of its own work.
      waiting.push({ group, item, work, resolve, reject } as Job)
      if (!isRunning) {
        isRunning = true
        drain()
      }
    })
  }

  return {
    run: (work) =>
      add(undefined, undefined, async (transaction) => [{ status: 'fulfilled', value: await work(transaction) }]),
    join: add,
    get isIdle() {
      return !isRunning
    },
  }
}

/**
 * Waits while each turn of the event loop brings more jobs, so that they share a commit. Waits slightly longer if the
 * last batch was larger, because clients often send their next request right after a response. A single job hardly
 * waits.
 */
export async function gather(count: () => number, lastCount = 0): Promise<void> {
  const startedAt = performance.now()
  let now = startedAt
  let grownAt = startedAt
  let before: number
  do {
    before = count()
    await yieldToEventLoop()
    now = performance.now()
    if (count() > before) grownAt = now
  } while (now - startedAt < maxGatherMs && (grownAt === now || (count() < lastCount && now - grownAt < maxQuietMs)))
}

/** Returns the jobs that were not started in time. */
async function runBatch(
  begin: () => Promise<EngineConnection>,
  jobs: Job[],
  onFailure: Listeners['onFailure'],
): Promise<Job[]> {
  let connection: EngineConnection
  try {
    connection = await begin()
  } catch (error) {
    onFailure?.(error)
    for (const job of jobs) job.reject(error)
    return []
  }
  const transaction: Transaction = {
    db: connection.db,
    scratch: new Map(),
    beforeCommit: new Map(),
    afterCommit: [],
    afterEnd: [],
  }
  const outcomes: Outcome[] = []
  const startedAt = performance.now()
  try {
    while (jobs.length > 0 && (outcomes.length === 0 || performance.now() - startedAt < maxBatchMs)) {
      const group = takeGroup(jobs)
      const isAll = outcomes.length + jobs.length === 0
      const done = await runGroup(connection, transaction, group, !isAll)
      if (done) {
        outcomes.push(...done)
        continue
      }
      jobs.unshift(...group.map((job) => ({ ...job, group: undefined })))
      if (!isAll) continue
      // The failed group is the whole batch: roll back and run its jobs one by one in the next batch.
      await connection.rollback().catch(() => undefined)
      for (const done of transaction.afterEnd) tell(done)
      return jobs
    }
    for (const finish of transaction.beforeCommit.values()) await finish()
    await connection.commit()
  } catch (error) {
    onFailure?.(error)
    await connection.rollback().catch(() => undefined)
    for (const done of transaction.afterEnd) tell(done)
    // Jobs that were refused fail too: a change of this batch may have caused the refusal, and it was rolled back.
    for (const { job } of outcomes) job.reject(error)
    const pending = jobs.splice(0)
    for (const job of pending) job.reject(error)
    // Jobs that threw are in neither list; runGroup has already rejected them.
    return []
  }
  const softness = await connection.harden?.().catch((error: unknown) => ({ error }))
  if (softness) onFailure?.(softness.error)
  // The commit has happened even if it is not durable yet, so caches must be invalidated now.
  for (const done of [...transaction.afterCommit, ...transaction.afterEnd]) tell(done)
  for (const { job, settled } of outcomes) {
    if (softness) job.reject(softness.error)
    else if (settled.status === 'rejected') job.reject(settled.reason)
    else job.resolve(settled.value)
  }
  return jobs
}

/** A failing listener must affect neither the commit nor the results of its jobs. */
function tell(done: () => void): void {
  try {
    done()
  } catch (error) {
    process.emitWarning(error instanceof Error ? error : 'a listener of a commit failed')
  }
}

/** Removes and returns the first job and all jobs that run together with it. */
function takeGroup(jobs: Job[]): Job[] {
  const first = jobs.shift()
  if (!first) return []
  const isSame = ({ group, work }: Job) => group !== undefined && group === first.group && work === first.work
  const group = new Set([first, ...jobs.filter(isSame).slice(0, maxGroup - 1)])
  if (group.size > 1) jobs.splice(0, jobs.length, ...jobs.filter((job) => !group.has(job)))
  return [...group]
}

/** Returns undefined if joint work failed as a whole: each of its jobs must then run alone. */
async function runGroup(
  connection: EngineConnection,
  transaction: Transaction,
  group: readonly Job[],
  useSavepoint: boolean,
): Promise<Outcome[] | undefined> {
  const scratch = new Map(transaction.scratch)
  const beforeCommit = new Map(transaction.beforeCommit)
  const afterCommit = [...transaction.afterCommit]
  const [first] = group
  if (!first) return []
  try {
    if (useSavepoint) await connection.savepoint()
    const items = group.map(({ item }) => item)
    const settled = await first.work(transaction, items)
    if (useSavepoint) await connection.releaseSavepoint()
    return group.map((job, index) => ({ job, settled: settled[index] ?? missing }))
  } catch (error) {
    const rejectAll = () => {
      for (const job of group) job.reject(error)
    }
    const isLost = connection.isLost(error)
    if (!useSavepoint && group.length > 1 && !isLost) return undefined
    if (!useSavepoint || isLost) {
      rejectAll()
      throw error
    }
    await connection.rollbackToSavepoint().catch((lost: unknown) => {
      // The connection is lost with the whole batch. These jobs are in no list, so reject them here.
      rejectAll()
      throw lost
    })
    transaction.scratch = scratch
    transaction.beforeCommit = beforeCommit
    transaction.afterCommit = afterCommit
    return group.length > 1 ? undefined : [{ job: first, settled: { status: 'rejected', reason: error } }]
  }
}

const missing: PromiseRejectedResult = { status: 'rejected', reason: new Error('joint work forgot one of its items') }
