/**
 * The engine for many nodes: PostgreSQL through a pool of prepared statements. A lost connection is a 503 and never
 * blocks the pool.
 */
import pg from 'pg'
import { codeOf } from '../../error-code.ts'
import { Failure, isFailure } from '../../failure.ts'
import { createSlotPool, type SlotPool } from '../../slot/pool.ts'
import { type CommitQueue, createCommitQueue } from './commit-queue.ts'
import { givingWay, lockWaitMs } from './lock-wait.ts'
import type { Connection, Insert, Statement } from './open-transaction.ts'
import { connectionsPerNode } from './postgres-connections.ts'
import { conflictCodes, passingCodes, wrapErrors } from './postgres-error.ts'
import { joinInserts, nameOf, portions } from './postgres-insert.ts'
import { packing, withPadding } from './postgres-send.ts'
import { postgresShapes, withPostgresTables } from './postgres-table-reader.ts'
import { createRefusalBell } from './refusal.ts'
import { type Compiled, compile, type Engine, parameters, type Reader, type Sql } from './sql.ts'

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
        isPassing: (error) => isFailure(error) && conflictCodes.has(codeOf(error.cause)),
        onIdle: () => queues.delete(lock),
        onFailure: refusals.ring,
      })
      queues.set(lock, queue)
    }
    return queue
  }

  const { one, all } = postgresDb((query) => pool.query(prepare(query)))

  return {
    kind: 'postgres',
    one,
    all,
    transaction: (lock, work, options) => queueFor(lock, options?.rows).run(work, options),
    commit: (lock, job, { rows } = {}) => queueFor(lock, rows).commit(lock, job),
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

async function begin(pool: pg.Pool, prepare: Prepare, slots: SlotPool, party: string, rows?: Sql): Promise<Connection> {
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
  const inOnePacket = packing(client instanceof pg.Client ? client.connection.stream : undefined)
  const run: Runner = async (query) => {
    try {
      return await client.query(prepare(query))
    } catch (error) {
      // A server that did not answer this query will not answer a rollback either: discard the connection.
      if (error instanceof Error && !(error instanceof pg.DatabaseError)) brokenBy ??= error
      throw error
    }
  }
  const { sendAll, ...ask } = postgresDb(run)
  const { all } = ask
  const execute = async (text: string) => {
    await wrapErrors(() => run({ text }))
  }
  let locked: readonly unknown[]
  try {
    locked = await beginAndLock(all, execute, rows)
  } catch (error) {
    brokenBy = error instanceof Error ? error : new Error('begin failed')
    release()
    throw error
  }
  return {
    locked,
    isPipelined: true,
    ask,
    send: async (statements) => requireAll(inOnePacket(() => sendAll(statements))),
    commit: async (statements) => {
      // If a statement cannot be sent, neither is the commit.
      const [sent, committing] = inOnePacket(() => [sendAll(statements), wrapErrors(() => run({ text: 'commit' }))])
      committing.catch(() => undefined)
      await requireAll(sent)
      const { command } = await committing
      // After a failed statement, the server answers a commit with a rollback.
      if (command !== 'COMMIT') throw new Failure('internal')
      release()
    },
    rollback: async () => {
      // After a commit the connection may serve another transaction, which a rollback would undo.
      if (isReleased) return
      try {
        if (!brokenBy) await execute('rollback')
      } catch (error) {
        brokenBy = error instanceof Error ? error : new Error('rollback failed')
      }
      release()
    },
  }
}

/** Nobody waits between the two statements, so that a lock is held for one round trip less. */
async function beginAndLock(
  all: Reader['all'],
  execute: (text: string) => Promise<void>,
  rows?: Sql,
): Promise<readonly unknown[]> {
  const begun = execute('begin')
  if (!rows) {
    await begun
    return []
  }
  const locking = all(rows)
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

function postgresDb(run: Runner) {
  function asConfig(query: Sql): pg.QueryConfig {
    let compiled = compiledQueries.get(query.strings)
    if (!compiled) {
      const fresh = compile(query, 'postgres')
      compiled = { ...fresh, name: nameOf(fresh.text) }
      compiledQueries.set(query.strings, compiled)
    }
    const { name, text } = compiled
    return { name, text, values: parameters(query, compiled, (list) => [withPadding(list)]) }
  }

  function asConfigs(statement: Sql | Insert): pg.QueryConfig[] {
    if ('strings' in statement) return [asConfig(statement)]
    return [...portions(statement.inserts)].map((queries) => {
      const [only, another] = queries
      return only && !another ? asConfig(only) : joinInserts(queries)
    })
  }

  const execute = (query: Sql) => wrapErrors(() => run(asConfig(query)))

  return {
    // The only place where untyped rows get the type that their query promises.
    one: async <Row>(query: Sql) => (await execute(query)).rows[0] as Row | undefined,
    all: async <Row>(query: Sql) => (await execute(query)).rows as Row[],
    count: async (query: Sql) => (await execute(query)).rowCount ?? 0,
    /** Throws before anything is sent if a statement cannot be. */
    sendAll: (statements: readonly Statement[]): Sent[] =>
      statements
        .flatMap((statement) => asConfigs(statement.run).map((config) => ({ config, asFailure: statement.asFailure })))
        .map(({ config, asFailure }) => ({ answer: wrapErrors(() => run(config)), asFailure })),
  }
}

type Sent = Pick<Statement, 'asFailure'> & { readonly answer: Promise<unknown> }

/** Throws the failure of the first. The server ignores statements after a failed one; their errors do not say why. */
async function requireAll(sent: readonly Sent[]): Promise<void> {
  const settled = await Promise.allSettled(sent.map(({ answer }) => answer))
  const failed = settled.findIndex(({ status }) => status === 'rejected')
  const outcome = settled[failed]
  if (outcome?.status === 'rejected') throw sent[failed]?.asFailure(outcome.reason)
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
