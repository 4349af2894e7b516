/**
 * The engine for many nodes: PostgreSQL through a pool of prepared statements. A lost connection is a 503 and never
 * blocks the pool.
 */
import pg from 'pg'
import { Failure, isFailure } from '../../failure.ts'
import { createSlotPool, type SlotPool } from '../../slot/pool.ts'
import { type CommitQueue, createCommitQueue, type EngineConnection } from './commit-queue.ts'
import { givingWay, lockWaitMs } from './lock-wait.ts'
import { connectionsPerNode } from './postgres-connections.ts'
import { isFollowUp, passingCodes, wrapErrors } from './postgres-error.ts'
import { joinInserts, nameOf, portions } from './postgres-insert.ts'
import { createPacker, withPadding } from './postgres-send.ts'
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
  const hasSessions = !isPooled(url)
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
    // A transaction may send statements without waiting for the answers of earlier ones.
    pipeline: true,
    query_timeout: statementTimeoutMs + 1_000,
    ...(hasSessions && {
      statement_timeout: statementTimeoutMs,
      idle_in_transaction_session_timeout: idleTransactionTimeoutMs,
    }),
  })
  const prepare: Prepare = hasSessions ? (query) => query : withoutName
  // The pool replaces a broken idle connection at the next query.
  pool.on('error', () => undefined)
  // The pool hands out a new connection before its user can attach a listener. An unhandled error event would end the
  // process.
  pool.on('connect', (client) => client.on('error', () => undefined))

  const refusals = createRefusalBell(passingCodes)
  const slots = createSlotPool({ running: maxTransactions, maxWaitMs: connectTimeoutMs })
  const queues = new Map<string, CommitQueue>()

  function queueFor(lock: string, rows?: Sql): CommitQueue {
    let queue = queues.get(lock)
    if (!queue) {
      queue = createCommitQueue(() => begin(pool, prepare, slots, partyOf(lock), rows), {
        isRemote: true,
        onIdle: () => queues.delete(lock),
        onFailure: refusals.ring,
      })
      queues.set(lock, queue)
    }
    return queue
  }

  return {
    kind: 'postgres',
    ...postgresDb((query) => pool.query(prepare(query))),
    transaction: (lock, work, rows) => queueFor(lock, rows).run(work),
    joinTransaction: (lock, group, item, work, rows) => queueFor(lock, rows).join(group, item, work),
    onRefusal: refusals.listen,
    checkDurability: async () => {
      await checkDurability(pool)
      if (!hasSessions) await checkTimeouts(pool)
    },
    checkFiles: () => checkFiles(pool),
    migratedSteps: () => migratedSteps(pool),
    migrateStep: (...step) => givingWay(() => migrateStep(pool, ...step)),
    shapes: postgresShapes((text, values = []) =>
      wrapErrors(async () => (await pool.query({ text, values: [...values], rowMode: 'array' })).rows),
    ),
    readTables: (names, work) => withPostgresTables(common, wrapErrors, names, work),
    close: () => pool.end(),
  }
}

/**
 * PgBouncer in transaction mode gives each transaction another connection: it refuses settings of a session, and does not
 * know statements that were prepared on another connection.
 */
const isPooled = (url: string): boolean => /[?&]pgbouncer=true(&|$)/.test(url)

const withoutName = ({ text, values }: pg.QueryConfig): pg.QueryConfig => ({ text, ...(values && { values }) })

/** The driver already treats these modes as verify-full, but prints a long warning about it. */
function strict(url: string): string {
  if (/[?&]uselibpqcompat=true(&|$)/.test(url)) return url
  return url.replace(/(?<=[?&]sslmode=)(prefer|require|verify-ca)(?=&|$)/, 'verify-full')
}

/**
 * Party for the fair sharing of connections: each workspace is one; all logins together are one, and so are all shares.
 */
const partyOf = (lock: string): string => lock.split(':')[0] ?? lock

async function begin(
  pool: pg.Pool,
  prepare: Prepare,
  slots: SlotPool,
  party: string,
  rows?: Sql,
): Promise<EngineConnection> {
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
  let isReleased = false
  /** Once: a second release would hand the connection of another transaction back to the pool. */
  const release = () => {
    if (isReleased) return
    isReleased = true
    client.off('error', onError)
    client.release(brokenBy)
    slot.release()
  }
  const hold = createPacker(client instanceof pg.Client ? client.connection.stream : undefined)
  let isEnding = false
  const ask = async (query: pg.QueryConfig): Promise<pg.QueryResult> => {
    if (isEnding || isReleased) throw new Error('a statement came after the end of its transaction')
    hold()
    try {
      return await client.query(prepare(query))
    } catch (error) {
      // A server that did not answer this query will not answer a rollback either: discard the connection.
      if (error instanceof Error && !(error instanceof pg.DatabaseError)) brokenBy ??= error
      throw error
    }
  }
  const execute = async (text: string) => {
    await wrapErrors(() => ask({ text }))
  }
  const db = postgresDb(ask, true)
  let locked: readonly unknown[]
  try {
    locked = await beginAndLock(db, execute, rows)
  } catch (error) {
    brokenBy = error instanceof Error ? error : new Error('begin failed')
    release()
    throw error
  }
  return {
    db,
    locked,
    isPipelined: true,
    isFollowUp,
    savepoint: () => execute('savepoint one_of_many'),
    releaseSavepoint: () => execute('release savepoint one_of_many'),
    rollbackToSavepoint: () => execute('rollback to savepoint one_of_many'),
    commit: async () => {
      const committing = wrapErrors(() => ask({ text: 'commit' }))
      isEnding = true
      const { command } = await committing
      // If the work swallowed an error, the server answers a commit with a rollback and reports success.
      if (command !== 'COMMIT') throw new Failure('internal')
      release()
    },
    rollback: async () => {
      // After a commit the connection may serve another transaction, which a rollback would undo.
      if (isReleased) return
      isEnding = false
      try {
        if (!brokenBy) await execute('rollback')
      } catch (error) {
        brokenBy = error instanceof Error ? error : new Error('rollback failed')
      }
      release()
    },
    isLost: (error) => error instanceof Failure && error.code === 'unavailable' && !isFollowUp(error),
  }
}

/** Nobody waits between the two statements, so that a lock is held for one round trip less. */
async function beginAndLock(db: Db, execute: (text: string) => Promise<void>, rows?: Sql): Promise<readonly unknown[]> {
  const begun = execute('begin')
  if (!rows) {
    await begun
    return []
  }
  const locking = db.all(rows)
  locking.catch(() => undefined)
  await begun
  try {
    return await locking
  } catch (error) {
    if (isFailure(error, 'unavailable')) throw error
    // The work itself reports what is wrong with the rows that it cannot lock.
    await execute('rollback')
    await execute('begin')
    return []
  }
}

type Runner = (query: pg.QueryConfig) => Promise<pg.QueryResult>
/** Chooses whether the server keeps the prepared statement. */
type Prepare = (query: pg.QueryConfig) => pg.QueryConfig

const compiledQueries = new WeakMap<TemplateStringsArray, Compiled & { readonly name: string }>()

/** On a pipelined connection every statement of a call is sent before the call returns, so none can come after a commit. */
function postgresDb(run: Runner, isPipelined = false): Db {
  async function execute(query: Sql): Promise<pg.QueryResult> {
    let compiled = compiledQueries.get(query.strings)
    if (!compiled) {
      const fresh = compile(query, 'postgres')
      compiled = { ...fresh, name: nameOf(fresh.text) }
      compiledQueries.set(query.strings, compiled)
    }
    const { name, text } = compiled
    const values = parameters(query, compiled, (list) => [withPadding(list)])
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
      const sent: Promise<unknown>[] = []
      for (const queries of portions(rows, query)) {
        const answer = wrapErrors(() => run(joinInserts(queries)))
        // The first failed one is reported, whichever is awaited.
        answer.catch(() => undefined)
        sent.push(answer)
        if (!isPipelined) await answer
      }
      await Promise.all(sent)
    },
  }
}

async function checkDurability(pool: pg.Pool): Promise<void> {
  for (const name of ['fsync', 'full_page_writes', 'synchronous_commit']) {
    const { rows } = await wrapErrors(() => pool.query(`show ${name}`))
    const value: unknown = rows[0]?.[name]
    if (value === 'off') throw new Error(`PostgreSQL's ${name} is off and must be on: a commit could be lost.`)
  }
}

/** Without them, a node that stops in the middle of a transaction would keep its locks. */
async function checkTimeouts(pool: pg.Pool): Promise<void> {
  for (const [name, maxMs] of [
    ['statement_timeout', statementMs],
    ['idle_in_transaction_session_timeout', idleTransactionTimeoutMs],
  ] as const) {
    const found = await wrapErrors(() => pool.query(`select setting from pg_settings where name = '${name}'`))
    const ms = Number(found.rows[0]?.setting)
    if (ms > 0 && ms <= maxMs) continue
    const wanted = `alter role … set ${name} = '${maxMs / 1_000}s'`
    throw new Error(`PostgreSQL's ${name} must be set for the role that PgBouncer connects as: ${wanted}.`)
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
