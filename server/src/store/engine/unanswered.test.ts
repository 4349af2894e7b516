/** Statements that a transaction does not wait for, and rows that it locks at its start. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createSqlDatabase, findItem, insertItem, settle, soon, unused } from '../../../../test/sql-engine.ts'
import { Failure } from '../../failure.ts'
import { anyOf, type Engine, forUpdate, type JointWork, sql, type Transaction } from './sql.ts'

let engine: Engine
let other: Engine
let close: () => Promise<void>

beforeAll(async () => {
  ;({ engine, other, close } = await createSqlDatabase())
})
afterAll(() => close())

const isKept = async (id: string) => (await findItem(engine, id)) !== undefined
const later = (transaction: Transaction, id: string) => transaction.later(insertItem(transaction.db, id))

describe('a statement that the transaction does not wait for', () => {
  test('is committed with it, and seen by its later queries', async () => {
    const id = unused()
    const seen = await engine.transaction('later', async (transaction) => {
      later(transaction, id)
      return findItem(transaction.db, id)
    })
    expect(seen?.id).toBe(id)
    expect(await isKept(id)).toBe(true)
  })

  test('refuses the whole transaction with its own error if it fails, whatever follows', async () => {
    const [taken, fresh, before] = [unused(), unused(), unused()]
    await insertItem(engine, taken)
    const outcome = settle(
      engine.transaction('later', async (transaction) => {
        later(transaction, before)
        later(transaction, taken)
        later(transaction, fresh)
        transaction.beforeCommit.set('last', async () => {
          await insertItem(transaction.db, unused())
        })
      }),
    )
    expect(await soon(outcome, 'the transaction')).toMatchObject({ ok: false, error: { code: 'conflict' } })
    expect([await isKept(before), await isKept(fresh)]).toEqual([false, false])
  })

  test('is the reported error if a query after it fails because of it', async () => {
    const taken = unused()
    await insertItem(engine, taken)
    const outcome = settle(
      engine.transaction('later', async (transaction) => {
        later(transaction, taken)
        await findItem(transaction.db, taken)
      }),
    )
    expect(await soon(outcome, 'the transaction')).toMatchObject({ ok: false, error: { code: 'conflict' } })
  })

  test('fails only its own transaction of a shared commit', async () => {
    const taken = unused()
    await insertItem(engine, taken)
    const ids = Array.from({ length: 6 }, unused)
    const outcomes = await soon(
      Promise.all(
        [...ids.slice(0, 3), taken, ...ids.slice(3)].map((id) =>
          settle(engine.transaction('shared-later', async (transaction) => later(transaction, id))),
        ),
      ),
      'the transactions',
    )
    expect(outcomes.map(({ ok }) => ok)).toEqual([true, true, true, false, true, true, true])
    for (const id of ids) expect(await isKept(id)).toBe(true)
  })

  test('of joint work fails only its own caller, who gets its error', async () => {
    const taken = unused()
    await insertItem(engine, taken)
    const ids = [unused(), taken, unused()]
    const work: JointWork<string, string> = async (transaction, items) => {
      for (const id of items) later(transaction, id)
      return items.map((value) => ({ status: 'fulfilled', value }))
    }
    const outcomes = await soon(
      Promise.all(ids.map((id) => settle(engine.joinTransaction('joint-later', 'group', id, work)))),
      'the callers',
    )
    expect(outcomes).toMatchObject([{ ok: true }, { ok: false, error: { code: 'conflict' } }, { ok: true }])
  })

  describe('an insert of more rows than one statement holds', () => {
    const many = (transaction: Transaction, ids: readonly string[]) =>
      transaction.later(
        transaction.db.runMany(ids, (id) => sql`insert into item (id, label) values (${id}, ${'many'})`),
      )
    const keptOf = (ids: readonly string[]) =>
      engine.all<{ id: string }>(sql`select id from item where id ${anyOf(ids)}`).then((rows) => rows.length)

    test('is committed whole', async () => {
      const ids = Array.from({ length: 3_500 }, unused)
      await engine.transaction('many', async (transaction) => many(transaction, ids))
      expect(await keptOf(ids)).toBe(ids.length)
    })

    test.each([0, 1_500, 3_499])('is not committed at all if row %i fails', async (place) => {
      const ids = Array.from({ length: 3_500 }, unused)
      await insertItem(engine, ids[place] ?? '')
      const before = unused()
      const outcome = settle(
        engine.transaction('many', async (transaction) => {
          later(transaction, before)
          many(transaction, ids)
        }),
      )
      expect(await soon(outcome, 'the transaction')).toMatchObject({ ok: false, error: { code: 'conflict' } })
      expect([await keptOf(ids), await isKept(before)]).toEqual([1, false])
    })
  })

  test('that is sent after the commit reaches no other transaction', async () => {
    for (let round = 0; round < 20; round++) {
      const late = settle(
        engine.transaction(`late-${round}`, async (transaction) => {
          transaction.later(insertItem(transaction.db, unused()).then(() => insertItem(transaction.db, unused())))
        }),
      )
      const ids = Array.from({ length: 40 }, unused)
      const others = ids.map((id, index) =>
        settle(engine.transaction(`other-${index}`, async (transaction) => later(transaction, id))),
      )
      expect((await soon(Promise.all(others), 'the others')).filter(({ ok }) => !ok)).toEqual([])
      expect(await engine.all(sql`select id from item where id ${anyOf(ids)}`)).toHaveLength(ids.length)
      await soon(late, 'the transaction')
    }
  })

  test('that could not be sent keeps everything else from being committed', async () => {
    const id = unused()
    const outcome = settle(
      engine.transaction('later', async (transaction) => {
        later(transaction, id)
        transaction.later(Promise.reject(new Failure('internal')))
      }),
    )
    expect(await soon(outcome, 'the transaction')).toMatchObject({ ok: false, error: { code: 'internal' } })
    expect(await isKept(id)).toBe(false)
  })

  test('does no harm if the transaction fails for another reason first', async () => {
    const [id, next] = [unused(), unused()]
    const outcome = settle(
      engine.transaction('later', async (transaction) => {
        later(transaction, id)
        throw new Failure('forbidden')
      }),
    )
    expect(await soon(outcome, 'the transaction')).toMatchObject({ ok: false, error: { code: 'forbidden' } })
    await engine.transaction('later', async (transaction) => later(transaction, next))
    expect([await isKept(id), await isKept(next)]).toEqual([false, true])
  })
})

describe('rows locked at the start', () => {
  const balances = (ids: readonly string[]) =>
    sql`select id, amount from balance where id ${anyOf(ids)} order by id ${forUpdate}`
  const find = (id: string) => engine.one<{ amount: number }>(sql`select amount from balance where id = ${id}`)

  test('keep two nodes from losing an increment, and are the newest ones', async () => {
    const id = unused()
    await engine.run(sql`insert into balance (id, amount) values (${id}, 0)`)
    const increment = (node: Engine) =>
      node.transaction(
        `row-${id}`,
        async ({ db, locked, scratch }) => {
          const read = () => db.one<{ amount: number }>(sql`select amount from balance where id = ${id}`)
          // The casts are safe: the query names the column, and only this test uses the key. SQLite locks no rows.
          const [first = await read()] = locked as { amount: number }[]
          const amount = ((scratch.get(id) as number | undefined) ?? first?.amount ?? 0) + 1
          scratch.set(id, amount)
          await db.run(sql`update balance set amount = ${amount} where id = ${id}`)
        },
        balances([id]),
      )
    await soon(
      Promise.all(Array.from({ length: 60 }, (_, index) => increment(index % 2 ? other : engine))),
      'increments',
    )
    expect((await find(id))?.amount).toBe(60)
  })

  test('that cannot be locked do not keep the work from running', async () => {
    const id = unused()
    const missing = sql`select id from no_such_table ${forUpdate}`
    await engine.transaction('missing', async (transaction) => later(transaction, id), missing)
    expect(await isKept(id)).toBe(true)
  })
})
