/** Random transfers between accounts, on two nodes at once. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createSqlDatabase, settle } from '../../../../test/sql-engine.ts'
import { Failure } from '../../failure.ts'
import { type Db, type Engine, forUpdate, sql } from './sql.ts'

let engine: Engine
let other: Engine
let close: () => Promise<void>

beforeAll(async () => {
  ;({ engine, other, close } = await createSqlDatabase())
})
afterAll(() => close())

test('200 parallel transfers, some failing half-way, keep the sum and exactly the acknowledged changes', async () => {
  const owners = 4
  const accounts = Array.from({ length: owners * 3 }, (_, index) => `account-${String(index).padStart(2, '0')}`)
  const model = new Map(accounts.map((id) => [id, 1_000]))
  await engine.transaction('test', async ({ db }) => {
    for (const id of accounts) await db.count(sql`insert into balance (id, amount) values (${id}, 1000)`)
  })
  const sum = async () =>
    (await engine.one<{ total: number }>(sql`select cast(sum(amount) as bigint) as total from balance`))?.total
  const move = (db: Db, id: string, by: number) =>
    db.count(sql`update balance set amount = amount + ${by} where id = ${id}`)

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
          if (failure === 'conflict') await db.count(sql`insert into balance (id, amount) values (${to}, 0)`)
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
