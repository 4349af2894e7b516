/** The SQL layer, on a real database of the engine under test. */
import { hash } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createSqlDatabase, findItem, type Item, insertItem, settle, unused } from '../../../../test/sql-engine.ts'
import { Failure, isFailure } from '../../failure.ts'
import { anyOf, compile, type Db, type Engine, forUpdate, fragment, sql } from './sql.ts'

let engine: Engine
let other: Engine
let close: () => Promise<void>

beforeAll(async () => {
  ;({ engine, other, close } = await createSqlDatabase())
})
afterAll(() => close())

const commit = <Result>(work: (db: Db) => Promise<Result>, lock = 'test') =>
  engine.transaction(lock, ({ db }) => work(db))

describe('the template', () => {
  test('numbers placeholders by the parameters sent, not by the parts of the template', () => {
    const columns = fragment('id, label')
    const query = sql`select ${columns} from item where id = ${'a'} and label ${anyOf(['b'])} and amount = ${1} ${forUpdate}`
    expect(compile(query, 'postgres').text).toBe(
      'select id, label from item where id = $1 and label = any($2::text[]) and amount = $3 for update',
    )
    expect(compile(query, 'sqlite').text).toBe(
      'select id, label from item where id = ? and label in (select value from json_each(?)) and amount = ? ',
    )
  })

  test('sends values as parameters, never as part of the statement', async () => {
    const hostile = `'; drop table item; -- $1 ? \${x} "`
    const id = unused()
    await commit((db) => insertItem(db, id, hostile))
    expect(await findItem(engine, id)).toMatchObject({ label: hostile })
    const found = await engine.all<Item>(sql`select id from item where label = ${hostile}`)
    expect(found).toEqual([{ id }])
  })

  test.each([
    ['plain text', 'text'],
    ['empty text', ''],
    ['spaces and line breaks', ' \r\n\t '],
    ['letters of many scripts', 'Ünïcödé Ελληνικά 日本語 العربية עברית'],
    ['characters outside the basic multilingual plane', '🔐👩‍👩‍👧‍👦𝕏'],
    ['combining marks, not composed', 'e\u0301 \u00e9'],
    ['text that looks like JSON, an array or null', '{"a":[1]} {a,b} NULL null'],
    ['64 KiB', 'ß'.repeat(32_768)],
  ])('returns text unchanged: %s', async (_what, text) => {
    const id = unused()
    await commit((db) => insertItem(db, id, text))
    expect((await findItem(engine, id))?.label).toBe(text)
  })

  test.each([
    ['a zero byte', new Uint8Array([0])],
    ['every byte value', Uint8Array.from({ length: 256 }, (_, index) => index)],
    ['no bytes', new Uint8Array(0)],
    ['a view into a larger buffer', Buffer.from('xxsecretxx').subarray(2, 8)],
    ['a mebibyte', new Uint8Array(1_048_576).fill(7)],
  ])('returns bytes unchanged: %s', async (_what, bytes) => {
    const id = unused()
    await commit((db) => db.count(sql`insert into item (id, bytes) values (${id}, ${bytes})`))
    const row = await findItem(engine, id)
    expect(row?.bytes).toBeInstanceOf(Uint8Array)
    expect(Buffer.from(row?.bytes ?? []).equals(bytes)).toBe(true)
    expect(await engine.one(sql`select id from item where id = ${id} and bytes = ${bytes}`)).toEqual({ id })
  })

  test.each([0, -1, 1, 2 ** 31, Date.now(), Number.MAX_SAFE_INTEGER, Number.MIN_SAFE_INTEGER])(
    'returns the integer %d as a number',
    async (amount) => {
      const id = unused()
      await commit((db) => db.count(sql`insert into item (id, amount) values (${id}, ${amount})`))
      expect((await findItem(engine, id))?.amount).toBe(amount)
    },
  )

  test('null stays null in every column, never the empty string or zero', async () => {
    const id = unused()
    await commit((db) =>
      db.count(sql`insert into item (id, label, amount, bytes) values (${id}, ${null}, ${null}, ${null})`),
    )
    expect(await findItem(engine, id)).toEqual({ id, label: null, amount: null, bytes: null })
  })

  test('a statement is reused with other values, null included', async () => {
    const find = (label: string | null) =>
      engine.all<{ id: string }>(sql`
        select id from item where (cast(${label} as text) is null and id = 'reuse-none') or label = ${label} order by id`)
    await commit(async (db) => {
      for (const [id, label] of [
        ['reuse-none', null],
        ['reuse-a', 'reuse a'],
        ['reuse-b', 'reuse b'],
      ] as const) {
        await insertItem(db, id, label)
      }
    })
    for (let round = 0; round < 200; round++) {
      expect(await find(null)).toEqual([{ id: 'reuse-none' }])
      expect(await find('reuse a')).toEqual([{ id: 'reuse-a' }])
      expect(await find('reuse b')).toEqual([{ id: 'reuse-b' }])
    }
  })

  test.each([0, 1, 2, 9, 10, 11, 1_000])('anyOf finds exactly the rows of a list of %d ids', async (count) => {
    const ids = Array.from({ length: count }, (_, index) => `any-${count}-${index}`)
    await commit(async (db) => {
      for (const id of [...ids, `any-${count}-stranger`]) await insertItem(db, id)
    })
    const list = (wanted: readonly string[]) =>
      engine.all<{ id: string }>(sql`select id from item where id ${anyOf(wanted)} order by id`)
    expect((await list(ids)).map(({ id }) => id)).toEqual([...ids].sort())
    // The same prepared statement serves a list of another length.
    expect(await list([`any-${count}-stranger`, 'any-absent'])).toEqual([{ id: `any-${count}-stranger` }])
  })

  test('anyOf takes quotes, commas, braces, backslashes and the word null literally', async () => {
    const names = [`a"b`, `a'b`, 'a,b', '{a}', 'a\\b', 'NULL', '', ' ', '日本', '🔐'].map((name) => `odd ${name}`)
    await commit(async (db) => {
      for (const name of names) await insertItem(db, name)
    })
    const rows = await engine.all<{ id: string }>(sql`select id from item where id ${anyOf(names)}`)
    expect(rows.map(({ id }) => id).sort()).toEqual([...names].sort())
    expect(await engine.all(sql`select id from item where id ${anyOf(['odd'])}`)).toEqual([])
  })

  test('one returns the first row or undefined, all a list, count the number of changed rows', async () => {
    const ids = [unused(), unused(), unused()]
    const changed = await commit(async (db) => {
      for (const id of ids) expect(await insertItem(db, id, 'counted')).toBe(1)
      return db.count(sql`update item set amount = 1 where id ${anyOf(ids)}`)
    })
    expect(changed).toBe(3)
    expect(await engine.one(sql`select id from item where id ${anyOf(ids)} order by id desc`)).toEqual({ id: ids[2] })
    expect(await engine.one(sql`select id from item where id = ${'absent'}`)).toBeUndefined()
    expect(await engine.all(sql`select id from item where id = ${'absent'}`)).toEqual([])
    expect(await commit((db) => db.count(sql`delete from item where id = ${'absent'}`))).toBe(0)
    expect(await commit((db) => db.count(sql`delete from item where id ${anyOf(ids)}`))).toBe(3)
  })

  test('returning gives the row after the write', async () => {
    const id = unused()
    const count = () =>
      commit((db) =>
        db.one<{ amount: number }>(sql`
          insert into item (id, amount) values (${id}, 1)
          on conflict (id) do update set amount = item.amount + 1 returning amount`),
      )
    expect([await count(), await count(), await count()]).toEqual([{ amount: 1 }, { amount: 2 }, { amount: 3 }])
    const taken = await commit((db) =>
      db.all<{ id: string }>(sql`update item set amount = 0 where id = ${id} returning id`),
    )
    expect(taken).toEqual([{ id }])
  })
})

describe('many rows at once', () => {
  const insertAll = (items: readonly Item[]) =>
    commit(async (db) =>
      db.writeMany(
        items,
        (item) => sql`
          insert into item (id, label, amount, bytes) values (${item.id}, ${item.label}, ${item.amount}, ${item.bytes})
          on conflict (id) do update set label = excluded.label, amount = excluded.amount, bytes = excluded.bytes`,
      ),
    )
  const readAll = async (items: readonly Item[]) => {
    const ids = items.map(({ id }) => id)
    const rows = await engine.all<Item>(sql`select id, label, amount, bytes from item where id ${anyOf(ids)}`)
    const byId = new Map(rows.map((row) => [row.id, { ...row, bytes: row.bytes && Uint8Array.from(row.bytes) }]))
    return ids.map((id) => byId.get(id))
  }

  const labels = [`a"b`, `a'b`, 'a,b', '{a}', '}', 'a\\b', '\\', 'NULL', 'null', '', ' ', '\n', '日本', '🔐', null]
  const amounts = [0, 1, -1, Number.MAX_SAFE_INTEGER, -Number.MAX_SAFE_INTEGER, null]
  const contents = [Uint8Array.from({ length: 256 }, (_, byte) => byte), new Uint8Array(), Uint8Array.of(0), null]
  const odd = (index: number): Item => ({
    id: unused(),
    label: labels[index % labels.length] ?? null,
    amount: amounts[index % amounts.length] ?? null,
    bytes: contents[index % contents.length] ?? null,
  })

  test.each([0, 1, 2, 60, 2_345])('%d are stored unchanged, and so are their replacements', async (count) => {
    const items = Array.from({ length: count }, (_, index) => odd(index))
    await insertAll(items)
    expect(await readAll(items)).toEqual(items)
    const changed = items.map(({ id }, index) => ({ ...odd(index + 7), id }))
    await insertAll(changed)
    expect(await readAll(items)).toEqual(changed)
  })

  test('large rows are stored unchanged', async () => {
    const items = Array.from({ length: 40 }, (_, index) => {
      const bytes = new Uint8Array(index % 3 === 0 ? 1_000_000 : 10).fill(index)
      return { ...odd(index), label: 'é'.repeat(bytes.length), bytes }
    })
    await insertAll(items)
    // Comparing megabytes byte by byte takes seconds.
    const digest = (item: Item | undefined) =>
      item && { ...item, label: hash('sha256', item.label ?? ''), bytes: hash('sha256', item.bytes ?? '') }
    expect((await readAll(items)).map(digest)).toEqual(items.map(digest))
  })

  test.each<[string, Partial<Item>]>([
    ['labels', { label: null }],
    ['amounts', { amount: null }],
    ['bytes', { bytes: null }],
    ['any column but the id', { label: null, amount: null, bytes: null }],
  ])('rows may omit %s', async (_what, missing) => {
    const items = Array.from({ length: 3 }, (_, index) => ({ ...odd(index), ...missing }))
    await insertAll(items)
    expect(await readAll(items)).toEqual(items)
  })

  test.each([1, 2, 1_200])('%d are updated where they are, and no others', async (count) => {
    const items = Array.from({ length: count }, (_, index) => odd(index))
    const beside = odd(1)
    await insertAll([...items, beside])
    const changed = items.map((item, index) => ({ ...item, label: `label ${index}`, amount: index % 3 ? index : null }))
    const missing = { ...odd(0), label: 'nobody', amount: 1 }
    await commit(async (db) =>
      db.writeMany(
        [...changed, missing],
        ({ id, label, amount }) => sql`
          update item set label = given.column2, amount = cast(given.column3 as bigint)
          from (values (${id}, ${label}, ${amount})) as given where item.id = given.column1`,
      ),
    )
    expect(await readAll([...items, beside, missing])).toEqual([...changed, beside, undefined])
  })

  test('one rejected row rolls back all of them', async () => {
    const items = Array.from({ length: 1_500 }, (_, index) => odd(index))
    const twice = [...items, items[0] ?? odd(0)].map(({ id }) => id)
    const inserted = commit(async (db) => db.writeMany(twice, (id) => sql`insert into item (id) values (${id})`))
    await expect(inserted).rejects.toMatchObject({ code: 'conflict' })
    expect(await readAll(items)).toEqual(items.map(() => undefined))
  })
})

describe('a rejected write', () => {
  test.each([
    ['a duplicate key', (db: Db, id: string) => insertItem(db, id)],
    [
      'a reference to a missing row',
      (db: Db) => db.count(sql`insert into part (id, item_id) values (${unused()}, 'nowhere')`),
    ],
    [
      'the removal of a referenced row',
      async (db: Db, id: string) => {
        db.write(sql`insert into part (id, item_id) values (${unused()}, ${id})`)
        db.write(sql`delete from item where id = ${id}`)
      },
    ],
  ])('is a conflict, alone or among others: %s', async (_what, write) => {
    const id = unused()
    await commit((db) => insertItem(db, id))
    const alone = await settle(commit((db) => Promise.resolve(write(db, id))))
    const neighbours = [unused(), unused()]
    const [before, among, after] = await Promise.all([
      settle(commit((db) => insertItem(db, neighbours[0] ?? ''))),
      settle(commit((db) => Promise.resolve(write(db, id)))),
      settle(commit((db) => insertItem(db, neighbours[1] ?? ''))),
    ])
    for (const refused of [alone, among]) {
      expect(refused.ok).toBe(false)
      expect(!refused.ok && isFailure(refused.error, 'conflict')).toBe(true)
    }
    expect([before.ok, after.ok]).toEqual([true, true])
    expect(await engine.all(sql`select id from item where id ${anyOf(neighbours)}`)).toHaveLength(2)
  })

  test('rolls back its whole transaction', async () => {
    const [taken, fresh] = [unused(), unused()]
    await commit((db) => insertItem(db, taken))
    await expect(
      commit(async (db) => {
        await insertItem(db, fresh)
        await insertItem(db, taken)
      }),
    ).rejects.toThrow(Failure)
    expect(await findItem(engine, fresh)).toBeUndefined()
  })

  test.each([
    ['alone', 1],
    ['among others', 3],
  ])('whose error the work ignores is never acknowledged without being stored: %s', async (_what, count) => {
    const taken = unused()
    await commit((db) => insertItem(db, taken))
    const ids = Array.from({ length: count }, unused)
    const outcomes = await Promise.all(
      ids.map((id) =>
        settle(
          commit(async (db) => {
            await insertItem(db, id)
            await insertItem(db, taken).catch(() => undefined)
          }),
        ),
      ),
    )
    for (const [index, id] of ids.entries()) {
      const isThere = (await findItem(engine, id)) !== undefined
      expect(isThere, `acknowledged: ${outcomes[index]?.ok}`).toBe(outcomes[index]?.ok)
    }
  })
})

test.each([
  ['under one lock', () => 'counter'],
  ['under many locks', (index: number) => `counter-${index % 10}`],
])('no increment is lost between two nodes, %s', async (_what, lockFor) => {
  const id = unused()
  await commit((db) => db.count(sql`insert into balance (id, amount) values (${id}, 0)`))
  await Promise.all(
    Array.from({ length: 200 }, (_, index) =>
      (index % 2 === 0 ? engine : other).transaction(lockFor(index), async ({ db }) => {
        const row = await db.one<{ amount: number }>(sql`select amount from balance where id = ${id} ${forUpdate}`)
        db.write(sql`update balance set amount = ${(row?.amount ?? 0) + 1} where id = ${id}`)
      }),
    ),
  )
  expect(await engine.one(sql`select amount from balance where id = ${id}`)).toEqual({ amount: 200 })
  await commit((db) => db.count(sql`delete from balance where id = ${id}`))
})
