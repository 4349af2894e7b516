/** Jobs that are refused or fail, and the others of their commit. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { isKept, itemJob, keptOf, newTrace, refuse, several, traceLink } from '../../../../test/job.ts'
import { createSqlDatabase, findItem, insertItem, settle, soon, unused } from '../../../../test/sql-engine.ts'
import { Failure } from '../../failure.ts'
import { anyOf, type Engine, type Job, type Link, newShelf, sql } from './sql.ts'

const refusals = newShelf<boolean>()
let engine: Engine
let close: () => Promise<void>

beforeAll(async () => {
  ;({ engine, close } = await createSqlDatabase())
})
afterAll(() => close())

const commit = <Read, Result>(job: Job<Read, Result, string>, lock = 'jobs') => engine.commit(lock, job)
const add = (id: string) => engine.transaction('jobs', ({ db }) => insertItem(db, id))

describe('a refused job', () => {
  test.each<[string, Parameters<typeof itemJob>[1]]>([
    ['in its read', { read: async () => refuse() }],
    ['in its plan, after it has written', { plan: refuse }],
    [
      'in its plan, after it has written many rows and changed the desk',
      {
        plan: (db, desk) => {
          db.writeMany(several(1_000), (id) => sql`insert into item (id) values (${id})`)
          desk.set(refusals, 'refused', true)
          refuse()
        },
      },
    ],
  ])('leaves nothing while the others of its commit stand: %s', async (_what, refusal) => {
    const ids = several(5)
    const trace = newTrace()
    const before = await engine.one(sql`select count(*) as count from item`)
    const seen: unknown[] = []
    const jobs = ids.map((id, index) =>
      settle(
        commit(
          itemJob(
            id,
            index % 2
              ? { trace, ...refusal }
              : { trace, plan: (_db, desk) => void seen.push(desk.get(refusals, 'refused')) },
          ),
        ),
      ),
    )
    const outcomes = await Promise.all(jobs)
    const refused = { ok: false, error: { code: 'forbidden' } }
    expect(outcomes).toMatchObject([{ ok: true }, refused, { ok: true }, refused, { ok: true }])
    const standing = ids.filter((_, index) => index % 2 === 0)
    expect(trace.links).toEqual([standing])
    expect(seen).toEqual([undefined, undefined, undefined])
    expect(await keptOf(engine, ids)).toEqual(standing)
    const after = await engine.one<{ count: number }>(sql`select count(*) as count from item`)
    expect(after).toEqual({ count: Object(before).count + 3 })
  })

  test('has no link, and commits nothing, if all others of its commit are refused too', async () => {
    const [ids, trace] = [several(3), newTrace()]
    const outcomes = await Promise.all(ids.map((id) => settle(commit(itemJob(id, { trace, plan: refuse })))))
    expect(outcomes.map(({ ok }) => ok)).toEqual([false, false, false])
    expect([trace.links, trace.told, await keptOf(engine, ids)]).toEqual([[], [], []])
  })

  test('with a question that is still under way is refused for its own reason', async () => {
    const [id, beside] = [unused(), unused()]
    const early = itemJob(id, {
      read: async (db) => {
        await Promise.all([findItem(db, id).then(refuse), ...several(20).map((other) => findItem(db, other))])
      },
    })
    const outcomes = await Promise.all([settle(commit(early)), settle(commit(itemJob(beside)))])
    expect(outcomes).toMatchObject([{ ok: false, error: { code: 'forbidden' } }, { ok: true }])
    expect(await keptOf(engine, [id, beside])).toEqual([beside])
  })
})

describe('a failed statement of one job', () => {
  test('repeats each job of its commit alone, with exactly one effect each, next to other transactions', async () => {
    const [taken, beside] = several(2)
    await add(taken ?? '')
    const ids = [unused(), taken ?? '', unused(), unused()]
    const trace = newTrace()
    const plans: string[] = []
    const jobOf = (id: string) =>
      itemJob(id, {
        trace,
        plan: (db) => {
          plans.push(id)
          db.write(sql`insert into arrival (id) values (${id})`)
        },
      })
    const [other, ...outcomes] = await Promise.all([
      settle(add(beside ?? '')),
      ...ids.map((id) => settle(commit(jobOf(id)))),
    ])
    expect(other).toEqual({ ok: true })
    const refused = { ok: false, error: { code: 'conflict' } }
    expect(outcomes).toMatchObject([{ ok: true }, refused, { ok: true }, { ok: true }])
    expect(plans).toEqual([...ids, ...ids])
    expect(trace.links).toEqual([ids, ...ids.map((id) => [id])])
    const arrived = await engine.all<{ id: string }>(
      sql`select id from arrival where id ${anyOf(ids)} order by sequence`,
    )
    expect(arrived.map(({ id }) => id)).toEqual([ids[0], ids[2], ids[3]])
    // The next job may run before the one before it is settled.
    const told = ids.flatMap((id) => (id === taken ? [`settled ${id}`] : [`committed ${id}`, `settled ${id}`]))
    expect(trace.told.toSorted()).toEqual([`settled ${ids.join(' ')}`, ...told].toSorted())
    expect(await isKept(engine, beside ?? '')).toBe(true)
  })

  test('of its read repeats each job alone, and refuses only the job that asks it', async () => {
    const ids = several(3)
    const jobs = ids.map((id, index) =>
      itemJob(id, {
        read: async (db) => {
          await (index === 1 ? db.one(sql`select id from no_such_table`).catch(() => undefined) : findItem(db, id))
        },
      }),
    )
    const outcomes = await soon(Promise.all(jobs.map((job) => settle(commit(job)))), 'the jobs')
    expect(outcomes.map(({ ok }) => ok)).toEqual([true, false, true])
    expect(await keptOf(engine, ids)).toEqual([ids[0], ids[2]])
  })

  test('of its link gives each caller the failure of the link, and settles each once', async () => {
    const [taken, ...ids] = several(4)
    await add(taken ?? '')
    const trace = newTrace()
    const link: Link<string> = {
      ...traceLink(trace, async (db) => db.write(sql`insert into item (id) values (${taken ?? ''})`)),
      asFailure: () => new Failure('unrecorded'),
    }
    const outcomes = await Promise.all(ids.map((id) => settle(commit(itemJob(id, { link })))))
    for (const outcome of outcomes) expect(outcome).toMatchObject({ ok: false, error: { code: 'unrecorded' } })
    expect(trace.links).toEqual([ids, ...ids.map((id) => [id])])
    expect(trace.told).toEqual([`settled ${ids.join(' ')}`, ...ids.map((id) => `settled ${id}`)])
    expect(await keptOf(engine, ids)).toEqual([])
    const next = unused()
    expect(await soon(commit(itemJob(next)), 'the next job')).toBe(next)
  })

  test('is not the failure of the link, even if it is sent with the link', async () => {
    const taken = unused()
    await add(taken)
    const link: Link<string> = { ...traceLink(newTrace()), asFailure: () => new Failure('unrecorded') }
    expect(await settle(commit(itemJob(taken, { link })))).toMatchObject({ ok: false, error: { code: 'conflict' } })
  })
})
