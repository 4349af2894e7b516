/**
 * The engine for many nodes: PostgreSQL through a pool of prepared statements. A lost connection is a 503 and never
 * blocks the pool.
 */
import { hash } from 'node:crypto'
import pg from 'pg'
import { Failure } from '../../failure.ts'
import { createSlotPool, type SlotPool } from '../../slot/pool.ts'
import { type CommitQueue, createCommitQueue, type EngineConnection } from './commit-queue.ts'
import { givingWay, lockWaitMs } from './lock-wait.ts'
import { connectionsPerNode } from './postgres-limit.ts'
import { postgresShapes, withPostgresTables } from './postgres-table-reader.ts'
import { createRefusalBell } from './refusal.ts'
import { type Compiled, compile, type Db, type Engine, parameters, type Sql } from './sql.ts'

/** Below the pool size: work in a transaction may need a second connection, for example to load new keys. */
const maxTransactions = 16
const connectTimeoutMs = 5_000
const statementMs = 30_000
/** A migration step may build an index or copy a large table while other nodes wait for its lock. */
const migrationMs = 24 * 60 * 60 * 1_000
/** Our transactions never pause. One that does has hung and holds locks that others wait for. */
const idleTransactionTimeoutMs = 10_000
const int8 = 20

/** bigint columns hold commit positions and times, which fit a double exactly. */
const types: pg.CustomTypesConfig = {
  getTypeParser: (id, format) => (id === int8 ? Number : pg.types.getTypeParser(id, format)),
}

export function openPostgres(url: string, statementTimeoutMs = statementMs): Engine {
  const common = {
    connectionString: strict(url),
    connectionTimeoutMillis: connectTimeoutMs,
    application_name: 'coffer',
    keepAlive: true,
    types,
  }
  const pool = new pg.Pool({
    ...common,
    max: connectionsPerNode,
    statement_timeout: statementTimeoutMs,
    query_timeout: statementTimeoutMs + 1_000,
    idle_in_transaction_session_timeout: idleTransactionTimeoutMs,
  })
  // The pool replaces a broken idle connection at the next query.
  pool.on('error', () => undefined)
  // The pool hands out a new connection before its user can attach a listener. An unhandled error event would end the
  // process.
  pool.on('connect', (client) => client.on('error', () => undefined))

  const refusals = createRefusalBell(passingCodes)
  const slots = createSlotPool({ running: maxTransactions, maxWaitMs: connectTimeoutMs })
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
    migrateStep: (...step) => givingWay(() => migrateStep(pool, ...step)),
    shapes: postgresShapes((text, values = []) =>
      wrapErrors(async () => (await pool.query({ text, values: [...values], rowMode: 'array' })).rows),
    ),
    readTables: (work) => withPostgresTables(common, wrapErrors, work),
    close: () => pool.end(),
  }
}

/** The driver already treats these modes as verify-full, but prints a long warning about it. */
function strict(url: string): string {
  if (/[?&]uselibpqcompat=true(&|$)/.test(url)) return url
  return url.replace(/(?<=[?&]sslmode=)(prefer|require|verify-ca)(?=&|$)/, 'verify-full')
}

/**
 * Party for the fair sharing of connections: each workspace is one; all logins together are one, and so are all shares.
 */
const partyOf = (lock: string): string => lock.split(':')[0] ?? lock

async function begin(pool: pg.Pool, slots: SlotPool, party: string): Promise<EngineConnection> {
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
      // A server that did not answer this query will not answer a rollback either: discard the connection.
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
      // If the work swallowed an error, the server answers a commit with a rollback and reports success.
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

/** Names a prepared statement by the digest of its text: equal on every connection, distinct for distinct texts. */
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
    // The only place where untyped rows get the type that their query promises.
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

/** Limits of one insert: its values are in memory several times while it is sent. */
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
/** Keyed by template, then by the column types of its lists. */
const joinedInserts = new WeakMap<TemplateStringsArray, Map<string, { readonly name: string; readonly text: string }>>()

/**
 * One prepared insert for any number of rows, with one array parameter per template value. A parameter for each single
 * value would make the server parse and plan every row count anew. All queries must come from the same template.
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

/** Undefined if all values are null. */
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

/** With data checksums, the server itself verifies every page that it reads. */
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

/** Two nodes may start at once, and "create table if not exists" alone can fail under concurrency. */
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
        // The driver supports `query_timeout` per query, but its types do not declare it.
        const query = { text, query_timeout: migrationMs }
        return client.query(query)
      }
      await client.query('begin')
      await client.query(`set local statement_timeout = ${migrationMs}; set local lock_timeout = ${lockWaitMs}`)
      await patiently('select id from schema_lock where id = 1 for update')
      const { rowCount } = await client.query('select 1 from schema_step where step = $1', [step])
      if (rowCount === 0) {
        await patiently(statement.replaceAll('$serial', 'bigint generated always as identity primary key'))
        await client.query('insert into schema_step (step, name, applied_at) values ($1, $2, $3)', [step, name, nowMs])
      }
      await client.query('commit')
      client.release()
    } catch (error) {
      // Closing the connection rolls back, whatever its state.
      client.release(true)
      throw error
    }
  })
}

/** SQLSTATE classes of a server that is down, starting, stopping, full or unreachable, or that rejects our login. */
const unavailableClasses: ReadonlySet<string> = new Set(['08', '28', '3D', '53', '57', '58'])
/** The server became a standby, or went read-only until its disk has space. */
const readOnly = '25006'
const uniqueViolation = '23505'
const foreignKeyViolation = '23503'
/** Serialization failure, deadlock, idle-in-transaction timeout: a retry may succeed. */
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
  // Errors that are not DatabaseError come from the socket or the pool. EPIPE only looks like a SQLSTATE.
  const isServerAnswer = error instanceof pg.DatabaseError
  const isRefusal = code === undefined || code === readOnly || unavailableClasses.has(code.slice(0, 2))
  if (!isServerAnswer || isRefusal || passingCodes.has(code)) {
    return new Failure('unavailable', undefined, { cause: error })
  }
  return error
}
