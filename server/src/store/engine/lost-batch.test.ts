/** What the queue makes of a connection that is lost or refused, at each of its steps. */
import { describe, expect, test } from 'vitest'
import { itemJob, newTrace, traceLink } from '../../../../test/job.ts'
import { settle, soon } from '../../../../test/sql-engine.ts'
import { Failure } from '../../failure.ts'
import { createCommitQueue } from './commit-queue.ts'
import type { Connection } from './open-transaction.ts'
import { sql } from './sql.ts'

type Step = 'ask' | 'send' | 'commit' | 'rollback'

/** A connection without a server: every call succeeds until it is cut. */
function fakeConnection() {
  const calls: Step[] = []
  let failing: ReadonlySet<Step> = new Set()
  let error: unknown
  let times = 0
  const step = async (name: Step) => {
    calls.push(name)
    if (failing.has(name) && times-- > 0) throw error
  }
  const connection: Connection = {
    locked: undefined,
    isPipelined: false,
    ask: {
      one: () => step('ask').then(() => undefined),
      all: () => step('ask').then(() => []),
      count: () => step('ask').then(() => 0),
    },
    send: () => step('send'),
    commit: () => step('commit'),
    rollback: () => step('rollback'),
  }
  return {
    connection,
    calls,
    cut: (
      steps: readonly Step[] = ['ask', 'send', 'commit', 'rollback'],
      by: unknown = new Failure('unavailable'),
      count = Number.POSITIVE_INFINITY,
    ) => {
      failing = new Set(steps)
      error = by
      times = count
    },
  }
}

describe('a lost connection', () => {
  test('fails its own transaction alone, also one that failed for another reason', async () => {
    const { connection, cut, calls } = fakeConnection()
    const queue = createCommitQueue(async () => connection)
    const outcomes = await soon(
      Promise.all([
        settle(queue.run(async () => 'kept')),
        settle(
          queue.run(async () => {
            cut()
            throw new Failure('conflict')
          }),
        ),
      ]),
      'every result',
    )
    expect(outcomes).toMatchObject([{ ok: true }, { ok: false, error: { code: 'conflict' } }])
    expect(calls).toEqual(['commit', 'rollback'])
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
    expect(whole.calls).toEqual(['commit'])
    expect(queue.isIdle).toBe(true)
  })

  test('that cannot be opened fails the waiting transactions and jobs, and is retried for the next', async () => {
    let isAway = true
    const { connection } = fakeConnection()
    const queue = createCommitQueue(async () => {
      if (isAway) throw new Failure('unavailable')
      return connection
    })
    const waiting = [queue.run(async () => 1), queue.commit('lock', itemJob('a')), queue.run(async () => 2)]
    const refused = await Promise.all(waiting.map(settle))
    isAway = false
    expect([...refused, await settle(queue.run(async () => 3))].map(({ ok }) => ok)).toEqual([
      false,
      false,
      false,
      true,
    ])
  })
})

describe('jobs of one commit', () => {
  const run = async (cut: (fake: ReturnType<typeof fakeConnection>) => void, isPassing?: () => boolean) => {
    const fake = fakeConnection()
    cut(fake)
    const [trace, plans] = [newTrace(), [] as string[]]
    const queue = createCommitQueue(async () => fake.connection, isPassing && { isPassing })
    const jobOf = (id: string) => itemJob(id, { trace, plan: () => void plans.push(id) })
    const outcomes = await Promise.all(['a', 'b', 'c'].map((id) => settle(queue.commit('lock', jobOf(id)))))
    return { outcomes, plans, trace, calls: fake.calls }
  }

  test('are not repeated once their commit was sent and its outcome is unknown', async () => {
    const { outcomes, plans, trace, calls } = await run(({ cut }) => cut(['commit', 'rollback']))
    for (const outcome of outcomes) expect(outcome).toMatchObject({ ok: false, error: { code: 'unavailable' } })
    expect(plans).toEqual(['a', 'b', 'c'])
    expect(calls).toEqual(['commit', 'rollback'])
    expect(trace).toEqual({ links: [['a', 'b', 'c']], told: ['settled a b c'] })
  })

  test('are each repeated alone, once, if their commit was refused for what they wrote', async () => {
    const { outcomes, plans, trace, calls } = await run(({ cut }) => cut(['commit'], new Failure('conflict')))
    for (const outcome of outcomes) expect(outcome).toMatchObject({ ok: false, error: { code: 'conflict' } })
    expect(plans).toEqual(['a', 'b', 'c', 'a', 'b', 'c'])
    expect(calls).toEqual(Array.from({ length: 4 }, () => ['commit', 'rollback']).flat())
    expect(trace.links).toEqual([['a', 'b', 'c'], ['a'], ['b'], ['c']])
    expect(trace.told).toEqual(['settled a b c', 'settled a', 'settled b', 'settled c'])
  })

  test('are each repeated alone, up to three times, if they ran into another transaction', async () => {
    const always = await run(
      ({ cut }) => cut(['commit'], new Failure('unavailable')),
      () => true,
    )
    for (const outcome of always.outcomes) expect(outcome).toMatchObject({ ok: false, error: { code: 'unavailable' } })
    expect(always.plans.join('')).toBe('abcaaabbbccc')
    const twice = await run(
      ({ cut }) => cut(['commit'], new Failure('unavailable'), 2),
      () => true,
    )
    expect(twice.outcomes.map(({ ok }) => ok)).toEqual([true, true, true])
    expect(twice.plans.join('')).toBe('abcaabc')
  })
})

describe('a link', () => {
  const told = async (harden?: () => Promise<void>, cut?: Step) => {
    const fake = fakeConnection()
    if (cut) fake.cut([cut])
    const trace = newTrace()
    const options = { link: traceLink(trace), note: 'own' }
    const queue = createCommitQueue(async () => fake.connection, harden && { harden })
    const outcome = await settle(queue.run(async ({ db }) => db.one(sql`select 1`), options))
    return { isDone: outcome.ok, told: trace.told }
  }

  test('learns once that its commit is visible, and once that all is settled', async () => {
    const both = ['committed own', 'settled own']
    expect(await told()).toEqual({ isDone: true, told: both })
    expect(await told(async () => undefined)).toEqual({ isDone: true, told: both })
  })

  test('learns of a commit that is visible but not durable, whose caller is refused', async () => {
    const harden = async () => {
      throw new Failure('unavailable')
    }
    expect(await told(harden)).toMatchObject({ isDone: false, told: ['committed own', 'settled own'] })
  })

  test('of a commit with an unknown outcome learns only that it is settled', async () => {
    expect(await told(undefined, 'commit')).toMatchObject({ isDone: false, told: ['settled own'] })
  })

  test('that was never written is told nothing', async () => {
    expect(await told(undefined, 'ask')).toMatchObject({ isDone: false, told: [] })
  })

  test('is settled before its caller learns of the commit, and the next transaction need not wait for that', async () => {
    const { connection } = fakeConnection()
    const steps: string[] = []
    const disk = Promise.withResolvers<void>()
    const queue = createCommitQueue(async () => connection, { harden: () => disk.promise })
    const trace = { links: [], told: steps }
    const options = { link: traceLink(trace), note: 'own' }
    const own = queue.run(async () => undefined, options).then(() => steps.push('acknowledged'))
    const next = queue.run(async () => {
      steps.push('next')
      disk.resolve()
    })
    await Promise.all([own, next])
    expect(steps).toEqual(['committed own', 'next', 'settled own', 'acknowledged'])
    expect(queue.isIdle).toBe(true)
  })

  test('that fails when it is told does not stop the queue, nor its callers', async () => {
    const { connection } = fakeConnection()
    const queue = createCommitQueue(async () => connection)
    const unhandled: unknown[] = []
    const note = (error: unknown) => void unhandled.push(error)
    process.on('unhandledRejection', note)
    const fail = () => {
      throw new Error('a listener that fails')
    }
    const link = {
      ...traceLink(newTrace()),
      write: async () => ({ committed: fail, settled: fail }),
    }
    const outcomes = [
      queue.run(async () => undefined, { link, note: 'own' }),
      queue.commit('lock', itemJob('a', { link })),
      queue.run(async () => undefined),
    ].map((promise) => settle(soon<unknown>(promise, 'the result of a committed transaction')))
    const settled = await Promise.all(outcomes).finally(() => process.off('unhandledRejection', note))
    expect(settled).toEqual([{ ok: true }, { ok: true }, { ok: true }])
    expect(unhandled).toEqual([])
  })
})
