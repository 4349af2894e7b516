/**
 * Transactions of one lock run one after another. Jobs that wait at the same moment share one: all of them read, each
 * plans, and their additions are committed together. While a commit waits for the disk, the next transaction runs; one
 * wait covers all commits before it.
 */
import { yieldToEventLoop } from '../../event-loop.ts'
import { isFailure } from '../../failure.ts'
import { askTogether } from './ask-together.ts'
import { createDrafts } from './draft.ts'
import { type Connection, type OpenTransaction, openTransaction } from './open-transaction.ts'
import { type Job, type Link, type Linked, readOnly, type Transaction, type TransactionOptions } from './sql.ts'

type AnyJob = Job<unknown, unknown, unknown>
type Caller = { resolve(value: unknown): void; reject(error: unknown): void }
type AloneOptions<Note> = Pick<TransactionOptions<Note>, 'isDry' | 'link' | 'note'>
type Alone = Caller & {
  readonly work: (transaction: Transaction) => Promise<unknown>
  readonly options: AloneOptions<unknown>
}
type Joined = Caller & {
  /** Only jobs of one lock share a commit. */
  readonly lock: string
  readonly job: AnyJob
  /** Set once a commit with others has failed: then each job runs by itself. */
  readonly isAlone: boolean
  /** How often it ran into another transaction. */
  readonly conflicts: number
}
type Task = Alone | Joined

/** The turn of the event loop in which the plans of one commit run is bounded by their number and size. */
const maxJobs = 64
const maxBytes = 256 * 1024

/** A job that runs into other transactions again and again is refused. */
const maxConflicts = 3

/**
 * Callers who were answered together mostly come back together, a moment later: the next commit waits until nobody has
 * come for this long. Without it, two groups of callers take turns, and each waits for the commits of both.
 */
const quietMs = 0.15

export type CommitQueue = {
  run<Result, Note>(work: (transaction: Transaction) => Promise<Result>, options?: AloneOptions<Note>): Promise<Result>
  commit<Read, Result, Note>(lock: string, job: Job<Read, Result, Note>): Promise<Result>
  readonly isIdle: boolean
}

type Options = {
  /** Resolves once every commit survives a power failure. Absent if `commit` itself waits for the disk. */
  readonly harden?: () => Promise<void>
  /** True for a conflict with another transaction, which was rolled back for it. */
  readonly isPassing?: (error: unknown) => boolean
  readonly onIdle?: () => void
  /** The storage failed, or the only task of a transaction did. */
  readonly onFailure?: (error: unknown) => void
}

export function createCommitQueue(begin: () => Promise<Connection>, options: Options = {}): CommitQueue {
  const { harden, isPassing, onIdle, onFailure } = options
  const waiting: Task[] = []
  let isRunning = false
  let hardening = 0
  /** How many jobs the next commit can expect: those that wait, and the callers who were answered last. */
  let expected = 0
  /** The last wait for the disk; it never fails. */
  let disk: Promise<void> | undefined

  async function drain(): Promise<void> {
    while (waiting.length > 0) {
      // Jobs that arrive in this turn of the event loop, or while the transaction begins, share the commit; so do those that
      // arrive while the disk is busy, because the next commit would wait for it anyway.
      await yieldToEventLoop()
      const [first] = waiting
      if (first && 'job' in first) {
        await disk
        await gather()
      }
      await runNext()
    }
    isRunning = false
    if (hardening === 0) onIdle?.()
  }

  function add(task: Task): void {
    waiting.push(task)
    if (isRunning) return
    isRunning = true
    drain()
  }

  async function gather(): Promise<void> {
    let count = waiting.length
    let changedAt = performance.now()
    while (count < Math.min(expected, maxJobs) && performance.now() - changedAt < quietMs) {
      await yieldToEventLoop()
      if (waiting.length > count) changedAt = performance.now()
      count = waiting.length
    }
    expected = 0
  }

  async function runNext(): Promise<void> {
    let connection: Connection
    try {
      connection = await begin()
    } catch (error) {
      onFailure?.(error)
      for (const task of waiting.splice(0, maxJobs)) task.reject(error)
      return
    }
    const [first] = waiting
    if (!first) await connection.rollback()
    else if ('work' in first) await runAlone(connection, waiting.shift() as Alone)
    else await runJobs(connection, takeJobs())
  }

  async function runAlone(connection: Connection, { work, options, resolve, reject }: Alone): Promise<void> {
    const transaction = openTransaction(connection)
    let linked: Linked | undefined
    try {
      const result = await work(transaction)
      if (options.isDry) {
        await transaction.sendWaiting()
        await transaction.rollback()
        return resolve(result)
      }
      if (options.link) linked = await write(transaction, options.link, [options.note])
      await transaction.commit()
      settle(linked, () => resolve(result), reject)
    } catch (error) {
      await transaction.rollback().catch(() => undefined)
      onFailure?.(error)
      tell(linked?.settled)
      reject(error)
    }
  }

  /** The first jobs that wait, in their order, past transactions that run alone. */
  function takeJobs(): Joined[] {
    const jobs: Joined[] = []
    let bytes = 0
    for (let index = 0; index < waiting.length && jobs.length < maxJobs; ) {
      const task = waiting[index]
      const [first] = jobs
      const isWanted = task !== undefined && 'job' in task && (!first || (!task.isAlone && task.lock === first.lock))
      if (!isWanted) {
        index++
        continue
      }
      bytes += task.job.bytes ?? 0
      if (jobs.length > 0 && bytes > maxBytes) break
      jobs.push(task)
      waiting.splice(index, 1)
      if (task.isAlone) break
    }
    return jobs
  }

  async function runJobs(connection: Connection, joined: readonly Joined[]): Promise<void> {
    const transaction = openTransaction(connection)
    let linked: Linked | undefined
    try {
      const { outcomes, notes } = await planAll(transaction, joined)
      const [first] = joined
      const answer = () => {
        for (const { task, isRefused, value } of outcomes) (isRefused ? task.reject : task.resolve)(value)
        expected = waiting.length + outcomes.length
      }
      if (notes.length === 0) {
        await transaction.rollback()
        return answer()
      }
      if (first) linked = await write(transaction, first.job.link, notes)
      await transaction.commit()
      const fail = (error: unknown) => {
        for (const { task } of outcomes) task.reject(error)
      }
      settle(linked, answer, fail)
    } catch (error) {
      await transaction.rollback().catch(() => undefined)
      tell(linked?.settled)
      const hasConflict = isPassing?.(error) ?? false
      // Storage that is away may have committed, or would fail each job again.
      const isAway = isFailure(error, 'unavailable') && !hasConflict
      const mayRepeat = hasConflict ? joined.every(({ conflicts }) => conflicts < maxConflicts) : joined.length > 1
      if (mayRepeat && !isAway) {
        const repeated = ({ conflicts, ...task }: Joined) => ({ ...task, conflicts: conflicts + (hasConflict ? 1 : 0) })
        waiting.unshift(...joined.map((task) => ({ ...repeated(task), isAlone: true })))
      } else {
        onFailure?.(error)
        for (const { reject } of joined) reject(error)
      }
    }
  }

  /** Ends a transaction that is committed. The next one need not wait for the disk. */
  function settle(linked: Linked | undefined, answer: () => void, fail: (error: unknown) => void): void {
    tell(linked?.committed)
    if (!harden) {
      tell(linked?.settled)
      answer()
      return
    }
    hardening++
    const end = (done: () => void) => {
      hardening--
      tell(linked?.settled)
      done()
      if (hardening === 0 && !isRunning) onIdle?.()
    }
    disk = harden().then(
      () => end(answer),
      (error: unknown) => {
        onFailure?.(error)
        // The commit has happened, even if it is not durable yet.
        end(() => fail(error))
      },
    )
  }

  return {
    // The queue holds tasks of all types; each resolves with the result of its own work.
    run: <Result, Note>(work: (transaction: Transaction) => Promise<Result>, options: AloneOptions<Note> = {}) =>
      new Promise<Result>((resolve, reject) => add({ work, options, resolve, reject } as Alone)),
    commit: <Read, Result, Note>(lock: string, job: Job<Read, Result, Note>) =>
      new Promise<Result>((resolve, reject) =>
        add({ lock, job, isAlone: false, conflicts: 0, resolve, reject } as Joined),
      ),
    get isIdle() {
      return !isRunning && hardening === 0
    },
  }
}

const write = <Note>(transaction: OpenTransaction, link: Link<Note>, notes: readonly Note[]): Promise<Linked> =>
  transaction.within(link.asFailure, () => link.write(transaction, notes))

type Outcome = { readonly task: Joined; readonly isRefused: boolean; readonly value: unknown }

/** Runs the jobs up to their plans, and adds what these add to the transaction. A refusal is the outcome of one job. */
async function planAll(
  transaction: OpenTransaction,
  joined: readonly Joined[],
): Promise<{ outcomes: Outcome[]; notes: unknown[] }> {
  const db = readOnly(transaction.db)
  const answers = await askTogether(
    db,
    joined.flatMap(({ job }) => job.asks ?? []),
  )
  const read = await Promise.allSettled(joined.map(async ({ job }) => job.read(db, answers)))
  transaction.requireWhole()
  const drafts = createDrafts()
  const notes: unknown[] = []
  const outcomes = joined.map((task, index): Outcome => {
    const draft = drafts.begin()
    try {
      const answer = read[index]
      if (answer?.status !== 'fulfilled') throw answer?.reason
      const { result, note } = task.job.plan(answer.value, draft.desk, drafts.db)
      draft.keep()
      notes.push(note)
      return { task, isRefused: false, value: result }
    } catch (error) {
      return { task, isRefused: true, value: error }
    }
  })
  drafts.writeTo(transaction.db)
  return { outcomes, notes }
}

/** A failing listener must affect neither the commit nor the results of its callers. */
function tell(listener: (() => void) | undefined): void {
  try {
    listener?.()
  } catch (error) {
    process.emitWarning(error instanceof Error ? error : 'a listener of a commit failed')
  }
}
