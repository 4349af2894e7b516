/**
 * One open transaction on either engine. Additions wait in a list until the next question, or until the commit, so that a
 * remote engine gets them in one packet. A failed statement fails the whole transaction, even if its caller goes on.
 */
import type { Db, Sql, Transaction } from './sql.ts'

/** One insert for many rows, all from the same template. */
export type Insert = { readonly inserts: readonly Sql[] }
export type Statement = {
  readonly run: Sql | Insert
  /** What the transaction fails with if the statement does. */
  asFailure(error: unknown): unknown
}

/** A connection on which a transaction has begun. */
export type Connection = {
  readonly locked: Transaction['locked']
  /** True if a statement can be sent before the answers of earlier ones; the engine ignores all after a failed one. */
  readonly isPipelined: boolean
  /** Sent at once, without waiting for the answers of earlier statements. */
  readonly ask: Pick<Db, 'one' | 'all' | 'count'>
  /** Runs the statements in this order. Rejects with the failure of the first that failed, after all are answered. */
  send(statements: readonly Statement[]): Promise<void>
  /** Like `send`, and commits. The engine itself refuses to commit after a failed statement. */
  commit(statements: readonly Statement[]): Promise<void>
  rollback(): Promise<void>
}

export type OpenTransaction = Transaction & {
  /** Runs work whose failing statements fail the transaction with something else. */
  within<Result>(asFailure: (error: unknown) => unknown, work: () => Promise<Result>): Promise<Result>
  /** Throws the error of a statement that has failed. */
  requireWhole(): void
  /** Runs what was added, as a commit would: it may fail. */
  sendWaiting(): Promise<void>
  commit(): Promise<void>
  /** Waits for statements that are under way: none may run after the transaction. */
  rollback(): Promise<void>
}

const asItself = (error: unknown) => error

export function openTransaction(connection: Connection): OpenTransaction {
  const { ask, isPipelined, locked } = connection
  let list: Statement[] = []
  let sending: Promise<void> | undefined
  let isEnded = false
  let unanswered = 0
  let failure: { readonly error: unknown } | undefined
  let asFailure: Statement['asFailure'] = asItself

  function requireOpen(): void {
    if (isEnded) throw new Error('a statement came after the end of its transaction')
  }

  function requireWhole(): void {
    if (failure) throw failure.error
  }

  function takeList(): Statement[] {
    const taken = list
    list = []
    return taken
  }

  function sendList(): Promise<void> | undefined {
    const statements = takeList()
    if (statements.length === 0) return sending
    const sent = connection.send(statements)
    sending = sent
    const clear = () => {
      if (sending === sent) sending = undefined
    }
    sent.then(clear, clear)
    return sent
  }

  /** The answer of a question, once everything before it has succeeded. */
  async function answered<Answer>(question: () => Promise<Answer>): Promise<Answer> {
    requireOpen()
    // Some failures end the transaction in the database: a statement after them would be stored by itself.
    requireWhole()
    unanswered++
    let isSent = false
    try {
      const sent = sendList()
      if (!isPipelined) {
        await sent
        requireOpen()
      }
      const answer = question()
      // The failure of an earlier statement is the cause of this one's.
      answer.catch(() => undefined)
      await sent
      isSent = true
      return await answer
    } catch (thrown) {
      failure ??= { error: isSent ? asFailure(thrown) : thrown }
      throw failure.error
    } finally {
      unanswered--
    }
  }

  const add = (run: Sql | Insert) => {
    requireOpen()
    list.push({ run, asFailure })
  }

  const db: Db = {
    one: (query) => answered(() => ask.one(query)),
    all: (query) => answered(() => ask.all(query)),
    count: (query) => answered(() => ask.count(query)),
    write: (query) => add(query),
    writeMany: (rows, query) => {
      if (rows.length > 0) add({ inserts: rows.map(query) })
    },
  }

  return {
    db,
    locked,
    async within(asOther, work) {
      asFailure = asOther
      try {
        return await work()
      } finally {
        asFailure = asItself
      }
    },
    requireWhole,
    async commit() {
      if (unanswered > 0) throw new Error('a question of the transaction was not awaited')
      requireWhole()
      isEnded = true
      await connection.commit(takeList())
    },
    async sendWaiting() {
      await sendList()
      requireWhole()
    },
    async rollback() {
      isEnded = true
      await sending?.catch(() => undefined)
      await connection.rollback()
    },
  }
}
