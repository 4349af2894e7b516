/** All or nothing is stored for each caller, whatever fails: a statement, a commit, or the connection at any message. */
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Cut, type CuttingProxy, openCuttingProxy } from '../../../../test/cutting-proxy.ts'
import { engine as kind } from '../../../../test/harness.ts'
import {
  clearInjectedTables,
  createInjectedTables,
  ends,
  runWorks,
  type Work,
  works,
  worksAround,
} from '../../../../test/injected-work.ts'
import { createSqlDatabase, soon } from '../../../../test/sql-engine.ts'
import { times } from '../../../../test/tier.ts'
import { openPostgres } from './postgres.ts'
import { type Engine, sql } from './sql.ts'

/** As many transactions as a node runs at once. */
const running = kind === 'sqlite' ? 1 : 16

let engine: Engine
let other: Engine
let proxy: CuttingProxy | undefined
/** A node whose connections may be cut. */
let node: Engine
let close: () => Promise<void>

beforeAll(async () => {
  const database = await createSqlDatabase()
  ;({ engine, other } = database)
  const url = database.database.settings.COFFER_DATABASE_URL
  proxy = url === undefined ? undefined : await openCuttingProxy(url)
  node = proxy ? openPostgres(proxy.url) : engine
  await createInjectedTables(engine, 100)
  close = async () => {
    if (proxy) await node.close()
    await proxy?.close()
    await database.close()
  }
})
afterAll(() => close())

type Fates = Awaited<ReturnType<typeof runWorks>>

/** Runs the works on the node, and returns what has become of each once the server is done with cut connections. */
async function inject(list: readonly Work[], cut?: Cut): Promise<Fates> {
  proxy?.set(cut)
  return soon(
    runWorks(node, list, other, async () => proxy?.heal()),
    'the works',
  )
}

const nothing = { first: 0, second: 0, third: 0, trail: 0 }

function requireAllOrNothing(fates: Fates, isCut: boolean): void {
  for (const { work, outcome, stored, wanted, ...counters } of fates) {
    const what = JSON.stringify({ work, outcome, ...counters })
    if (!isCut) expect(outcome, what).toBe(work.end === 'well' ? 'acknowledged' : 'refused')
    else if (work.end === 'well') expect(outcome, what).not.toBe('refused')
    else expect(outcome, what).not.toBe('acknowledged')
    const isWhole = work.end === 'well' && stored.trail > 0
    expect(stored, what).toEqual(outcome === 'acknowledged' || isWhole ? wanted : nothing)
    if (outcome === 'refused') expect(isWhole, what).toBe(false)
    expect(counters.settled, what).toBe(counters.linked)
    expect(counters.committed, what).toBe(outcome === 'acknowledged' ? 1 : 0)
    // A job is repeated once, by itself, and a transaction never.
    expect(counters.runs, what).toBeLessThanOrEqual(work.kind === 'job' ? 2 : 1)
  }
}

async function requireWholePool(): Promise<void> {
  const barrier = Promise.withResolvers<void>()
  let inside = 0
  const all = Array.from({ length: running }, (_, index) =>
    node.transaction(`whole-${index}`, async ({ db }) => {
      await db.one(sql`select 1 as one`)
      if (++inside === running) barrier.resolve()
      await barrier.promise
    }),
  )
  await soon(Promise.all(all), 'as many transactions as may run at once')
  if (kind === 'sqlite') return
  const left = await other.all(sql`
    select pid, query from pg_stat_activity
    where datname = current_database() and state like 'idle in transaction%'`)
  expect(left).toEqual([])
}

async function check(list: readonly Work[], cut?: Cut): Promise<Fates> {
  const fates = await inject(list, cut)
  requireAllOrNothing(fates, proxy?.hasCut ?? false)
  await requireWholePool()
  await clearInjectedTables(engine)
  return fates
}

const kinds = ['transaction', 'job'] as const

test.each(kinds.flatMap((kind) => ends.map((end) => [kind, end] as const)))(
  'a %s stores all or nothing and the others stand, at whichever of its statements it ends by: %s',
  async (kind, end) => {
    for (const at of [0, 1, 2, 3]) await check(worksAround(kind, end, at))
  },
)

test('random transactions and jobs with failing statements, links and commits store all or nothing', async () => {
  await fc.assert(
    fc.asyncProperty(works, async (list) => void (await check(list))),
    { numRuns: times(25, 200) },
  )
})

describe('a connection that is cut', () => {
  const cuts = fc.record<Cut>({
    direction: fc.constantFrom('to server', 'to node'),
    after: fc.nat({ max: 150 }),
    isForAll: fc.boolean(),
  })

  test('among random failing works, after a random message, stores all or nothing of each', async () => {
    if (kind === 'sqlite') {
      // SQLite has no connection to lose.
      expect(proxy).toBeUndefined()
      return
    }
    await fc.assert(
      fc.asyncProperty(works, cuts, async (list, cut) => void (await check(list, cut))),
      { numRuns: times(25, 250) },
    )
  })

  const well: Omit<Work, 'kind'> = {
    lock: 'left',
    parts: [
      { table: 'first', rows: 1, isRead: true },
      { table: 'second', rows: 3, isRead: false },
    ],
    end: 'well',
    at: 0,
  }
  const one: Work = { kind: 'transaction', ...well }
  const jobs: Work[] = [1, 2, 3].map(() => ({ kind: 'job', ...well }))

  test.each<[string, Work[], Cut['direction']]>([
    ['statement of a transaction', [one], 'to server'],
    ['answer to a transaction', [one], 'to node'],
    ['statement of jobs', jobs, 'to server'],
    ['answer to jobs', jobs, 'to node'],
  ])('at any %s stores all or nothing, and repeats nothing', async (_what, list, direction) => {
    if (kind === 'sqlite') {
      expect(proxy).toBeUndefined()
      return
    }
    const outcomes = new Set<string>()
    for (let after = 0; after === 0 || proxy?.hasCut; after++) {
      const fates = await check(list, { direction, after, isForAll: false })
      for (const { outcome, stored, runs } of fates) {
        outcomes.add(`${outcome}, ${stored.trail ? 'stored' : 'not stored'}`)
        expect(runs).toBeLessThanOrEqual(1)
      }
      // Jobs share their commit, and its outcome.
      expect(new Set(fates.map(({ outcome, stored }) => `${outcome} ${stored.trail}`)).size).toBe(1)
    }
    // The commit is the last message to the server.
    const isLate = direction === 'to node' ? ['unknown, stored'] : []
    expect(outcomes).toEqual(new Set(['unknown, not stored', ...isLate, 'acknowledged, stored']))
  })

  test('at any message of its start is unavailable, and the next one is opened', async () => {
    if (!proxy) {
      expect(kind).toBe('sqlite')
      return
    }
    for (const direction of ['to server', 'to node'] as const) {
      for (let after = 0; after === 0 || proxy.hasCut; after++) {
        const fresh = openPostgres(proxy.url)
        proxy.set({ direction, after, isForAll: false })
        const [fate] = await soon(
          runWorks(fresh, [one], other, async () => proxy?.heal()),
          'the work',
        )
        expect(fate?.outcome).toBe(proxy.hasCut ? 'unknown' : 'acknowledged')
        await fresh.transaction('left', ({ db }) => db.one(sql`select 1 as one`))
        await fresh.close()
      }
    }
  })
})
