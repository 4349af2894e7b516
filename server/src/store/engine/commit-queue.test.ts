/** Group commit: transactions that share a commit, and joint work for concurrent callers. */
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import {
  createSqlDatabase,
  findItem,
  insertItem,
  type Settled,
  settle,
  soon,
  unused,
} from '../../../../test/sql-engine.ts'
import { Failure } from '../../failure.ts'
import { anyOf, type Db, type Engine, forUpdate, type JointWork, sql, type Transaction } from './sql.ts'

let engine: Engine
let other: Engine
let close: () => Promise<void>

beforeAll(async () => {
  ;({ engine, other, close } = await createSqlDatabase())
})
afterAll(() => close())

const commit = <Result>(work: (db: Db) => Promise<Result>, lock = 'test') =>
  engine.transaction(lock, ({ db }) => work(db))

/** Runs the works in one shared commit. The clock is slowed down so that no batch ends early. */
async function shareCommit(works: ((transaction: Transaction) => Promise<unknown>)[]): Promise<Settled[]> {
  const seen = new Set<Transaction>()
  let now = performance.now()
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => {
    now += 0.01
    return now
  })
  const settling = works.map((work) =>
    settle(
      engine.transaction('shared', (transaction) => {
        seen.add(transaction)
        return work(transaction)
      }),
    ),
  )
  const outcomes = await Promise.all(settling).finally(() => clock.mockRestore())
  expect(seen.size).toBe(1)
  return outcomes
}

describe('joint work for concurrent callers', () => {
  type Wanted = { id: string; refused?: true }
  let batches: string[][] = []

  /** Inserts the wanted items; a duplicate id fails the whole batch. */
  const insertAll: JointWork<Wanted, string> = async ({ db }, items) => {
    batches.push(items.map(({ id }) => id))
    for (const { id, refused } of items) if (!refused) await insertItem(db, id)
    return items.map(({ id, refused }) =>
      refused ? { status: 'rejected', reason: new Failure('forbidden') } : { status: 'fulfilled', value: id },
    )
  }
  const join = (wanted: Wanted, group = 'group') => engine.joinTransaction('joint', group, wanted, insertAll)
  const isKept = async (id: string) => (await findItem(engine, id)) !== undefined

  test('is done in one batch, with a separate result for each caller', async () => {
    batches = []
    const wanted = Array.from(
      { length: 20 },
      (_, index): Wanted => ({
        id: unused(),
        ...(index % 4 === 0 && { refused: true as const }),
      }),
    )
    const outcomes = await Promise.allSettled(wanted.map((one) => join(one)))
    expect(batches.length).toBeLessThan(5)
    expect(batches.flat()).toEqual(wanted.map(({ id }) => id))
    for (const [index, { id, refused }] of wanted.entries()) {
      expect(outcomes[index]).toMatchObject(refused ? { reason: { code: 'forbidden' } } : { value: id })
      expect(await isKept(id)).toBe(!refused)
    }
  })

  test('is repeated for each caller alone if it fails for one, next to other transactions', async () => {
    const taken = unused()
    await commit((db) => insertItem(db, taken))
    const wanted = [unused(), taken, unused(), unused()].map((id) => ({ id }))
    const beside = unused()
    batches = []
    const [other, ...outcomes] = await Promise.allSettled([
      engine.transaction('joint', ({ db }) => insertItem(db, beside)),
      ...wanted.map((one) => join(one)),
    ])
    expect(other.status).toBe('fulfilled')
    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled', 'fulfilled'])
    expect(batches).toEqual([wanted.map(({ id }) => id), ...wanted.map(({ id }) => [id])])
    for (const { id } of [...wanted, { id: beside }]) expect(await isKept(id)).toBe(true)
  })

  test('is repeated for each caller alone if it fails for one, with nothing else in the batch', async () => {
    const taken = unused()
    await commit((db) => insertItem(db, taken))
    const wanted = [unused(), taken, unused()].map((id) => ({ id }))
    batches = []
    const calls: string[] = []
    const recording: JointWork<Wanted, string> = async (transaction, items) => {
      transaction.afterCommit.push(() => calls.push(items.map(({ id }) => id).join()))
      return insertAll(transaction, items)
    }
    const outcomes = await Promise.allSettled(
      wanted.map((one) => engine.joinTransaction('joint', 'group', one, recording)),
    )
    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
    expect(batches).toEqual([wanted.map(({ id }) => id), ...wanted.map(({ id }) => [id])])
    // The callbacks of rolled-back work do not run.
    expect(calls).toEqual([wanted[0]?.id, wanted[2]?.id])
    for (const { id } of wanted) expect(await isKept(id)).toBe(true)
  })

  test('is not mixed with the work of another group', async () => {
    batches = []
    const [left, right] = [unused(), unused()].map((name) => [`${name}-1`, `${name}-2`, `${name}-3`])
    const all = [0, 1, 2].flatMap((index) => [
      join({ id: left?.[index] ?? '' }, 'left'),
      join({ id: right?.[index] ?? '' }, 'right'),
    ])
    await Promise.all(all)
    for (const batch of batches) expect(new Set(batch.map((id) => left?.includes(id))).size).toBe(1)
    expect(batches.flat().sort()).toEqual([...(left ?? []), ...(right ?? [])].sort())
  })

  test('fails for all callers if the commit fails', async () => {
    const wanted = [{ id: unused() }, { id: unused() }]
    const failing = engine.transaction('joint', async ({ beforeCommit }) => {
      beforeCommit.set('fails', async () => {
        throw new Failure('unavailable')
      })
    })
    const outcomes = await Promise.allSettled([failing, ...wanted.map((one) => join(one))])
    expect(outcomes.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected'])
    for (const { id } of wanted) expect(await isKept(id)).toBe(false)
  })
})

describe('transactions that share a commit', () => {
  test('are independent: a failing one does not roll back the others', async () => {
    let ids: string[] = []
    const insertNth = (nth: number) => async (transaction: Transaction) => {
      if (nth === 0) ids = [unused(), unused(), unused()]
      await insertItem(transaction.db, ids[nth] ?? '')
      if (nth === 1) throw new Failure('forbidden')
    }
    const outcomes = await shareCommit([insertNth(0), insertNth(1), insertNth(2)])
    expect(outcomes.map(({ ok }) => ok)).toEqual([true, false, true])
    const kept = await engine.all<{ id: string }>(sql`select id from item where id ${anyOf(ids)} order by id`)
    expect(kept.map(({ id }) => id).sort()).toEqual([ids[0], ids[2]].sort())
  })

  test('restore scratch and the callbacks before and after the commit when one of them fails', async () => {
    let calls: string[] = []
    let scratch: unknown[] = []
    const note = (name: string, fails: boolean) => async (transaction: Transaction) => {
      if (name === 'first') {
        calls = []
        scratch = []
      }
      transaction.scratch.set(name, name)
      transaction.scratch.set('last', name)
      transaction.beforeCommit.set(name, async () => void calls.push(`before ${name}`))
      transaction.beforeCommit.set('last', async () => void calls.push(`before last ${name}`))
      transaction.afterCommit.push(() => calls.push(`after ${name}`))
      if (fails) throw new Failure('forbidden')
      if (name === 'third') scratch = [...transaction.scratch]
    }
    await shareCommit([note('first', false), note('second', true), note('third', false)])
    expect(calls).toEqual(['before first', 'before last third', 'before third', 'after first', 'after third'])
    expect(scratch).toEqual([
      ['first', 'first'],
      ['last', 'third'],
      ['third', 'third'],
    ])
  })

  test('run one beforeCommit callback per name, the last one set', async () => {
    let calls: string[] = []
    const ask =
      (name: string) =>
      async ({ beforeCommit }: Transaction) => {
        if (name === 'a') calls = []
        beforeCommit.set('once', async () => void calls.push(name))
      }
    await shareCommit([ask('a'), ask('b'), ask('c')])
    expect(calls).toEqual(['c'])
  })

  test('all fail if a beforeCommit callback fails, and the next ones are served', async () => {
    let ids: string[] = []
    const outcomes = await shareCommit([
      async ({ db }) => {
        ids = [unused(), unused()]
        await insertItem(db, ids[0] ?? '')
      },
      async ({ db, beforeCommit }) => {
        await insertItem(db, ids[1] ?? '')
        beforeCommit.set('seal', async () => {
          throw new Failure('unavailable')
        })
      },
    ])
    expect(outcomes).toMatchObject([
      { ok: false, error: { code: 'unavailable' } },
      { ok: false, error: { code: 'unavailable' } },
    ])
    expect(await engine.all(sql`select id from item where id ${anyOf(ids)}`)).toEqual([])
    const next = unused()
    await soon(
      commit((db) => insertItem(db, next), 'shared'),
      'the next transaction',
    )
    expect(await findItem(engine, next)).toBeDefined()
  })

  test('are acknowledged only after the commit, and readers see nothing before it', async () => {
    let ids: string[] = []
    let isFirstAcknowledged = false
    let seenBefore: unknown[] = []
    let wasAcknowledgedBefore = true
    await shareCommit([
      async ({ db, afterCommit }) => {
        ids = [unused(), unused()]
        isFirstAcknowledged = false
        afterCommit.push(() => {
          wasAcknowledgedBefore = isFirstAcknowledged
        })
        await insertItem(db, ids[0] ?? '')
      },
      async ({ db }) => {
        await insertItem(db, ids[1] ?? '')
        expect(await findItem(db, ids[0] ?? '')).toBeDefined()
        seenBefore = [...(await readBoth(ids)), isFirstAcknowledged]
      },
    ])
    expect(seenBefore).toEqual([[], [], false])
    expect(wasAcknowledgedBefore).toBe(false)
    const first = unused()
    await engine
      .transaction('shared', ({ db }) => insertItem(db, first))
      .then(() => {
        isFirstAcknowledged = true
      })
    expect(isFirstAcknowledged).toBe(true)
    expect(await readBoth([first])).toEqual([[{ id: first }], [{ id: first }]])
  })

  const readBoth = (ids: string[]) =>
    Promise.all([engine, other].map((node) => node.all(sql`select id from item where id ${anyOf(ids)}`)))

  test('with one lock run in order of arrival', async () => {
    const ids = Array.from({ length: 300 }, (_, index) => String(index))
    const ran: string[] = []
    const acknowledged: string[] = []
    await Promise.all(
      ids.map((id) =>
        engine
          .transaction('ordered', async ({ db }) => {
            ran.push(id)
            await db.run(sql`insert into arrival (id) values (${id})`)
          })
          .then(() => acknowledged.push(id)),
      ),
    )
    const rows = await engine.all<{ id: string }>(sql`select id from arrival order by sequence`)
    expect(ran).toEqual(ids)
    expect(acknowledged).toEqual(ids)
    expect(rows.map(({ id }) => id)).toEqual(ids)
  })
})

test('reads outside a transaction are served while many transactions wait for them', async () => {
  // A node does this when it meets rows under keys that it has not loaded yet.
  const works = Array.from({ length: 40 }, (_, index) =>
    engine.transaction(`asking ${index}`, async ({ db }) => {
      const id = unused()
      await insertItem(db, id)
      await new Promise((resolve) => setTimeout(resolve, 20))
      return (await engine.one<{ count: number }>(sql`select count(*) as count from item where id = ${id}`))?.count
    }),
  )
  const seen = await soon(Promise.all(works), 'every result')
  expect(seen).toEqual(works.map(() => 0))
})

test('200 parallel transfers, some failing half-way, keep the sum and exactly the acknowledged changes', async () => {
  const owners = 4
  const accounts = Array.from({ length: owners * 3 }, (_, index) => `account-${String(index).padStart(2, '0')}`)
  const model = new Map(accounts.map((id) => [id, 1_000]))
  await commit(async (db) => {
    for (const id of accounts) await db.run(sql`insert into balance (id, amount) values (${id}, 1000)`)
  })
  const sum = async () =>
    (await engine.one<{ total: number }>(sql`select cast(sum(amount) as bigint) as total from balance`))?.total
  const move = (db: Db, id: string, by: number) =>
    db.run(sql`update balance set amount = amount + ${by} where id = ${id}`)

  const pick = <Item>(list: readonly Item[]): Item => {
    const item = list[Math.floor(Math.random() * list.length)]
    if (item === undefined) throw new Error('the list is empty')
    return item
  }
  let isOver = false
  const sums = new Set<number | undefined>()
  const watching = (async () => {
    while (!isOver) {
      sums.add(await sum())
      await new Promise((resolve) => setImmediate(resolve))
    }
  })()
  const outcomes = await Promise.all(
    Array.from({ length: 200 }, async (_, index) => {
      const owner = index % owners
      const own = accounts.slice(owner * 3, owner * 3 + 3)
      const [from, to, by] = [pick(own), pick(own), 1 + Math.floor(Math.random() * 50)]
      const failure = pick(['none', 'none', 'at first', 'half-way', 'at last', 'conflict'] as const)
      const node = pick([engine, other])
      const outcome = await settle(
        node.transaction(`owner-${owner}`, async ({ db }) => {
          if (failure === 'at first') throw new Failure('forbidden')
          // A transaction that changes several rows locks one of them first, so that two nodes do not deadlock.
          await db.one(sql`select id from balance where id = ${own[0] ?? ''} ${forUpdate}`)
          await move(db, from, -by)
          if (failure === 'half-way') throw new Failure('forbidden')
          if (failure === 'conflict') await db.run(sql`insert into balance (id, amount) values (${to}, 0)`)
          await move(db, to, by)
          if (failure === 'at last') throw new Failure('forbidden')
        }),
      )
      expect(outcome.ok, failure).toBe(failure === 'none')
      if (outcome.ok) {
        model.set(from, (model.get(from) ?? 0) - by)
        model.set(to, (model.get(to) ?? 0) + by)
      }
      return outcome.ok
    }),
  )
  isOver = true
  await watching
  expect(outcomes.filter(Boolean).length).toBeGreaterThan(20)
  expect([...sums]).toEqual([accounts.length * 1_000])
  const rows = await engine.all<{ id: string; amount: number }>(sql`select id, amount from balance order by id`)
  expect(new Map(rows.map(({ id, amount }) => [id, amount]))).toEqual(model)
})
