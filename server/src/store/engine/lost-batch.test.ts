/** A connection that is lost or refused fails the transactions of its batch, and never those of later batches. */
import { describe, expect, test } from 'vitest'
import { settle, soon } from '../../../../test/sql-engine.ts'
import { Failure, isFailure } from '../../failure.ts'
import { createCommitQueue, type EngineConnection } from './commit-queue.ts'
import type { Db, Sql } from './sql.ts'

describe('a lost connection', () => {
  /** A connection without a server: every call succeeds until it is cut. */
  function fakeConnection(): {
    connection: EngineConnection
    cut(): void
    state: { commits: number; rollbacks: number }
  } {
    const state = { commits: 0, rollbacks: 0 }
    let isCut = false
    const step = async () => {
      if (isCut) throw new Failure('unavailable')
    }
    const nothing: Db = {
      one: async () => undefined,
      all: async () => [],
      run: async (_query: Sql) => 0,
      runMany: async () => undefined,
    }
    const connection: EngineConnection = {
      db: nothing,
      savepoint: step,
      releaseSavepoint: step,
      rollbackToSavepoint: step,
      commit: async () => {
        await step()
        state.commits++
      },
      rollback: async () => {
        state.rollbacks++
        await step()
      },
      isLost: (error) => isFailure(error, 'unavailable'),
    }
    return {
      connection,
      cut: () => {
        isCut = true
      },
      state,
    }
  }

  test('fails every transaction of its batch, also one that failed for another reason', async () => {
    const { connection, cut, state } = fakeConnection()
    const queue = createCommitQueue(async () => connection)
    const outcomes = await soon(
      Promise.all([
        settle(queue.run(async () => 'kept?')),
        settle(
          queue.run(async () => {
            cut()
            throw new Failure('conflict')
          }),
        ),
        settle(queue.run(async () => 'never run')),
      ]),
      'every result',
    )
    expect(outcomes.map(({ ok }) => ok)).toEqual([false, false, false])
    expect(state).toEqual({ commits: 0, rollbacks: 1 })
  })

  test('does not block later transactions', async () => {
    const broken = fakeConnection()
    const whole = fakeConnection()
    broken.cut()
    const connections = [broken, whole]
    const queue = createCommitQueue(async () => (connections.shift() ?? whole).connection)
    const first = await soon(settle(queue.run(async () => undefined)), 'the first')
    const second = await soon(settle(queue.run(async () => undefined)), 'the second')
    expect([first.ok, second.ok]).toEqual([false, true])
    expect(queue.isIdle || whole.state.commits === 1).toBe(true)
  })

  test('that cannot be opened fails the waiting transactions, and is retried for the next', async () => {
    let isAway = true
    const { connection } = fakeConnection()
    const queue = createCommitQueue(async () => {
      if (isAway) throw new Failure('unavailable')
      return connection
    })
    const refused = await Promise.all([settle(queue.run(async () => 1)), settle(queue.run(async () => 2))])
    isAway = false
    expect([...refused, await settle(queue.run(async () => 3))].map(({ ok }) => ok)).toEqual([false, false, true])
  })

  test('a failing afterCommit callback does not stop the queue', async () => {
    const { connection } = fakeConnection()
    const queue = createCommitQueue(async () => connection)
    const unhandled: unknown[] = []
    const note = (error: unknown) => void unhandled.push(error)
    process.on('unhandledRejection', note)
    const failing = queue.run(async ({ afterCommit }) => {
      afterCommit.push(() => {
        throw new Error('a listener that fails')
      })
    })
    const outcomes = [failing, queue.run(async () => undefined)].map((promise) =>
      settle(soon(promise, 'the result of a committed transaction')),
    )
    const [first, second] = await Promise.all(outcomes).finally(() => process.off('unhandledRejection', note))
    expect(first).toEqual({ ok: true })
    expect(second).toEqual({ ok: true })
    expect(unhandled).toEqual([])
  })
})
