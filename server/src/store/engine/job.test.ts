/** Jobs: how those that wait at the same moment share a commit, and what each of them gets from it. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { isKept, itemJob, keptOf, newTrace, refuse, several, traceLink } from '../../../../test/job.ts'
import { createSqlDatabase, findItem, insertItem, settle, unused } from '../../../../test/sql-engine.ts'
import { type Ask, anyOf, type Db, type Desk, type Engine, type Job, newShelf, type Question, sql } from './sql.ts'

let engine: Engine
let close: () => Promise<void>

beforeAll(async () => {
  ;({ engine, close } = await createSqlDatabase())
})
afterAll(() => close())

const commit = <Read, Result>(job: Job<Read, Result, string>, lock = 'jobs') => engine.commit(lock, job)
const add = (id: string) => engine.transaction('jobs', ({ db }) => insertItem(db, id))

describe('jobs that wait at the same moment', () => {
  test('share one commit and one link, with a separate result for each caller', async () => {
    const [ids, trace] = [several(20), newTrace()]
    expect(await Promise.all(ids.map((id) => commit(itemJob(id, { trace }))))).toEqual(ids)
    expect(trace.links).toEqual([ids])
    expect(trace.told).toEqual([`committed ${ids.join(' ')}`, `settled ${ids.join(' ')}`])
    expect(await keptOf(engine, ids)).toEqual(ids)
  })

  test('all read before the first one plans, and plan in the order of arrival', async () => {
    const ids = several(10)
    const steps: string[] = []
    const jobOf = (id: string) =>
      itemJob(id, {
        read: async (db) => {
          await findItem(db, id)
          steps.push('read')
        },
        plan: () => void steps.push(id),
      })
    await Promise.all(ids.map((id) => commit(jobOf(id))))
    expect(steps).toEqual([...ids.map(() => 'read'), ...ids])
  })

  test('that wait for a running transaction share the next commit, also past transactions that run alone', async () => {
    const [ids, trace] = [several(3), newTrace()]
    const [first, between] = [unused(), unused()]
    const jobs: Promise<string>[] = []
    const running = engine.transaction('jobs', async ({ db }) => {
      await insertItem(db, first)
      jobs.push(commit(itemJob(ids[0] ?? '', { trace })))
      jobs.push(add(between).then(() => between))
      jobs.push(...ids.slice(1).map((id) => commit(itemJob(id, { trace }))))
    })
    await running
    expect(await Promise.all(jobs)).toEqual([ids[0], between, ids[1], ids[2]])
    expect(trace.links).toEqual([ids])
    expect(await keptOf(engine, [first, between])).toEqual([first, between])
  })

  test('are not mixed with jobs of another lock', async () => {
    const [left, right] = [several(3), several(3)]
    const trace = newTrace()
    const all = left.flatMap((id, index) => [
      commit(itemJob(id, { trace }), 'left'),
      commit(itemJob(right[index] ?? '', { trace }), 'right'),
    ])
    await Promise.all(all)
    expect(new Set(trace.links.map((notes) => notes.join()))).toEqual(new Set([left.join(), right.join()]))
    expect(await keptOf(engine, [...left, ...right])).toEqual([...left, ...right])
  })

  test('are at most 64 in a commit, whose plans handle at most 256 KiB unless one alone is larger', async () => {
    const sizesOf = async (count: number, bytes?: number) => {
      const trace = newTrace()
      const job = (id: string) => commit(itemJob(id, { trace, ...(bytes !== undefined && { bytes }) }))
      await Promise.all(several(count).map(job))
      return trace.links.map(({ length }) => length)
    }
    expect(await sizesOf(150)).toEqual([64, 64, 22])
    expect(await sizesOf(5, 128 * 1024)).toEqual([2, 2, 1])
    expect(await sizesOf(3, 300 * 1024)).toEqual([1, 1, 1])
  })
})

describe('the desk', () => {
  const numbers = newShelf<number>()
  const noteTo = (seen: unknown[], name: string, value?: number) => ({
    plan: (_db: Db, desk: Desk) => {
      seen.push(desk.get(numbers, name))
      if (value !== undefined) desk.set(numbers, name, value)
    },
  })

  test('shows a plan what it and the plans before it have left there', async () => {
    const seen: unknown[] = []
    const own = itemJob(unused(), {
      plan: (_db, desk) => {
        desk.set(numbers, 'own', 1)
        seen.push(desk.get(numbers, 'own'))
      },
    })
    const others = [1, 2, 3].map((value) => itemJob(unused(), noteTo(seen, 'number', value)))
    await Promise.all([own, ...others].map((job) => commit(job)))
    expect(seen).toEqual([1, undefined, 1, 2])
  })

  test('is empty at the start of each commit', async () => {
    const seen: unknown[] = []
    for (const value of [1, 2]) await commit(itemJob(unused(), noteTo(seen, 'number', value)))
    expect(seen).toEqual([undefined, undefined])
  })

  test('counts without a gap or a repetition, however jobs share their commits', async () => {
    const id = unused()
    await engine.transaction('jobs', async ({ db }) =>
      db.write(sql`insert into balance (id, amount) values (${id}, 0)`),
    )
    const increment: Job<number, number, string> = {
      read: async (db) =>
        (await db.one<{ amount: number }>(sql`select amount from balance where id = ${id}`))?.amount ?? 0,
      plan: (stored, desk, db) => {
        const amount = (desk.get(numbers, 'amount') ?? stored) + 1
        desk.set(numbers, 'amount', amount)
        db.write(sql`update balance set amount = ${amount} where id = ${id}`)
        return { result: amount, note: id }
      },
      link: traceLink(newTrace()),
    }
    const counted = await Promise.all(Array.from({ length: 200 }, () => commit(increment)))
    expect(counted).toEqual(Array.from({ length: 200 }, (_, index) => index + 1))
    expect(await engine.one(sql`select amount from balance where id = ${id}`)).toEqual({ amount: 200 })
  })
})

describe('asks', () => {
  const insertAll = (ids: readonly string[]) =>
    engine.transaction('jobs', async ({ db }) =>
      db.writeMany(ids, (id) => sql`insert into item (id, label) values (${id}, ${`label of ${id}`})`),
    )
  type Item = { readonly id: string; readonly label: string }
  /** Notes the keys of its queries. */
  const noting = (queries: string[][]): Question<Item> => ({
    query: (_within, keys) => {
      queries.push([...keys])
      return sql`select id, label from item where id ${anyOf(keys)}`
    },
    keyOf: ({ id }) => id,
  })
  const items = noting([])
  const asking = (ask: Ask<Item>): Job<readonly Item[], readonly Item[], string> => ({
    asks: [ask],
    read: (_db, answers) => answers.of(ask),
    plan: (found) => ({ result: found, note: ask.key }),
    link: traceLink(newTrace()),
  })

  test('of one question are one query with the keys of all, and each job gets the rows of its own key', async () => {
    const ids = several(20)
    await insertAll(ids.slice(1))
    const queries: string[][] = []
    const question = noting(queries)
    const asked = [...ids, ids[5] ?? ''].map((key) => commit(asking({ question, within: '', key })))
    const found = await Promise.all(asked)
    expect(queries).toEqual([ids])
    expect(found.map((rows) => rows.map(({ label }) => label))).toEqual([
      [],
      ...ids.slice(1).map((id) => [`label of ${id}`]),
      [`label of ${ids[5]}`],
    ])
  })

  test('within another thing are another query', async () => {
    const ids = several(4)
    await insertAll(ids)
    const queries: string[][] = []
    const question = noting(queries)
    const asked = ids.map((key, index) => commit(asking({ question, within: String(index % 2), key })))
    expect((await Promise.all(asked)).map(([row]) => row?.id)).toEqual(ids)
    expect(queries).toEqual([
      [ids[0], ids[2]],
      [ids[1], ids[3]],
    ])
  })

  test('see what earlier commits have stored, and fail alone', async () => {
    const [id, other] = [unused(), unused()]
    const question = { ...items, query: () => sql`select nothing from nowhere` }
    const [failed, whole] = await Promise.all([
      settle(commit(asking({ question, within: '', key: id }))),
      settle(commit(asking({ question: items, within: '', key: other }))),
    ])
    expect([failed?.ok, whole?.ok]).toEqual([false, true])
    await insertAll([id])
    expect(await commit(asking({ question: items, within: '', key: id }))).toHaveLength(1)
  })
})

describe('statements of several plans with one key', () => {
  test('are sent once: the last stands, after what was added before it', async () => {
    const id = unused()
    const counting = (amount: number): Job<void, number, string> => ({
      read: () => undefined,
      plan: (_read, _desk, db) => {
        db.writeMany([id], () => sql`insert into balance (id, amount) values (${id}, 0)`, String)
        db.write(sql`update balance set amount = amount + ${amount} where id = ${id}`, `count ${id}`)
        return { result: amount, note: id }
      },
      link: traceLink(newTrace()),
    })
    await Promise.all([1, 20, 300].map((amount) => commit(counting(amount))))
    expect(await engine.one(sql`select amount from balance where id = ${id}`)).toEqual({ amount: 300 })
  })
})

describe('inserts of several plans', () => {
  const insert = ({ id, label }: { id: string; label: string }) => sql`
    insert into item (id, label) values (${id}, ${label}) on conflict (id) do update set label = excluded.label`

  test('are all stored', async () => {
    const groups = [several(300), several(1), several(1_500)]
    const jobs = groups.map((ids) =>
      itemJob(unused(), {
        plan: (db) =>
          db.writeMany(
            ids.map((id) => ({ id, label: 'many' })),
            insert,
            ({ id }) => id,
          ),
      }),
    )
    await Promise.all(jobs.map((job) => commit(job)))
    expect(await keptOf(engine, groups.flat())).toEqual(groups.flat())
  })

  test('leave the last of several rows with one key', async () => {
    const [shared, ...own] = several(4)
    const jobs = own.map((id, index) =>
      itemJob(unused(), {
        plan: (db) =>
          db.writeMany(
            [shared ?? '', id].map((each) => ({ id: each, label: String(index) })),
            insert,
            (row) => row.id,
          ),
      }),
    )
    await Promise.all(jobs.map((job) => commit(job)))
    const labels = await Promise.all([shared ?? '', ...own].map((id) => findItem(engine, id)))
    expect(labels.map((item) => item?.label)).toEqual(['2', '0', '1', '2'])
  })

  test('do not keep a row of a refused plan, even if it is the last one with its key', async () => {
    const id = unused()
    const jobOf = (label: string, isRefused: boolean) =>
      itemJob(unused(), {
        plan: (db) => {
          db.writeMany([{ id, label }], insert, (row) => row.id)
          if (isRefused) refuse()
        },
      })
    await Promise.all([settle(commit(jobOf('kept', false))), settle(commit(jobOf('refused', true)))])
    expect((await findItem(engine, id))?.label).toBe('kept')
  })
})

describe('a job', () => {
  test('may not write while it reads, nor ask while it plans', async () => {
    const [early, late, beside] = several(3)
    const asked: unknown[] = []
    const jobs = [
      itemJob(early ?? '', { read: async (db) => db.write(sql`insert into item (id) values ('never')`) }),
      itemJob(late ?? '', { plan: (db) => void asked.push(settle(findItem(db, 'nobody'))) }),
      itemJob(beside ?? ''),
    ]
    const outcomes = await Promise.all(jobs.map((job) => settle(commit(job))))
    expect(outcomes).toMatchObject([
      { ok: false, error: { message: 'this statement needs a transaction' } },
      { ok: true },
      { ok: true },
    ])
    expect(await Promise.all(asked)).toMatchObject([
      { ok: false, error: { message: 'a plan has read all that it needs' } },
    ])
    expect(await isKept(engine, 'never')).toBe(false)
  })

  test('that leaves questions of its read unanswered does not harm the others of its commit', async () => {
    const ids = several(3)
    const jobs = ids.map((id, index) =>
      itemJob(id, {
        read: async (db) => {
          if (index === 1) for (let nth = 0; nth < 20; nth++) settle(findItem(db, id).then(() => findItem(db, id)))
        },
      }),
    )
    const outcomes = await Promise.all(jobs.map((job) => settle(commit(job))))
    expect(outcomes[0]).toEqual({ ok: true })
    expect(outcomes[2]).toEqual({ ok: true })
    expect(await keptOf(engine, ids)).toEqual(ids.filter((_, index) => outcomes[index]?.ok))
  })
})
