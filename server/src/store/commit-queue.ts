/**
 * Group commit. While one transaction waits for the disk others queue up, and then share the next commit, each behind
 * its own savepoint: one that fails takes nothing with it. The same code serves both engines.
 */
import type { Db, Transaction } from './sql.ts'

/** One connection with an open transaction. */
export type Connection = {
  readonly db: Db
  savepoint(): Promise<void>
  releaseSavepoint(): Promise<void>
  rollbackToSavepoint(): Promise<void>
  commit(): Promise<void>
  rollback(): Promise<void>
  /** True once the engine itself has given the transaction up: nothing in it can be saved. */
  isLost(error: unknown): boolean
}

type Work = (transaction: Transaction) => Promise<unknown>
type Job = { work: Work; resolve(value: unknown): void; reject(error: unknown): void }
type Outcome = { job: Job; result: unknown } | { job: Job; error: unknown }

const maxBatch = 128
/** A batch that has run this long commits what it has: others want the event loop too. */
const maxBatchMs = 8

export type CommitQueue = {
  run<Result>(work: (transaction: Transaction) => Promise<Result>): Promise<Result>
  readonly isIdle: boolean
}

export function createCommitQueue(begin: () => Promise<Connection>, onIdle?: () => void): CommitQueue {
  let waiting: Job[] = []
  let isRunning = false

  async function drain(): Promise<void> {
    isRunning = true
    while (waiting.length > 0) {
      const jobs = waiting.splice(0, maxBatch)
      const left = await runBatch(begin, jobs)
      waiting = left.concat(waiting)
      // Lets requests that have arrived meanwhile join the next batch.
      await new Promise((resolve) => setImmediate(resolve))
    }
    isRunning = false
    onIdle?.()
  }

  return {
    run: <Result>(work: (transaction: Transaction) => Promise<Result>) =>
      new Promise<Result>((resolve, reject) => {
        // The queue holds jobs of all result types; each resolves with the result of its own work.
        waiting.push({ work, resolve: resolve as (value: unknown) => void, reject })
        if (!isRunning) {
          isRunning = true
          setImmediate(drain)
        }
      }),
    get isIdle() {
      return !isRunning
    },
  }
}

/** Returns the jobs that it did not get to. */
async function runBatch(begin: () => Promise<Connection>, jobs: Job[]): Promise<Job[]> {
  let connection: Connection
  try {
    connection = await begin()
  } catch (error) {
    for (const job of jobs) job.reject(error)
    return []
  }
  const transaction: Transaction = {
    db: connection.db,
    scratch: new Map(),
    beforeCommit: new Map(),
    afterCommit: [],
  }
  const outcomes: Outcome[] = []
  const startedAt = performance.now()
  const useSavepoints = jobs.length > 1
  try {
    while (jobs.length > 0 && (outcomes.length === 0 || performance.now() - startedAt < maxBatchMs)) {
      const job = jobs.shift()
      if (job) outcomes.push(await runJob(connection, transaction, job, useSavepoints))
    }
    for (const finish of transaction.beforeCommit.values()) await finish()
    await connection.commit()
  } catch (error) {
    await connection.rollback().catch(() => undefined)
    // Also those that were refused: what refused them may have been a change of this batch, which never came to be.
    for (const { job } of outcomes) job.reject(error)
    const pending = jobs.splice(0)
    for (const job of pending) job.reject(error)
    // The job that threw is in neither list: its own promise is rejected by runJob.
    return []
  }
  for (const done of transaction.afterCommit) tell(done)
  for (const outcome of outcomes) {
    if ('error' in outcome) outcome.job.reject(outcome.error)
    else outcome.job.resolve(outcome.result)
  }
  return jobs
}

/** The commit stands, and so do the answers to it, whatever somebody who hears of it does. */
function tell(done: () => void): void {
  try {
    done()
  } catch (error) {
    process.emitWarning(error instanceof Error ? error : 'a listener of a commit failed')
  }
}

async function runJob(
  connection: Connection,
  transaction: Transaction,
  job: Job,
  useSavepoint: boolean,
): Promise<Outcome> {
  const scratch = new Map(transaction.scratch)
  const beforeCommit = new Map(transaction.beforeCommit)
  const afterCommit = [...transaction.afterCommit]
  try {
    if (useSavepoint) await connection.savepoint()
    const result = await job.work(transaction)
    if (useSavepoint) await connection.releaseSavepoint()
    return { job, result }
  } catch (error) {
    if (!useSavepoint || connection.isLost(error)) {
      job.reject(error)
      throw error
    }
    await connection.rollbackToSavepoint().catch((lost: unknown) => {
      // The connection is gone with the whole batch: nobody else knows of this job.
      job.reject(error)
      throw lost
    })
    transaction.scratch = scratch
    transaction.beforeCommit = beforeCommit
    transaction.afterCommit = afterCommit
    return { job, error }
  }
}
