/** The SQL layer and its group commit, on a real database of the engine under test. */
import { hash } from 'node:crypto'
import { connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { createDatabase, type Database, engine as kind } from '../../../../test/harness.ts'
import { connectPostgres } from '../../../../test/postgres-client.ts'
import { Failure, isFailure } from '../../failure.ts'
import { createCommitQueue, type EngineConnection } from './commit-queue.ts'
import { openPostgres } from './postgres.ts'
import {
  anyOf,
  compile,
  type Db,
  type Engine,
  forUpdate,
  fragment,
  type JointWork,
  type Sql,
  sql,
  type Transaction,
} from './sql.ts'
import { openSqlite } from './sqlite.ts'

let database: Database
let engine: Engine
/** A second node on the same database. */
let other: Engine

function openEngine(): Engine {
  const url = database.settings.COFFER_DATABASE_URL
  return url === undefined ? openSqlite(join(database.dataDir, 'sql-test.db')) : openPostgres(url)
}

beforeAll(async () => {
  database = await createDatabase()
  engine = openEngine()
  await engine.migratedSteps()
  const tables = [
    `create table item (id text primary key, label text, amount bigint, bytes bytea)`,
    `create table part (id text primary key, item_id text not null references item (id))`,
    `create table balance (id text primary key, amount bigint not null)`,
    `create table arrival (sequence $serial, id text not null)`,
  ]
  for (const [index, statement] of tables.entries()) await engine.migrateStep(index + 1, 'test', statement, 0)
  other = openEngine()
})
afterAll(async () => {
  await other.close()
  await engine.close()
  await database.drop()
})

let made = 0
const unused = () => `id-${++made}`

type Item = { id: string; label: string | null; amount: number | null; bytes: Uint8Array | null }
const findItem = (db: Db, id: string) => db.one<Item>(sql`select id, label, amount, bytes from item where id = ${id}`)
const insertItem = (db: Db, id: string, label: string | null = null) =>
  db.run(sql`insert into item (id, label) values (${id}, ${label})`)
const commit = <Result>(work: (db: Db) => Promise<Result>, lock = 'test') =>
  engine.transaction(lock, ({ db }) => work(db))

type Settled = { ok: true } | { ok: false; error: unknown }
const settle = (promise: Promise<unknown>): Promise<Settled> =>
  promise.then(
    () => ({ ok: true }),
    (error: unknown) => ({ ok: false, error }),
  )
/** What would never come fails by its name. */
const hangMs = 30_000
const soon = <Result>(promise: Promise<Result>, what: string): Promise<Result> => {
  const { promise: late, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new Error(`${what} took longer than ${hangMs} ms`)), hangMs)
  return Promise.race([promise, late]).finally(() => clearTimeout(timer))
}

describe('the template', () => {
  test('numbers placeholders by what is sent, not by what stands in the text', () => {
    const columns = fragment('id, label')
    const query = sql`select ${columns} from item where id = ${'a'} and label ${anyOf(['b'])} and amount = ${1} ${forUpdate}`
    expect(compile(query, 'postgres').text).toBe(
      'select id, label from item where id = $1 and label = any($2::text[]) and amount = $3 for update',
    )
    expect(compile(query, 'sqlite').text).toBe(
      'select id, label from item where id = ? and label in (select value from json_each(?)) and amount = ? ',
    )
  })

  test('keeps a value out of the statement, whatever it looks like', async () => {
    const hostile = `'; drop table item; -- $1 ? \${x} "`
    const id = unused()
    await commit((db) => insertItem(db, id, hostile))
    expect(await findItem(engine, id)).toMatchObject({ label: hostile })
    const found = await engine.all<Item>(sql`select id from item where label = ${hostile}`)
    expect(found).toEqual([{ id }])
  })

  test.each([
    ['plain text', 'text'],
    ['nothing', ''],
    ['spaces and line ends', ' \r\n\t '],
    ['letters of many scripts', 'Ünïcödé Ελληνικά 日本語 العربية עברית'],
    ['characters outside of the first plane', '🔐👩‍👩‍👧‍👦𝕏'],
    ['combining marks, kept apart from their composed form', 'e\u0301 \u00e9'],
    ['what looks like JSON, an array or null', '{"a":[1]} {a,b} NULL null'],
    ['64 KiB', 'ß'.repeat(32_768)],
  ])('gives text back as it was written: %s', async (_what, text) => {
    const id = unused()
    await commit((db) => insertItem(db, id, text))
    expect((await findItem(engine, id))?.label).toBe(text)
  })

  test.each([
    ['one byte of zero', new Uint8Array([0])],
    ['every byte there is', Uint8Array.from({ length: 256 }, (_, index) => index)],
    ['no bytes at all', new Uint8Array(0)],
    ['a view into a larger buffer', Buffer.from('xxsecretxx').subarray(2, 8)],
    ['a mebibyte', new Uint8Array(1_048_576).fill(7)],
  ])('gives bytes back as they were written: %s', async (_what, bytes) => {
    const id = unused()
    await commit((db) => db.run(sql`insert into item (id, bytes) values (${id}, ${bytes})`))
    const row = await findItem(engine, id)
    expect(row?.bytes).toBeInstanceOf(Uint8Array)
    expect(Buffer.from(row?.bytes ?? []).equals(bytes)).toBe(true)
    expect(await engine.one(sql`select id from item where id = ${id} and bytes = ${bytes}`)).toEqual({ id })
  })

  test.each([0, -1, 1, 2 ** 31, Date.now(), Number.MAX_SAFE_INTEGER, Number.MIN_SAFE_INTEGER])(
    'gives the whole number %d back as a number',
    async (amount) => {
      const id = unused()
      await commit((db) => db.run(sql`insert into item (id, amount) values (${id}, ${amount})`))
      expect((await findItem(engine, id))?.amount).toBe(amount)
    },
  )

  test('null is null in every column, and is never an empty text or zero', async () => {
    const id = unused()
    await commit((db) =>
      db.run(sql`insert into item (id, label, amount, bytes) values (${id}, ${null}, ${null}, ${null})`),
    )
    expect(await findItem(engine, id)).toEqual({ id, label: null, amount: null, bytes: null })
  })

  test('a statement in the code serves every value that comes by, null first or last', async () => {
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

  test.each([0, 1, 2, 1_000])('anyOf finds exactly what a list of %d names', async (count) => {
    const ids = Array.from({ length: count }, (_, index) => `any-${count}-${index}`)
    await commit(async (db) => {
      for (const id of [...ids, `any-${count}-stranger`]) await insertItem(db, id)
    })
    const list = (wanted: readonly string[]) =>
      engine.all<{ id: string }>(sql`select id from item where id ${anyOf(wanted)} order by id`)
    expect((await list(ids)).map(({ id }) => id)).toEqual([...ids].sort())
    // The very statement again, with another length: it was prepared once.
    expect(await list([`any-${count}-stranger`, 'any-absent'])).toEqual([{ id: `any-${count}-stranger` }])
  })

  test('anyOf takes names with quotes, commas, braces, backslashes and the word null as they are', async () => {
    const names = [`a"b`, `a'b`, 'a,b', '{a}', 'a\\b', 'NULL', '', ' ', '日本', '🔐'].map((name) => `odd ${name}`)
    await commit(async (db) => {
      for (const name of names) await insertItem(db, name)
    })
    const rows = await engine.all<{ id: string }>(sql`select id from item where id ${anyOf(names)}`)
    expect(rows.map(({ id }) => id).sort()).toEqual([...names].sort())
    expect(await engine.all(sql`select id from item where id ${anyOf(['odd'])}`)).toEqual([])
  })

  test('one gives the first row or nothing, all a list, run the number of rows it changed', async () => {
    const ids = [unused(), unused(), unused()]
    const changed = await commit(async (db) => {
      for (const id of ids) expect(await insertItem(db, id, 'counted')).toBe(1)
      return db.run(sql`update item set amount = 1 where id ${anyOf(ids)}`)
    })
    expect(changed).toBe(3)
    expect(await engine.one(sql`select id from item where id ${anyOf(ids)} order by id desc`)).toEqual({ id: ids[2] })
    expect(await engine.one(sql`select id from item where id = ${'absent'}`)).toBeUndefined()
    expect(await engine.all(sql`select id from item where id = ${'absent'}`)).toEqual([])
    expect(await commit((db) => db.run(sql`delete from item where id = ${'absent'}`))).toBe(0)
    expect(await commit((db) => db.run(sql`delete from item where id ${anyOf(ids)}`))).toBe(3)
  })

  test('returning gives back what a write made of the row', async () => {
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
    commit((db) =>
      db.runMany(
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

  test.each([0, 1, 2, 60, 2_345])('%d are kept as they are, and so are those that replace them', async (count) => {
    const items = Array.from({ length: count }, (_, index) => odd(index))
    await insertAll(items)
    expect(await readAll(items)).toEqual(items)
    const changed = items.map(({ id }, index) => ({ ...odd(index + 7), id }))
    await insertAll(changed)
    expect(await readAll(items)).toEqual(changed)
  })

  test('large ones are kept as well', async () => {
    const items = Array.from({ length: 40 }, (_, index) => {
      const bytes = new Uint8Array(index % 3 === 0 ? 1_000_000 : 10).fill(index)
      return { ...odd(index), label: 'é'.repeat(bytes.length), bytes }
    })
    await insertAll(items)
    // To compare megabytes byte by byte takes seconds.
    const digest = (item: Item | undefined) =>
      item && { ...item, label: hash('sha256', item.label ?? ''), bytes: hash('sha256', item.bytes ?? '') }
    expect((await readAll(items)).map(digest)).toEqual(items.map(digest))
  })

  test.each<[string, Partial<Item>]>([
    ['labels', { label: null }],
    ['amounts', { amount: null }],
    ['bytes', { bytes: null }],
    ['anything but ids', { label: null, amount: null, bytes: null }],
  ])('none of them needs %s', async (_what, missing) => {
    const items = Array.from({ length: 3 }, (_, index) => ({ ...odd(index), ...missing }))
    await insertAll(items)
    expect(await readAll(items)).toEqual(items)
  })

  test('one that is refused takes all of them with it', async () => {
    const items = Array.from({ length: 1_500 }, (_, index) => odd(index))
    const twice = [...items, items[0] ?? odd(0)].map(({ id }) => id)
    const inserted = commit((db) => db.runMany(twice, (id) => sql`insert into item (id) values (${id})`))
    await expect(inserted).rejects.toMatchObject({ code: 'conflict' })
    expect(await readAll(items)).toEqual(items.map(() => undefined))
  })
})

describe('a refused write', () => {
  test.each([
    ['a key that is taken', (db: Db, id: string) => insertItem(db, id)],
    ['a reference to nothing', (db: Db) => db.run(sql`insert into part (id, item_id) values (${unused()}, 'nowhere')`)],
    [
      'the removal of what is referred to',
      async (db: Db, id: string) => {
        await db.run(sql`insert into part (id, item_id) values (${unused()}, ${id})`)
        await db.run(sql`delete from item where id = ${id}`)
      },
    ],
  ])('is a conflict, alone and among others: %s', async (_what, write) => {
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

  test('leaves nothing of its transaction behind', async () => {
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
  ])('that the work swallows is never acknowledged without being kept: %s', async (_what, count) => {
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

/** Runs the works so that they share one commit: by a clock that hardly moves no batch takes so long that it ends earlier. */
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

describe('work that many ask for at once', () => {
  type Wanted = { id: string; refused?: true }
  let goes: string[][] = []

  /** Inserts what is wanted; a name that is taken breaks it for all of them. */
  const insertAll: JointWork<Wanted, string> = async ({ db }, items) => {
    goes.push(items.map(({ id }) => id))
    for (const { id, refused } of items) if (!refused) await insertItem(db, id)
    return items.map(({ id, refused }) =>
      refused ? { status: 'rejected', reason: new Failure('forbidden') } : { status: 'fulfilled', value: id },
    )
  }
  const join = (wanted: Wanted, group = 'group') => engine.joinTransaction('joint', group, wanted, insertAll)
  const isKept = async (id: string) => (await findItem(engine, id)) !== undefined

  test('is done in one go, with an answer of its own to each', async () => {
    goes = []
    const wanted = Array.from(
      { length: 20 },
      (_, index): Wanted => ({
        id: unused(),
        ...(index % 4 === 0 && { refused: true as const }),
      }),
    )
    const outcomes = await Promise.allSettled(wanted.map((one) => join(one)))
    expect(goes.length).toBeLessThan(5)
    expect(goes.flat()).toEqual(wanted.map(({ id }) => id))
    for (const [index, { id, refused }] of wanted.entries()) {
      expect(outcomes[index]).toMatchObject(refused ? { reason: { code: 'forbidden' } } : { value: id })
      expect(await isKept(id)).toBe(!refused)
    }
  })

  test('is done for each alone where it fails for one, also beside other transactions', async () => {
    const taken = unused()
    await commit((db) => insertItem(db, taken))
    const wanted = [unused(), taken, unused(), unused()].map((id) => ({ id }))
    const beside = unused()
    goes = []
    const [other, ...outcomes] = await Promise.allSettled([
      engine.transaction('joint', ({ db }) => insertItem(db, beside)),
      ...wanted.map((one) => join(one)),
    ])
    expect(other.status).toBe('fulfilled')
    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled', 'fulfilled'])
    expect(goes).toEqual([wanted.map(({ id }) => id), ...wanted.map(({ id }) => [id])])
    for (const { id } of [...wanted, { id: beside }]) expect(await isKept(id)).toBe(true)
  })

  test('is done for each alone where it fails for one and nobody else is in the batch', async () => {
    const taken = unused()
    await commit((db) => insertItem(db, taken))
    const wanted = [unused(), taken, unused()].map((id) => ({ id }))
    goes = []
    const told: string[] = []
    const noting: JointWork<Wanted, string> = async (transaction, items) => {
      transaction.afterCommit.push(() => told.push(items.map(({ id }) => id).join()))
      return insertAll(transaction, items)
    }
    const outcomes = await Promise.allSettled(
      wanted.map((one) => engine.joinTransaction('joint', 'group', one, noting)),
    )
    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
    expect(goes).toEqual([wanted.map(({ id }) => id), ...wanted.map(({ id }) => [id])])
    // What was taken back is not told of.
    expect(told).toEqual([wanted[0]?.id, wanted[2]?.id])
    for (const { id } of wanted) expect(await isKept(id)).toBe(true)
  })

  test('is not mixed with that of another group', async () => {
    goes = []
    const [left, right] = [unused(), unused()].map((name) => [`${name}-1`, `${name}-2`, `${name}-3`])
    const all = [0, 1, 2].flatMap((index) => [
      join({ id: left?.[index] ?? '' }, 'left'),
      join({ id: right?.[index] ?? '' }, 'right'),
    ])
    await Promise.all(all)
    for (const go of goes) expect(new Set(go.map((id) => left?.includes(id))).size).toBe(1)
    expect(goes.flat().sort()).toEqual([...(left ?? []), ...(right ?? [])].sort())
  })

  test('is refused to all of them where the commit fails', async () => {
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
  test('are independent: one that fails takes nothing with it', async () => {
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

  test('put scratch, what runs before and what runs after the commit back when one of them fails', async () => {
    let told: string[] = []
    let scratch: unknown[] = []
    const note = (name: string, fails: boolean) => async (transaction: Transaction) => {
      if (name === 'first') {
        told = []
        scratch = []
      }
      transaction.scratch.set(name, name)
      transaction.scratch.set('last', name)
      transaction.beforeCommit.set(name, async () => void told.push(`before ${name}`))
      transaction.beforeCommit.set('last', async () => void told.push(`before last ${name}`))
      transaction.afterCommit.push(() => told.push(`after ${name}`))
      if (fails) throw new Failure('forbidden')
      if (name === 'third') scratch = [...transaction.scratch]
    }
    await shareCommit([note('first', false), note('second', true), note('third', false)])
    expect(told).toEqual(['before first', 'before last third', 'before third', 'after first', 'after third'])
    expect(scratch).toEqual([
      ['first', 'first'],
      ['last', 'third'],
      ['third', 'third'],
    ])
  })

  test('run what comes before the commit once under one name, with the last word on what it does', async () => {
    let told: string[] = []
    const ask =
      (name: string) =>
      async ({ beforeCommit }: Transaction) => {
        if (name === 'a') told = []
        beforeCommit.set('once', async () => void told.push(name))
      }
    await shareCommit([ask('a'), ask('b'), ask('c')])
    expect(told).toEqual(['c'])
  })

  test('all fail where what comes before the commit fails, and the next ones are served', async () => {
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

  test('are told of it only after the commit, and readers see nothing before it', async () => {
    let ids: string[] = []
    let isFirstTold = false
    let seenBefore: unknown[] = []
    let toldBefore = true
    await shareCommit([
      async ({ db, afterCommit }) => {
        ids = [unused(), unused()]
        isFirstTold = false
        afterCommit.push(() => {
          toldBefore = isFirstTold
        })
        await insertItem(db, ids[0] ?? '')
      },
      async ({ db }) => {
        await insertItem(db, ids[1] ?? '')
        expect(await findItem(db, ids[0] ?? '')).toBeDefined()
        seenBefore = [...(await readBoth(ids)), isFirstTold]
      },
    ])
    expect(seenBefore).toEqual([[], [], false])
    expect(toldBefore).toBe(false)
    const first = unused()
    await engine
      .transaction('shared', ({ db }) => insertItem(db, first))
      .then(() => {
        isFirstTold = true
      })
    expect(isFirstTold).toBe(true)
    expect(await readBoth([first])).toEqual([[{ id: first }], [{ id: first }]])
  })

  const readBoth = (ids: string[]) =>
    Promise.all([engine, other].map((node) => node.all(sql`select id from item where id ${anyOf(ids)}`)))

  test('with one lock run in the order in which they came', async () => {
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

test('work within transactions is answered from outside of them, however many there are at once', async () => {
  // As a node does that meets rows under keys which it has not read yet.
  const works = Array.from({ length: 40 }, (_, index) =>
    engine.transaction(`asking ${index}`, async ({ db }) => {
      const id = unused()
      await insertItem(db, id)
      await new Promise((resolve) => setTimeout(resolve, 20))
      return (await engine.one<{ count: number }>(sql`select count(*) as count from item where id = ${id}`))?.count
    }),
  )
  const seen = await soon(Promise.all(works), 'an answer to each of them')
  expect(seen).toEqual(works.map(() => 0))
})

test('200 parallel transfers, some of which fail half-way, keep the sum and exactly what was acknowledged', async () => {
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
          // Whoever changes several rows locks one of them first, so that two nodes take turns.
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

test.each([
  ['under one lock', () => 'counter'],
  ['under many', (index: number) => `counter-${index % 10}`],
])('no increment is lost on two nodes, %s', async (_what, lockFor) => {
  const id = unused()
  await commit((db) => db.run(sql`insert into balance (id, amount) values (${id}, 0)`))
  await Promise.all(
    Array.from({ length: 200 }, (_, index) =>
      (index % 2 === 0 ? engine : other).transaction(lockFor(index), async ({ db }) => {
        const row = await db.one<{ amount: number }>(sql`select amount from balance where id = ${id} ${forUpdate}`)
        await db.run(sql`update balance set amount = ${(row?.amount ?? 0) + 1} where id = ${id}`)
      }),
    ),
  )
  expect(await engine.one(sql`select amount from balance where id = ${id}`)).toEqual({ amount: 200 })
  await commit((db) => db.run(sql`delete from balance where id = ${id}`))
})

describe('a connection that is lost', () => {
  /** A connection to nowhere: it does what it is told until it is cut. */
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

  test('is the answer to everyone in its batch, also to one that failed for a reason of its own', async () => {
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
      'an answer to each of them',
    )
    expect(outcomes.map(({ ok }) => ok)).toEqual([false, false, false])
    expect(state).toEqual({ commits: 0, rollbacks: 1 })
  })

  test('does not hold up the transactions after it', async () => {
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

  test('that cannot be had refuses those who wait, and is tried again for the next', async () => {
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

  test('what is told after a commit cannot stop the queue by failing', async () => {
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
      settle(soon(promise, 'the answer to a committed transaction')),
    )
    const [first, second] = await Promise.all(outcomes).finally(() => process.off('unhandledRejection', note))
    expect(first).toEqual({ ok: true })
    expect(second).toEqual({ ok: true })
    expect(unhandled).toEqual([])
  })

  test('by the server itself is unavailable to the whole batch, and the next transaction has a new one', async () => {
    if (engine.kind === 'sqlite') {
      // There is no server to lose: the file is open for as long as the process lives.
      expect(kind).toBe('sqlite')
      return
    }
    const [kept, lost] = [unused(), unused()]
    const works = [
      engine.transaction('lost', async ({ db }) => insertItem(db, kept)),
      engine.transaction('lost', async ({ db }) => {
        await insertItem(db, lost)
        const own = await db.one<{ pid: number }>(sql`select pg_backend_pid() as pid`)
        await terminateBackend(own?.pid ?? 0)
        throw new Failure('conflict')
      }),
    ]
    const outcomes = await soon(Promise.all(works.map(settle)), 'an answer to each of them')
    for (const [index, id] of [kept, lost].entries()) {
      expect((await findItem(engine, id)) !== undefined).toBe(outcomes[index]?.ok)
    }
    expect(outcomes[1]?.ok).toBe(false)
    const next = unused()
    await soon(
      commit((db) => insertItem(db, next), 'lost'),
      'the next transaction',
    )
    expect(await findItem(engine, next)).toBeDefined()
  })

  async function terminateBackend(pid: number): Promise<void> {
    const client = await connectPostgres(database.settings.COFFER_DATABASE_URL)
    await client.query('select pg_terminate_backend($1, 5000)', [pid])
    await client.end()
  }

  test('by a pause within a transaction is unavailable, and whoever waits for its locks goes on', async () => {
    if (engine.kind === 'sqlite') {
      // There is no second node: a process that is frozen serves nobody.
      expect(kind).toBe('sqlite')
      return
    }
    const limit = await engine.one<{ ms: number }>(sql`
      select setting::bigint as ms from pg_settings where name = 'idle_in_transaction_session_timeout'`)
    // Well under what a follower of the log of changes waits for a number that was taken.
    expect(limit?.ms).toBe(10_000)
    const id = unused()
    await commit((db) => db.run(sql`insert into balance (id, amount) values (${id}, 1)`))
    const { promise: isOver, resolve: end } = Promise.withResolvers<void>()
    const { promise: holdsLock, resolve: hold } = Promise.withResolvers<void>()
    const frozen = settle(
      engine.transaction('frozen', async ({ db }) => {
        await db.run(sql`update balance set amount = 2 where id = ${id}`)
        // Last, as the time runs from here.
        await db.run(sql`set local idle_in_transaction_session_timeout = 100`)
        hold()
        await isOver
        await db.run(sql`update balance set amount = 3 where id = ${id}`)
      }),
    )
    await holdsLock
    const waiting = other.transaction('waiting', ({ db }) =>
      db.run(sql`update balance set amount = amount + 10 where id = ${id}`),
    )
    await soon(waiting, 'the lock of the one that pauses').finally(end)
    expect(await frozen).toMatchObject({ ok: false, error: { code: 'unavailable' } })
    expect(await engine.one(sql`select amount from balance where id = ${id}`)).toEqual({ amount: 11 })
  })

  test('a step of a migration may take longer than any other statement', async () => {
    if (engine.kind === 'sqlite') {
      // Nothing there is bound in time but the wait for a lock.
      expect(kind).toBe('sqlite')
      return
    }
    const hurried = openPostgres(database.settings.COFFER_DATABASE_URL ?? '', 50)
    const slow = await settle(hurried.one(sql`select pg_sleep(0.3)`))
    expect(slow).toMatchObject({ ok: false, error: { code: 'unavailable' } })
    // Longer, too, than the driver itself would wait.
    await hurried.migrateStep(1_001, 'test', 'create table slow as select 1 as one from pg_sleep(1.3)', 0)
    await hurried.close()
    expect(await engine.one(sql`select count(*) as count from slow`)).toEqual({ count: 1 })
  })

  test('while it is being opened is unavailable, and nothing that would end the process', async () => {
    if (engine.kind === 'sqlite') {
      expect(kind).toBe('sqlite')
      return
    }
    const { url, close } = await startClosingServer(database.settings.COFFER_DATABASE_URL ?? '')
    const uncaught: unknown[] = []
    const note = (error: unknown) => void uncaught.push(error)
    process.on('uncaughtException', note)
    const node = openPostgres(url)
    const outcomes = [
      await settle(node.transaction('opening', async () => undefined)),
      await settle(node.one(sql`select id from item limit 1`)),
      await settle(node.migrateStep(1_000, 'test', 'create table never (id text)', 0)),
    ]
    await node.close()
    await close()
    process.off('uncaughtException', note)
    for (const outcome of outcomes) expect(outcome).toMatchObject({ ok: false, error: { code: 'unavailable' } })
    expect(uncaught).toEqual([])
  })

  /** Lets clients in, and tells them in the same breath that the server is about to stop. */
  async function startClosingServer(target: string) {
    const { hostname, port } = new URL(target)
    const readyForQuery = Buffer.from('5a0000000549', 'hex')
    const fields = 'SFATAL\0VFATAL\0C57P01\0Mterminating connection due to administrator command\0\0'
    const farewell = Buffer.concat([Buffer.from('E'), Buffer.alloc(4), Buffer.from(fields)])
    farewell.writeInt32BE(farewell.length - 1, 1)
    const server = createServer((client) => {
      const upstream = connect(Number(port), hostname)
      client.on('error', () => undefined).on('close', () => upstream.destroy())
      upstream.on('error', () => undefined)
      client.pipe(upstream)
      upstream.on('data', (data) => {
        if (data.includes(readyForQuery)) client.end(Buffer.concat([data, farewell]))
        else client.write(data)
      })
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const address = server.address()
    const own = typeof address === 'object' && address ? address.port : 0
    return {
      url: Object.assign(new URL(target), { port: String(own) }).href,
      close: () => new Promise((resolve) => server.close(resolve)),
    }
  }

  test('to a server that takes no more writes, or lets nobody in any more, is unavailable', async () => {
    if (engine.kind === 'sqlite') {
      expect(kind).toBe('sqlite')
      return
    }
    const refused = unused()
    const told: string[] = []
    engine.onRefusal((error) => told.push(error.code))
    const write = await settle(
      engine.transaction('read only', async ({ db }) => {
        // As a primary that has become a standby, or whose disk is nearly full.
        await db.run(sql`set transaction read only`)
        await insertItem(db, refused)
      }),
    )
    expect(write).toMatchObject({ ok: false, error: { code: 'unavailable' } })
    expect(told).toEqual(['unavailable'])
    expect(await findItem(engine, refused)).toBeUndefined()
    const changes: Partial<URL>[] = [{ password: 'changed' }, { pathname: '/renamed' }]
    for (const change of changes) {
      const url = Object.assign(new URL(database.settings.COFFER_DATABASE_URL ?? ''), change)
      const node = openPostgres(url.href)
      const outcomes = [
        await settle(node.one(sql`select id from item limit 1`)),
        await settle(node.transaction('opening', async () => undefined)),
      ]
      await node.close()
      for (const outcome of outcomes) expect(outcome).toMatchObject({ ok: false, error: { code: 'unavailable' } })
    }
  })

  test('in silence is given up once: whoever comes after it waits no longer than for one answer', async () => {
    if (engine.kind === 'sqlite') {
      expect(kind).toBe('sqlite')
      return
    }
    const { url, hush, isHushed, close } = await startMutedServer(database.settings.COFFER_DATABASE_URL ?? '')
    // The driver waits for a second more.
    const node = openPostgres(url, 1_000)
    const asked = vi.spyOn(pg.Client.prototype, 'query')
    const lost = settle(
      node.transaction('silent', async ({ db }) => {
        await db.one(sql`select id from item limit 1`)
        hush()
        await db.one(sql`select id from item limit 1`)
      }),
    )
    await isHushed
    const next = await settle(node.transaction('silent', ({ db }) => db.one(sql`select id from item limit 1`)))
    expect([await lost, next]).toMatchObject([{ ok: false, error: { code: 'unavailable' } }, { ok: true }])
    const texts = asked.mock.calls.map(([query]) => Object(query).text)
    asked.mockRestore()
    expect(texts.filter((text) => text === 'begin')).toHaveLength(2)
    // To that there would be no answer either.
    expect(texts).not.toContain('rollback')
    await node.close()
    await close()
  })

  /** Passes on all that is said, until those who are connected then are to hear nothing any more. */
  async function startMutedServer(target: string) {
    const { hostname, port } = new URL(target)
    const upstreams = new Set<Socket>()
    const hushed = Promise.withResolvers<void>()
    const server = createServer((client) => {
      const upstream = connect(Number(port), hostname)
      upstreams.add(upstream)
      client.on('error', () => undefined).on('close', () => upstream.destroy())
      upstream.on('error', () => undefined)
      client.pipe(upstream)
      upstream.pipe(client)
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const address = server.address()
    const own = typeof address === 'object' && address ? address.port : 0
    return {
      url: Object.assign(new URL(target), { port: String(own) }).href,
      hush: () => {
        for (const upstream of upstreams) upstream.unpipe().pause()
        hushed.resolve()
      },
      isHushed: hushed.promise,
      close: () => new Promise((resolve) => server.close(resolve)),
    }
  }

  test('at the socket is unavailable, never an error of ours', async () => {
    if (engine.kind === 'sqlite') {
      expect(kind).toBe('sqlite')
      return
    }
    const { Socket } = await import('node:net')
    const node = openEngine()
    await node.one(sql`select id from item limit 1`)
    const write = Socket.prototype.write
    // The kernel's word for a peer that is gone; it has five capital letters, as a SQLSTATE has five characters.
    Socket.prototype.write = function cut(this: InstanceType<typeof Socket>) {
      this.destroy(Object.assign(new Error('write EPIPE'), { code: 'EPIPE', syscall: 'write' }))
      return false
    }
    const outcome = await settle(node.one(sql`select id from item limit 1`)).finally(() => {
      Socket.prototype.write = write
    })
    expect(outcome).toMatchObject({ ok: false, error: { code: 'unavailable' } })
    expect(await settle(node.one(sql`select id from item limit 1`))).toEqual({ ok: true })
    await node.close()
  })
})
