/** The statements of one transaction: additions that it does not wait for, questions, and the end of both. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createSqlDatabase, findItem, insertItem, settle, soon, unused } from '../../../../test/sql-engine.ts'
import { Failure } from '../../failure.ts'
import { anyOf, type Db, type Engine, sql } from './sql.ts'

let engine: Engine
let close: () => Promise<void>

beforeAll(async () => {
  ;({ engine, close } = await createSqlDatabase())
})
afterAll(() => close())

const isKept = async (id: string) => (await findItem(engine, id)) !== undefined
const addItem = (db: Db, id: string) => db.write(sql`insert into item (id) values (${id})`)
const commit = <Result>(work: (db: Db) => Promise<Result>, lock = 'test') =>
  engine.transaction(lock, ({ db }) => work(db))
const add = (id: string) => commit(async (db) => addItem(db, id))
const addMany = (db: Db, ids: readonly string[]) =>
  db.writeMany(ids, (id) => sql`insert into item (id, label) values (${id}, ${'many'})`)
const keptOf = (ids: readonly string[]) =>
  engine.all<{ id: string }>(sql`select id from item where id ${anyOf(ids)}`).then((rows) => rows.length)
const many = () => Array.from({ length: 3_500 }, unused)

describe('a statement that the transaction does not wait for', () => {
  test('is committed with it, and seen by its later queries', async () => {
    const [id, last] = [unused(), unused()]
    const seen = await commit(async (db) => {
      addItem(db, id)
      const found = await findItem(db, id)
      addItem(db, last)
      return found
    })
    expect(seen?.id).toBe(id)
    expect([await isKept(id), await isKept(last)]).toEqual([true, true])
  })

  test('runs in its order among all others', async () => {
    const id = unused()
    const seen = await commit(async (db) => {
      addItem(db, id)
      db.write(sql`update item set amount = 1 where id = ${id}`)
      const changed = await db.count(sql`update item set amount = amount * 10 where id = ${id}`)
      db.write(sql`update item set amount = amount + 1 where id = ${id}`)
      const two = await Promise.all([findItem(db, id), findItem(db, id)])
      db.write(sql`update item set amount = amount * 10 where id = ${id}`)
      return [changed, ...two.map((item) => item?.amount)]
    })
    expect(seen).toEqual([1, 11, 11])
    expect((await findItem(engine, id))?.amount).toBe(110)
  })

  test('refuses the whole transaction with its own error if it fails, whatever follows', async () => {
    const [taken, fresh, before] = [unused(), unused(), unused()]
    await add(taken)
    const outcome = settle(
      commit(async (db) => {
        for (const id of [before, taken, fresh]) addItem(db, id)
        db.write(sql`insert into part (id, item_id) values (${unused()}, 'nowhere')`)
        db.write(sql`insert into no_such_table (id) values ('1')`)
      }),
    )
    expect(await soon(outcome, 'the transaction')).toMatchObject({ ok: false, error: { code: 'conflict' } })
    expect([await isKept(before), await isKept(fresh)]).toEqual([false, false])
  })

  test('is the reported error if a query after it fails because of it', async () => {
    const taken = unused()
    await add(taken)
    const outcome = settle(
      commit(async (db) => {
        addItem(db, taken)
        await findItem(db, taken)
      }),
    )
    expect(await soon(outcome, 'the transaction')).toMatchObject({ ok: false, error: { code: 'conflict' } })
  })

  test('fails only its own transaction of those that wait', async () => {
    const taken = unused()
    await add(taken)
    const ids = Array.from({ length: 6 }, unused)
    const all = [...ids.slice(0, 3), taken, ...ids.slice(3)].map((id) => settle(add(id)))
    const outcomes = await soon(Promise.all(all), 'the transactions')
    expect(outcomes.map(({ ok }) => ok)).toEqual([true, true, true, false, true, true, true])
    for (const id of ids) expect(await isKept(id)).toBe(true)
  })

  test('does no harm if the transaction fails for another reason first', async () => {
    const [id, next] = [unused(), unused()]
    const outcome = settle(
      commit(async (db) => {
        addItem(db, id)
        throw new Failure('forbidden')
      }),
    )
    expect(await soon(outcome, 'the transaction')).toMatchObject({ ok: false, error: { code: 'forbidden' } })
    await add(next)
    expect([await isKept(id), await isKept(next)]).toEqual([false, true])
  })
})

describe('an insert of more rows than one statement holds', () => {
  test('is committed whole', async () => {
    const ids = many()
    await commit(async (db) => addMany(db, ids))
    expect(await keptOf(ids)).toBe(ids.length)
  })

  test.each([0, 1_500, 3_499])('is not committed at all if row %i fails', async (place) => {
    const ids = many()
    await add(ids[place] ?? '')
    const before = unused()
    const outcome = settle(
      commit(async (db) => {
        addItem(db, before)
        addMany(db, ids)
      }),
    )
    expect(await soon(outcome, 'the transaction')).toMatchObject({ ok: false, error: { code: 'conflict' } })
    expect([await keptOf(ids), await isKept(before)]).toEqual([1, false])
  })
})

describe('a question that is not awaited', () => {
  test('fails the transaction, and nothing of it is stored', async () => {
    const id = unused()
    const outcome = await settle(
      commit(async (db) => {
        addItem(db, id)
        settle(findItem(db, id))
      }),
    )
    expect(outcome).toMatchObject({ ok: false, error: { message: 'a question of the transaction was not awaited' } })
    expect(await isKept(id)).toBe(false)
  })

  test.each([
    ['ends', () => undefined],
    [
      'is refused',
      () => {
        throw new Failure('forbidden')
      },
    ],
  ])('stores nothing after a transaction that %s while many rows are being written', async (_what, end) => {
    const [ids, late, next] = [many(), unused(), unused()]
    const refused = settle(
      commit(async (db) => {
        addMany(db, ids)
        settle(insertItem(db, late))
        end()
      }),
    )
    const following = settle(add(next))
    expect((await refused).ok).toBe(false)
    expect(await following).toEqual({ ok: true })
    // Whatever still runs is done before another transaction can begin.
    await add(unused())
    expect([await keptOf(ids), await isKept(late), await isKept(next)]).toEqual([0, false, true])
  })
})

describe('a statement that comes after the end of its transaction', () => {
  type Ending = { readonly isDry?: boolean; readonly isRefused?: boolean }

  test.each<[string, Ending]>([
    ['is committed', {}],
    ['was refused', { isRefused: true }],
    ['was a dry run', { isDry: true }],
  ])('throws and reaches no other transaction, when its own %s', async (_what, { isDry = false, isRefused }) => {
    for (let round = 0; round < 20; round++) {
      const ended = Promise.withResolvers<Db>()
      const own = settle(
        engine.transaction(
          `ended-${round}`,
          async ({ db }) => {
            await findItem(db, 'nobody')
            ended.resolve(db)
            if (isRefused) throw new Failure('forbidden')
          },
          { isDry },
        ),
      )
      const db = await ended.promise
      await own
      const ids = Array.from({ length: 10 }, unused)
      const late = unused()
      const others = ids.map((id, index) =>
        settle(
          commit(async (inside) => {
            addItem(inside, id)
            const tooLate = 'a statement came after the end of its transaction'
            expect(() => addItem(db, late)).toThrow(tooLate)
            expect(() => addMany(db, [late])).toThrow(tooLate)
            await expect(insertItem(db, late)).rejects.toThrow(tooLate)
          }, `other-${index}`),
        ),
      )
      expect((await soon(Promise.all(others), 'the others')).filter(({ ok }) => !ok)).toEqual([])
      expect([await keptOf(ids), await isKept(late)]).toEqual([ids.length, false])
    }
  })
})
