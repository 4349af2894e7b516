/** The scale engine: PostgreSQL through a pool of prepared statements. A lost connection is a 503, never a stuck pool. */
import { hash } from 'node:crypto'
import pg from 'pg'
import { Failure } from '../../failure.ts'
import { createSlotPool, type SlotPool } from '../../slot-pool.ts'
import { type CommitQueue, type Connection, createCommitQueue } from './commit-queue.ts'
import { createRefusalBell } from './refusal.ts'
import { type Compiled, compile, type Db, type Engine, parameters, type Sql } from './sql.ts'

const poolSize = 20
/** Work within a transaction may ask for what lies outside of it, such as new keys: for that, connections are always left. */
const maxTransactions = 16
const connectTimeoutMs = 5_000
const statementMs = 30_000
/** A step of a migration may fill an index or copy a table, however large, and others wait for it: nobody hurries them. */
const migrationMs = 24 * 60 * 60 * 1_000
/** Nothing of ours pauses within a transaction: whoever does has frozen, and holds the locks that others wait for. */
const idleTransactionTimeoutMs = 10_000
const int8 = 20

/** Commit positions and times fit a double exactly; everything else stays as the driver gives it. */
const types: pg.CustomTypesConfig = {
  getTypeParser: (id, format) => (id === int8 ? Number : pg.types.getTypeParser(id, format)),
}

export function openPostgres(url: string, statementTimeoutMs = statementMs): Engine {
  const pool = new pg.Pool({
    connectionString: strict(url),
    max: poolSize,
    connectionTimeoutMillis: connectTimeoutMs,
    statement_timeout: statementTimeoutMs,
    query_timeout: statementTimeoutMs + 1_000,
    idle_in_transaction_session_timeout: idleTransactionTimeoutMs,
    application_name: 'coffer',
    keepAlive: true,
    types,
  })
  // An idle connection that breaks is simply replaced by the next query.
  pool.on('error', () => undefined)
  // The pool hands a new one out a moment before whoever asked can listen: an error that nobody hears ends the process.
  pool.on('connect', (client) => client.on('error', () => undefined))

  const refusals = createRefusalBell(passingCodes)
  const slots = createSlotPool({ running: maxTransactions, patienceMs: connectTimeoutMs })
  const queues = new Map<string, CommitQueue>()

  function queueFor(lock: string): CommitQueue {
    let queue = queues.get(lock)
    if (!queue) {
      queue = createCommitQueue(() => begin(pool, slots, partyOf(lock)), {
        onIdle: () => queues.delete(lock),
        onFailure: refusals.ring,
      })
      queues.set(lock, queue)
    }
    return queue
  }

  return {
    kind: 'postgres',
    ...postgresDb((query) => pool.query(query)),
    transaction: (lock, work) => queueFor(lock).run(work),
    joinTransaction: (lock, group, item, work) => queueFor(lock).join(group, item, work),
    onRefusal: refusals.listen,
    checkDurability: () => checkDurability(pool),
    checkFiles: () => checkFiles(pool),
    migratedSteps: () => migratedSteps(pool),
    migrateStep: (step, name, statement, nowMs) => migrateStep(pool, step, name, statement, nowMs),
    close: () => pool.end(),
  }
}

/** What the driver does by these names anyway, and would warn of in many lines. */
function strict(url: string): string {
  if (/[?&]uselibpqcompat=true(&|$)/.test(url)) return url
  return url.replace(/(?<=[?&]sslmode=)(prefer|require|verify-ca)(?=&|$)/, 'verify-full')
}

/** Each workspace shares the connections by itself; so do all logins together, and all shares, however many locks they have. */
const partyOf = (lock: string): string => lock.split(':')[0] ?? lock

async function begin(pool: pg.Pool, slots: SlotPool, party: string): Promise<Connection> {
  const slot = await slots.acquire([party])
  const client = await wrapErrors(() => pool.connect()).catch((error: unknown) => {
    slot.release()
    throw error
  })
  let brokenBy: Error | undefined
  const onError = (error: Error) => {
    brokenBy = error
  }
  client.on('error', onError)
  const release = () => {
    client.off('error', onError)
    client.release(brokenBy)
    slot.release()
  }
  const ask = async (query: pg.QueryConfig): Promise<pg.QueryResult> => {
    try {
      return await client.query(query)
    } catch (error) {
      // Whoever has not answered does not answer a rollback either: others wait for the end of this.
      if (error instanceof Error && !(error instanceof pg.DatabaseError)) brokenBy ??= error
      throw error
    }
  }
  const execute = async (text: string) => {
    await wrapErrors(() => ask({ text }))
  }
  try {
    await execute('begin')
  } catch (error) {
    brokenBy = error instanceof Error ? error : new Error('begin failed')
    release()
    throw error
  }
  return {
    db: postgresDb(ask),
    savepoint: () => execute('savepoint one_of_many'),
    releaseSavepoint: () => execute('release savepoint one_of_many'),
    rollbackToSavepoint: () => execute('rollback to savepoint one_of_many'),
    commit: async () => {
      const { command } = await wrapErrors(() => ask({ text: 'commit' }))
      // After an error that the work has swallowed the server answers a commit with a rollback, and calls it a success.
      if (command !== 'COMMIT') throw new Failure('internal')
      release()
    },
    rollback: async () => {
      try {
        if (!brokenBy) await execute('rollback')
      } catch (error) {
        brokenBy = error instanceof Error ? error : new Error('rollback failed')
      }
      release()
    },
    isLost: (error) => error instanceof Failure && error.code === 'unavailable',
  }
}

type Runner = (query: pg.QueryConfig) => Promise<pg.QueryResult>

/** A prepared statement is named by its text: the same on every connection, and no two texts share a name. */
const nameOf = (text: string) => `coffer_${hash('sha256', text, 'hex').slice(0, 32)}`
const compiledQueries = new WeakMap<TemplateStringsArray, Compiled & { readonly name: string }>()

function postgresDb(run: Runner): Db {
  async function execute(query: Sql): Promise<pg.QueryResult> {
    let compiled = compiledQueries.get(query.strings)
    if (!compiled) {
      const fresh = compile(query, 'postgres')
      compiled = { ...fresh, name: nameOf(fresh.text) }
      compiledQueries.set(query.strings, compiled)
    }
    const { name, text } = compiled
    const values = parameters(query, compiled, (list) => [list])
    return wrapErrors(() => run({ name, text, values }))
  }
  return {
    // Rows are what the statement says they are: the one place where SQL meets types.
    one: async <Row>(query: Sql) => (await execute(query)).rows[0] as Row | undefined,
    all: async <Row>(query: Sql) => (await execute(query)).rows as Row[],
    run: async (query) => (await execute(query)).rowCount ?? 0,
    runMany: async (rows, query) => {
      const [only] = rows
      if (only !== undefined && rows.length === 1) {
        await execute(query(only))
        return
      }
      for (const queries of portions(rows, query)) await wrapErrors(() => run(joinInserts(queries)))
    },
  }
}

/** What is written out at once, and so stands in memory several times over. */
const rowsPerInsert = 1_000
const lengthPerInsert = 4 * 1024 * 1024

function* portions<Row>(rows: readonly Row[], query: (row: Row) => Sql): Generator<Sql[]> {
  let portion: Sql[] = []
  let length = 0
  for (const row of rows) {
    const one = query(row)
    portion.push(one)
    for (const value of one.values) {
      if (typeof value === 'string' || value instanceof Uint8Array) length += value.length
    }
    if (portion.length < rowsPerInsert && length < lengthPerInsert) continue
    yield portion
    portion = []
    length = 0
  }
  if (portion.length > 0) yield portion
}

type ListType = 'text' | 'bigint' | 'bytea' | undefined
/** By template, and then by the types of its lists. */
const joinedInserts = new WeakMap<TemplateStringsArray, Map<string, { readonly name: string; readonly text: string }>>()

/**
 * One prepared insert for however many rows, which takes the list of their values for each parameter of the template: a
 * text with a parameter for every value would be read and planned anew each time. All queries are of the same template.
 */
function joinInserts(queries: readonly Sql[]): pg.QueryConfig {
  const [first] = queries
  if (!first) throw new Error('there is nothing to insert')
  const lists = first.values.map((_, place) => queries.map(({ values }) => values[place]))
  const types = lists.map(listType)
  const shapes = joinedInserts.get(first.strings) ?? new Map()
  joinedInserts.set(first.strings, shapes)
  const text = shapes.get(types.join())?.text ?? joinedText(first, types)
  const insert = shapes.get(types.join()) ?? { name: nameOf(text), text }
  shapes.set(types.join(), insert)
  return { ...insert, values: lists.filter((_, place) => types[place]) }
}

/** Undefined where no row has a value. */
function listType(list: readonly unknown[]): ListType {
  const value = list.find((one) => one !== null)
  if (value === undefined) return undefined
  if (typeof value === 'string') return 'text'
  return typeof value === 'number' ? 'bigint' : 'bytea'
}

function joinedText(query: Sql, types: readonly ListType[]): string {
  const { text, kinds } = compile(query, 'postgres')
  const match = /^([\s\S]*?)values\s*\(([\s\S]*?)\)((?:\s*on conflict[\s\S]*)?)$/.exec(text.trim())
  if (!match || kinds.some((kind) => kind !== 'value'))
    throw new Error('runMany takes an insert with one group of values')
  const [, head = '', group = '', tail = ''] = match
  const items = group.replace(/\$(\d+)/g, (_all, number) => (types[number - 1] ? `v${number}` : 'null'))
  const named = types.flatMap((type, place) => (type ? [{ name: `v${place + 1}`, type }] : []))
  const lists = named.map(({ type }, index) => `$${index + 1}::${type}[]`)
  return `${head}select ${items} from unnest(${lists}) as given(${named.map(({ name }) => name)})${tail}`
}

async function checkDurability(pool: pg.Pool): Promise<void> {
  for (const name of ['fsync', 'full_page_writes', 'synchronous_commit']) {
    const { rows } = await wrapErrors(() => pool.query(`show ${name}`))
    const value: unknown = rows[0]?.[name]
    if (value === 'off') throw new Error(`PostgreSQL's ${name} is off and must be on: a commit could be lost.`)
  }
}

/** The server itself checks each page that it reads. */
async function checkFiles(pool: pg.Pool): Promise<string> {
  const { rows } = await wrapErrors(() => pool.query('show data_checksums'))
  return rows[0]?.data_checksums === 'on'
    ? 'PostgreSQL checks every page that it reads'
    : 'PostgreSQL keeps no checksums of its pages: see pg_checksums'
}

async function migratedSteps(pool: pg.Pool): Promise<number> {
  const { rows: tables } = await wrapErrors(() => pool.query(`select to_regclass('schema_step') as name`))
  if (!tables[0]?.name) return 0
  const { rows } = await wrapErrors(() => pool.query('select coalesce(max(step), 0) as step from schema_step'))
  return Number(rows[0]?.step)
}

/** Two nodes may start together: "if not exists" itself is not safe against that. */
const makeBook = `do $$ begin
    perform pg_advisory_xact_lock(7236824);
    create table if not exists schema_step (step integer primary key, name text, applied_at bigint);
    create table if not exists schema_lock (id integer primary key);
    insert into schema_lock (id) values (1) on conflict do nothing;
  end $$`

async function migrateStep(pool: pg.Pool, step: number, name: string, statement: string, nowMs: number): Promise<void> {
  await wrapErrors(async () => {
    if (step === 1) await pool.query(makeBook)
    const client = await pool.connect()
    try {
      const patiently = (text: string) => {
        // The driver knows it, and its types do not.
        const query = { text, query_timeout: migrationMs }
        return client.query(query)
      }
      await client.query('begin')
      await client.query(`set local statement_timeout = ${migrationMs}`)
      await patiently('select id from schema_lock where id = 1 for update')
      const { rowCount } = await client.query('select 1 from schema_step where step = $1', [step])
      if (rowCount === 0) {
        await patiently(statement.replaceAll('$serial', 'bigint generated always as identity primary key'))
        await client.query('insert into schema_step (step, name, applied_at) values ($1, $2, $3)', [step, name, nowMs])
      }
      await client.query('commit')
      client.release()
    } catch (error) {
      // Closing the connection rolls back, whatever state it is in.
      client.release(true)
      throw error
    }
  })
}

/** SQLSTATE classes of a server that is away, starting, stopping, full or out of reach, or that lets nobody in any more. */
const unavailableClasses: ReadonlySet<string> = new Set(['08', '28', '3D', '53', '57', '58'])
/** A primary that has become a standby, or that takes no writes until its disk has room. */
const readOnly = '25006'
const uniqueViolation = '23505'
const foreignKeyViolation = '23503'
/** Serialization failures, a deadlock, and a transaction that paused for too long: it may go well the next time. */
const passingCodes: ReadonlySet<string> = new Set(['40001', '40P01', '25P03'])

async function wrapErrors<Result>(work: () => Promise<Result>): Promise<Result> {
  try {
    return await work()
  } catch (error) {
    throw asFailure(error)
  }
}

function asFailure(error: unknown): unknown {
  if (!(error instanceof Error)) return error
  const code = 'code' in error && typeof error.code === 'string' ? error.code : undefined
  if (code === uniqueViolation || code === foreignKeyViolation)
    return new Failure('conflict', undefined, { cause: error })
  // Anything but an answer of the server is the socket or the pool that failed; EPIPE only looks like a SQLSTATE.
  const isServerAnswer = error instanceof pg.DatabaseError
  const isRefusal = code === undefined || code === readOnly || unavailableClasses.has(code.slice(0, 2))
  if (!isServerAnswer || isRefusal || passingCodes.has(code)) {
    return new Failure('unavailable', undefined, { cause: error })
  }
  return error
}
