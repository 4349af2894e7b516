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
  /** The rows that the transaction has locked. */
  readonly locked?: readonly unknown[]
  /**
   * True if statements are sent without waiting for the answers of earlier ones, and the engine refuses to commit after
   * a failed one.
   */
  readonly isPipelined?: boolean
  /** True if the statement failed only because an earlier one of the transaction had. */
  isFollowUp?(error: unknown): boolean
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
type Batch = {
  readonly connection: EngineConnection
  readonly transaction: Transaction
  /** Statements of the transaction that nobody has waited for yet. */
  readonly unanswered: Promise<unknown>[]
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

type Options = {
  /** The begin takes a round trip, during which jobs arrive anyway: waiting for them would only cost processor time. */
  readonly isRemote?: boolean
  readonly onIdle?: () => void
  /** A batch was lost: the storage failed, or the only job in the batch did. */
  readonly onFailure?: (error: unknown) => void
}

export function createCommitQueue(
  begin: () => Promise<EngineConnection>,
  { isRemote = false, onIdle, onFailure }: Options = {},
): CommitQueue {
  let waiting: Job[] = []
  let isRunning = false
  let lastCount = 0

  async function drain(): Promise<void> {
    isRunning = true
    while (waiting.length > 0) {
      if (isRemote) await yieldToEventLoop()
      else await gather(() => waiting.length, lastCount)
      // Taken only after the begin, which may wait for another node: jobs that arrive meanwhile are included.
      const takeJobs = () => {
        const jobs = waiting.splice(0, maxBatch)
        lastCount = jobs.length
        return jobs
      }
      const left = await runBatch(begin, takeJobs, onFailure)
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
  takeJobs: () => Job[],
  onFailure: Options['onFailure'],
): Promise<Job[]> {
  let connection: EngineConnection
  try {
    connection = await begin()
  } catch (error) {
    onFailure?.(error)
    for (const job of takeJobs()) job.reject(error)
    return []
  }
  const jobs = takeJobs()
  const unanswered: Promise<unknown>[] = []
  const transaction: Transaction = {
    db: connection.db,
    locked: connection.locked ?? [],
    later(sent) {
      // The transaction may fail before it looks at this promise.
      sent.catch(() => undefined)
      unanswered.push(sent)
    },
    scratch: new Map(),
    beforeCommit: new Map(),
    afterCommit: [],
    afterEnd: [],
  }
  const batch: Batch = { connection, transaction, unanswered }
  const outcomes: Outcome[] = []
  const startedAt = performance.now()
  /** The group that is the whole batch, so that no savepoint protects the others from it. */
  let wholeGroup: Job[] = []
  try {
    while (jobs.length > 0 && (outcomes.length === 0 || performance.now() - startedAt < maxBatchMs)) {
      const group = takeGroup(jobs)
      const isAll = outcomes.length + jobs.length === 0
      if (isAll) wholeGroup = group
      const done = await runGroup(batch, group, !isAll)
      if (done) outcomes.push(...done)
      else jobs.unshift(...group.map(alone))
    }
    await commitAll(batch)
  } catch (error) {
    // Its statements may have failed only now, if the connection is pipelined.
    const mayGroupHaveFailed = outcomes.length === 0 || connection.isPipelined
    if (wholeGroup.length > 1 && mayGroupHaveFailed && !connection.isLost(error)) {
      await connection.rollback().catch(() => undefined)
      for (const done of transaction.afterEnd) tell(done)
      return [...wholeGroup.map(alone), ...jobs]
    }
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

/** Runs by itself in the next batch. */
const alone = (job: Job): Job => ({ ...job, group: undefined })

async function commitAll({ connection, transaction, unanswered }: Batch): Promise<void> {
  for (const finish of transaction.beforeCommit.values()) {
    if (connection.isPipelined) transaction.later(finish())
    else await finish()
  }
  await afterAnswers({ connection, unanswered }, connection.commit)
}

/**
 * Takes the step once all statements have succeeded. On a pipelined connection the step follows them at once, because the
 * engine refuses it after a failed statement; only a statement that could not be sent holds it back.
 */
async function afterAnswers(
  { connection, unanswered }: Pick<Batch, 'connection' | 'unanswered'>,
  step: () => Promise<void>,
): Promise<void> {
  const sent = unanswered.splice(0)
  if (!connection.isPipelined) {
    await Promise.all(sent)
    return step()
  }
  await Promise.race([Promise.all(sent), settleLocally()]).catch(() => requireAll(connection, sent))
  await requireAll(connection, [...sent, step()])
}

/** Waits for every answer, and throws the error that caused the others. */
async function requireAll(connection: EngineConnection, sent: readonly Promise<unknown>[]): Promise<void> {
  const outcomes = await Promise.allSettled(sent)
  const failed = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason] : []))
  if (failed.length > 0) throw failed.find((error) => !connection.isFollowUp?.(error)) ?? failed[0]
}

/** Resolves after everything that waits for no input: a statement that could not be sent has failed by then. */
const settleLocally = (): Promise<void> => new Promise((resolve) => void process.nextTick(resolve))

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
async function runGroup(batch: Batch, group: readonly Job[], useSavepoint: boolean): Promise<Outcome[] | undefined> {
  const { connection, transaction, unanswered } = batch
  const scratch = new Map(transaction.scratch)
  const beforeCommit = new Map(transaction.beforeCommit)
  const afterCommit = [...transaction.afterCommit]
  const [first] = group
  if (!first) return []
  try {
    if (useSavepoint) await connection.savepoint()
    const items = group.map(({ item }) => item)
    const settled = await first.work(transaction, items)
    if (useSavepoint) await afterAnswers(batch, connection.releaseSavepoint)
    else if (!connection.isPipelined) await Promise.all(unanswered.splice(0))
    return group.map((job, index) => ({ job, settled: settled[index] ?? missing }))
  } catch (thrown) {
    const sent = unanswered.splice(0)
    const error = connection.isFollowUp?.(thrown) ? await causeOf(requireAll(connection, sent), thrown) : thrown
    const rejectAll = () => {
      for (const job of group) job.reject(error)
    }
    const isLost = connection.isLost(error)
    if (!useSavepoint && group.length > 1 && !isLost) throw error
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

const causeOf = (answers: Promise<void>, thrown: unknown): Promise<unknown> =>
  answers.then(
    () => thrown,
    (earlier: unknown) => earlier,
  )

const missing: PromiseRejectedResult = { status: 'rejected', reason: new Error('joint work forgot one of its items') }
