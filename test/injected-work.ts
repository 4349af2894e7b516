/** Random transactions and jobs that write many rows and may fail at any statement, and what each of them has stored. */
import fc from 'fast-check'
import { Failure, isFailure } from '../server/src/failure.ts'
import {
  anyOf,
  type Db,
  type Engine,
  type Job,
  type Link,
  type Reader,
  type Sql,
  sql,
} from '../server/src/store/engine/sql.ts'
import { times } from './tier.ts'

const tables = ['first', 'second', 'third'] as const
type Table = (typeof tables)[number]
type Part = {
  readonly table: Table
  readonly rows: number
  /** Whether a question follows, so that the rows are sent before the commit. */
  readonly isRead: boolean
}
/** How the work ends: as it should, or by a failure of its own, which comes with its part of this number. */
export const ends = [
  'well',
  'refusal',
  'statement',
  'ended transaction',
  'ignored statement',
  'link',
  'commit',
] as const
type End = (typeof ends)[number]
export type Work = {
  readonly kind: 'transaction' | 'job'
  readonly lock: string
  readonly parts: readonly Part[]
  readonly end: End
  readonly at: number
}

const rows = fc.oneof(
  { weight: 6, arbitrary: fc.integer({ min: 1, max: 20 }) },
  { weight: 3, arbitrary: fc.integer({ min: 21, max: 2_500 }) },
  { weight: times(1, 2), arbitrary: fc.integer({ min: 2_501, max: 10_000 }) },
)
const part = fc.record({ table: fc.constantFrom(...tables), rows, isRead: fc.boolean() })
export const works = fc.array(
  fc.record<Work>({
    kind: fc.constantFrom('transaction', 'job', 'job'),
    lock: fc.constantFrom('left', 'left', 'right'),
    parts: fc.array(part, { minLength: 1, maxLength: 4 }),
    end: fc.oneof(
      { weight: 4, arbitrary: fc.constant<End>('well') },
      { weight: 5, arbitrary: fc.constantFrom(...ends) },
    ),
    at: fc.nat({ max: 9_999 }),
  }),
  { minLength: 1, maxLength: 8 },
)

/** Two works that end well, and one between them that fails at the part of this number. */
export function worksAround(kind: Work['kind'], end: End, at: number): Work[] {
  const parts: Part[] = [
    { table: 'first', rows: 1, isRead: false },
    { table: 'second', rows: 1_200, isRead: true },
    { table: 'third', rows: 2, isRead: true },
    { table: 'first', rows: 3, isRead: false },
  ]
  const well: Work = { kind, lock: 'left', parts, end: 'well', at: 0 }
  return [well, { ...well, end, at }, well]
}

/** Numbers that the database refuses; the second one also ends the transaction, on SQLite. */
const [refused, ending] = [-1, -2]

export async function createInjectedTables(engine: Engine, step: number): Promise<void> {
  const isSqlite = engine.kind === 'sqlite'
  const statements = tables.flatMap((table) => [
    `create table ${table}_row (owner text not null, number bigint not null check (${isSqlite ? 'number <> -1' : 'number >= 0'}))`,
    `create index ${table}_owner on ${table}_row (owner)`,
    ...(isSqlite
      ? [
          `create trigger ${table}_end before insert on ${table}_row when new.number = -2
            begin select raise(rollback, 'the transaction has ended'); end`,
        ]
      : []),
  ])
  statements.push(
    // Without a key, so that a repeated effect would be stored twice.
    'create table trail (owner text not null)',
    'create table late_check (owner text not null, item_id text references item (id) deferrable initially deferred)',
  )
  for (const [index, statement] of statements.entries()) await engine.migrateStep(step + index, 'test', statement, 0)
}

const inserts: Readonly<Record<Table, (row: { owner: string; number: number }) => Sql>> = {
  first: ({ owner, number }) => sql`insert into first_row (owner, number) values (${owner}, ${number})`,
  second: ({ owner, number }) => sql`insert into second_row (owner, number) values (${owner}, ${number})`,
  third: ({ owner, number }) => sql`insert into third_row (owner, number) values (${owner}, ${number})`,
}
const counts: Readonly<Record<Table | 'trail', (owners: readonly string[]) => Sql>> = {
  first: (owners) => sql`select owner, count(*) as count from first_row where owner ${anyOf(owners)} group by owner`,
  second: (owners) => sql`select owner, count(*) as count from second_row where owner ${anyOf(owners)} group by owner`,
  third: (owners) => sql`select owner, count(*) as count from third_row where owner ${anyOf(owners)} group by owner`,
  trail: (owners) => sql`select owner, count(*) as count from trail where owner ${anyOf(owners)} group by owner`,
}
const places = [...tables, 'trail'] as const
type Stored = Readonly<Record<(typeof places)[number], number>>

/** What has happened to the work of one caller. */
type Fate = {
  readonly work: Work
  readonly outcome: 'acknowledged' | 'refused' | 'unknown'
  /** How often it was run, its link written, and the link told. */
  readonly runs: number
  readonly linked: number
  readonly committed: number
  readonly settled: number
  readonly stored: Stored
  readonly wanted: Stored
}

type Counters = { runs: number; linked: number; committed: number; settled: number }
let made = 0

/** Runs all at once. `settle` is awaited before the stored rows are counted on another node. */
export async function runWorks(
  engine: Engine,
  list: readonly Work[],
  other: Reader,
  settle: () => Promise<void>,
): Promise<Fate[]> {
  const callers = list.map((work) => ({
    work,
    owner: `owner-${++made}`,
    counters: { runs: 0, linked: 0, committed: 0, settled: 0 },
  }))
  const countersOf = new Map(callers.map(({ owner, counters }) => [owner, counters]))
  const link = linkOver((owner) => countersOf.get(owner))
  const outcomes = await Promise.allSettled(
    callers.map(({ work, owner, counters }) =>
      work.kind === 'job'
        ? engine.commit(work.lock, jobOf(work, owner, counters, link))
        : engine.transaction(
            work.lock,
            async ({ db }) => {
              counters.runs++
              await runParts(db, work, owner)
            },
            { link, note: noteOf(work, owner) },
          ),
    ),
  )
  await settle()
  const stored = await countStored(
    other,
    callers.map(({ owner }) => owner),
  )
  return callers.map(({ work, owner, counters }, index) => ({
    work,
    outcome: outcomeOf(outcomes[index]),
    ...counters,
    stored: stored(owner),
    wanted: wantedOf(work),
  }))
}

function outcomeOf(settled: PromiseSettledResult<unknown> | undefined): Fate['outcome'] {
  if (settled?.status === 'fulfilled') return 'acknowledged'
  return isFailure(settled?.reason, 'unavailable') ? 'unknown' : 'refused'
}

const failingNote = ' fails'
const noteOf = ({ end }: Work, owner: string) => (end === 'link' ? owner + failingNote : owner)

/** Leaves a row for each note, whether it came from a job or a transaction. */
const linkOver = (find: (owner: string) => Counters | undefined): Link<string> => ({
  write: async ({ db }, notes) => {
    for (const note of notes) {
      const owner = note.replace(failingNote, '')
      db.write(sql`insert into trail (owner) values (${owner})`)
      if (note !== owner) db.write(inserts.first({ owner, number: refused }))
    }
    const all = notes.flatMap((note) => find(note.replace(failingNote, '')) ?? [])
    for (const each of all) each.linked++
    return {
      committed: () => {
        for (const each of all) each.committed++
      },
      settled: () => {
        for (const each of all) each.settled++
      },
    }
  },
  asFailure: (error) => (isFailure(error, 'unavailable') ? error : new Failure('unrecorded')),
})

function jobOf(work: Work, owner: string, counters: Counters, link: Link<string>): Job<void, void, string> {
  const { parts, end, at } = work
  return {
    read: async (db) => {
      counters.runs++
      for (const { table, isRead } of parts) if (isRead) await db.all(counts[table]([owner]))
      if (end === 'refusal' && at % 2 === 0) throw new Failure('forbidden')
    },
    plan: (_read, _desk, db) => {
      for (const [index, each] of parts.entries()) {
        db.writeMany(rowsOf(work, owner, index), inserts[each.table])
        if (isFailing(work, index) && end === 'refusal') throw new Failure('forbidden')
      }
      if (end === 'commit') db.write(sql`insert into late_check (owner, item_id) values (${owner}, 'nowhere')`)
      return { result: undefined, note: noteOf(work, owner) }
    },
    link,
  }
}

async function runParts(db: Db, work: Work, owner: string): Promise<void> {
  const { parts, end } = work
  const written = { first: 0, second: 0, third: 0 }
  for (const [index, { table, rows, isRead }] of parts.entries()) {
    if (end === 'commit' && isFailing(work, index))
      db.write(sql`insert into late_check (owner, item_id) values (${owner}, 'nowhere')`)
    db.writeMany(rowsOf(work, owner, index), inserts[table])
    if (isFailing(work, index)) {
      if (end === 'refusal') throw new Failure('forbidden')
      if (end === 'ignored statement') await db.count(inserts[table]({ owner, number: ending })).catch(() => undefined)
    }
    written[table] += rows
    if (!isRead) continue
    const reading = db.one<{ count: number }>(counts[table]([owner]))
    const seen = await (end === 'ignored statement' ? reading.catch(() => undefined) : reading)
    if (end === 'well' && seen?.count !== written[table]) throw new Error('a transaction must see its own rows')
  }
}

const isFailing = ({ parts, at }: Work, index: number) => index === at % parts.length

/** One of the rows of the part that fails may be refused by the database. */
function rowsOf(work: Work, owner: string, index: number): { owner: string; number: number }[] {
  const { parts, end, at, kind } = work
  const count = parts[index]?.rows ?? 0
  const list = Array.from({ length: count }, (_, number) => ({ owner, number }))
  const isBroken = end === 'statement' || end === 'ended transaction' || (end === 'ignored statement' && kind === 'job')
  if (isBroken && isFailing(work, index)) list[at % count] = { owner, number: end === 'statement' ? refused : ending }
  return list
}

function wantedOf({ parts }: Work): Stored {
  const wanted = { first: 0, second: 0, third: 0, trail: 1 }
  for (const { table, rows } of parts) wanted[table] += rows
  return wanted
}

async function countStored(reader: Reader, owners: readonly string[]): Promise<(owner: string) => Stored> {
  const found = new Map<string, number>()
  for (const place of places) {
    for (const { owner, count } of await reader.all<{ owner: string; count: number }>(counts[place](owners)))
      found.set(`${place} ${owner}`, count)
  }
  const countOf = (place: keyof Stored, owner: string) => found.get(`${place} ${owner}`) ?? 0
  return (owner) => ({
    first: countOf('first', owner),
    second: countOf('second', owner),
    third: countOf('third', owner),
    trail: countOf('trail', owner),
  })
}

export async function clearInjectedTables(engine: Engine): Promise<void> {
  await engine.transaction('clear', async ({ db }) => {
    db.write(sql`delete from first_row`)
    db.write(sql`delete from second_row`)
    db.write(sql`delete from third_row`)
    db.write(sql`delete from trail`)
  })
}
