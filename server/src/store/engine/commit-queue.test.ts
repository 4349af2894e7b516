/** Transactions that wait for each other or run at once, and rows that they lock at their start. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createSqlDatabase, findItem, insertItem, settle, soon, unused } from '../../../../test/sql-engine.ts'
import { Failure } from '../../failure.ts'
import { anyOf, type Db, type Engine, forUpdate, type Link, sql, type Transaction } from './sql.ts'

let engine: Engine
let other: Engine
let close: () => Promise<void>

beforeAll(async () => {
  ;({ engine, other, close } = await createSqlDatabase())
})
afterAll(() => close())

const commit = <Result>(work: (db: Db) => Promise<Result>, lock = 'test') =>
  engine.transaction(lock, ({ db }) => work(db))
const readBoth = (ids: readonly string[]) =>
  Promise.all([engine, other].map((node) => node.all(sql`select id from item where id ${anyOf(ids)}`)))

describe('transactions of one lock', () => {
  test('are independent: a failing one does not roll back the others', async () => {
    const ids = [unused(), unused(), unused()]
    const outcomes = await Promise.all(
      ids.map((id, nth) =>
        settle(
          commit(async (db) => {
            await insertItem(db, id)
            if (nth === 1) throw new Failure('forbidden')
          }),
        ),
      ),
    )
    expect(outcomes.map(({ ok }) => ok)).toEqual([true, false, true])
    const kept = await engine.all<{ id: string }>(sql`select id from item where id ${anyOf(ids)} order by id`)
    expect(kept.map(({ id }) => id).sort()).toEqual([ids[0], ids[2]].sort())
  })

  test('each run alone, and see those before them', async () => {
    const id = unused()
    let running = 0
    const seen = await Promise.all(
      Array.from({ length: 20 }, () =>
        commit(async (db) => {
          expect(++running).toBe(1)
          const row = await db.one<{ amount: number }>(sql`
            insert into item (id, amount) values (${id}, 1)
            on conflict (id) do update set amount = item.amount + 1 returning amount`)
          running--
          return row?.amount
        }),
      ),
    )
    expect(seen).toEqual(Array.from({ length: 20 }, (_, index) => index + 1))
  })

  test('run in order of arrival', async () => {
    const ids = Array.from({ length: 300 }, (_, index) => String(index))
    const ran: string[] = []
    const acknowledged: string[] = []
    await Promise.all(
      ids.map((id) =>
        engine
          .transaction('ordered', async ({ db }) => {
            ran.push(id)
            db.write(sql`insert into arrival (id) values (${id})`)
          })
          .then(() => acknowledged.push(id)),
      ),
    )
    const rows = await engine.all<{ id: string }>(sql`select id from arrival order by sequence`)
    expect(ran).toEqual(ids)
    expect(acknowledged).toEqual(ids)
    expect(rows.map(({ id }) => id)).toEqual(ids)
  })

  test('are acknowledged only after the commit, and readers see nothing before it', async () => {
    const [first, second] = [unused(), unused()]
    const seenBefore: unknown[] = []
    let isAcknowledged = false
    const link: Link<undefined> = {
      write: async () => {
        seenBefore.push(await readBoth([first, second]), isAcknowledged)
        return { committed: () => void seenBefore.push(isAcknowledged), settled: () => undefined }
      },
      asFailure: (error) => error,
    }
    const work = async ({ db }: Transaction) => {
      await insertItem(db, first)
      db.write(sql`insert into item (id) values (${second})`)
      seenBefore.push(await readBoth([first, second]), isAcknowledged)
    }
    await engine.transaction('test', work, { link }).then(() => {
      isAcknowledged = true
    })
    expect(seenBefore).toEqual([[[], []], false, [[], []], false, false])
    expect((await readBoth([first, second])).map((rows) => rows.length)).toEqual([2, 2])
  })
})

describe('the link of a transaction', () => {
  /** Writes an item for each note. */
  const linkOf = (told: string[]): Link<string> => ({
    write: async ({ db }, notes) => {
      for (const id of notes) db.write(sql`insert into item (id) values (${id})`)
      return { committed: () => void told.push('committed'), settled: () => void told.push('settled') }
    },
    asFailure: () => new Failure('unrecorded'),
  })

  test('is written with it, and told once that it is committed and settled', async () => {
    const [id, note] = [unused(), unused()]
    const told: string[] = []
    await engine.transaction('test', ({ db }) => insertItem(db, id), { link: linkOf(told), note })
    expect([await findItem(engine, id), await findItem(engine, note)]).toMatchObject([{ id }, { id: note }])
    expect(told).toEqual(['committed', 'settled'])
  })

  test('that fails refuses the transaction with a failure of its own, and the next ones are served', async () => {
    const [taken, id, next] = [unused(), unused(), unused()]
    await commit((db) => insertItem(db, taken))
    const told: string[] = []
    const work = ({ db }: Transaction) => insertItem(db, id)
    const refused = await settle(engine.transaction('test', work, { link: linkOf(told), note: taken }))
    expect(refused).toMatchObject({ ok: false, error: { code: 'unrecorded' } })
    expect(await findItem(engine, id)).toBeUndefined()
    expect(told).toEqual(['settled'])
    await soon(
      commit((db) => insertItem(db, next)),
      'the next transaction',
    )
    expect(await findItem(engine, next)).toBeDefined()
  })

  test('does not give its failure to the statements of the work', async () => {
    const [taken, note] = [unused(), unused()]
    await commit((db) => insertItem(db, taken))
    const told: string[] = []
    const work = async ({ db }: Transaction) => db.write(sql`insert into item (id) values (${taken})`)
    const refused = await settle(engine.transaction('test', work, { link: linkOf(told), note }))
    expect(refused).toMatchObject({ ok: false, error: { code: 'conflict' } })
    expect(await findItem(engine, note)).toBeUndefined()
  })

  test('is not written for work that fails', async () => {
    const note = unused()
    const told: string[] = []
    const work = async () => {
      throw new Failure('forbidden')
    }
    const refused = await settle(engine.transaction('test', work, { link: linkOf(told), note }))
    expect(refused).toMatchObject({ ok: false, error: { code: 'forbidden' } })
    expect([await findItem(engine, note), told]).toEqual([undefined, []])
  })
})

describe('a dry run', () => {
  test('returns its result, and leaves nothing', async () => {
    const ids = [unused(), unused(), unused()]
    const note = unused()
    const told: string[] = []
    const link: Link<string> = {
      write: async () => ({
        committed: () => void told.push('committed'),
        settled: () => void told.push('settled'),
      }),
      asFailure: (error) => error,
    }
    const work = async ({ db }: Transaction) => {
      await insertItem(db, ids[0] ?? '')
      db.write(sql`insert into item (id) values (${ids[1] ?? ''})`)
      const seen = await db.all(sql`select id from item where id ${anyOf(ids)}`)
      db.write(sql`insert into item (id) values (${ids[2] ?? ''})`)
      return seen.length
    }
    expect(await engine.transaction('test', work, { isDry: true, link, note })).toBe(2)
    expect(await readBoth(ids)).toEqual([[], []])
    expect(told).toEqual([])
    await commit((db) => insertItem(db, ids[0] ?? ''))
    expect(await findItem(engine, ids[0] ?? '')).toBeDefined()
  })

  test('fails like the transaction itself if the work ignores the failure of a statement', async () => {
    const taken = unused()
    await commit((db) => insertItem(db, taken))
    const work = async ({ db }: Transaction) => {
      await insertItem(db, taken).catch(() => undefined)
    }
    for (const isDry of [true, false])
      expect(await settle(engine.transaction('test', work, { isDry }))).toMatchObject({
        ok: false,
        error: { code: 'conflict' },
      })
  })
})

describe('rows locked at the start', () => {
  const balances = (ids: readonly string[]) =>
    sql`select id, amount from balance where id ${anyOf(ids)} order by id ${forUpdate}`
  const find = (id: string) => engine.one<{ amount: number }>(sql`select amount from balance where id = ${id}`)

  test('keep two nodes from losing an increment, and are the newest ones', async () => {
    const id = unused()
    await commit(async (db) => db.write(sql`insert into balance (id, amount) values (${id}, 0)`))
    const increment = (node: Engine) =>
      node.transaction(
        `row-${id}`,
        async ({ db, locked }) => {
          const read = () => db.one<{ amount: number }>(sql`select amount from balance where id = ${id}`)
          // The cast is safe: the query names the column. SQLite locks no rows.
          const [first = await read()] = (locked ?? []) as { amount: number }[]
          db.write(sql`update balance set amount = ${(first?.amount ?? 0) + 1} where id = ${id}`)
        },
        { rows: balances([id]) },
      )
    await soon(
      Promise.all(Array.from({ length: 60 }, (_, index) => increment(index % 2 ? other : engine))),
      'increments',
    )
    expect((await find(id))?.amount).toBe(60)
  })

  test('that cannot be locked do not keep the work from running', async () => {
    const id = unused()
    const rows = sql`select id from no_such_table ${forUpdate}`
    const work = async ({ db }: Transaction) => db.write(sql`insert into item (id) values (${id})`)
    await engine.transaction('missing', work, { rows })
    expect(await findItem(engine, id)).toBeDefined()
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
