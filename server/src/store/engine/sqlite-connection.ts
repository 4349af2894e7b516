/** One SQLite connection: opening the file, running our SQL, translating errors. */
import { statSync } from 'node:fs'
import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite'
import { codeOf } from '../../error-code.ts'
import { yieldToEventLoop } from '../../event-loop.ts'
import { Failure } from '../../failure.ts'
import type { Connection } from './open-transaction.ts'
import { type Compiled, compile, hasSingleItems, parameters, type Sql } from './sql.ts'

export const busyTimeoutMs = 5_000
const rowsPerTurn = 500

type Prepared = {
  readonly compiled: Compiled
  readonly statement: StatementSync
  readonly columns: readonly string[]
  readonly plain: boolean
  readonly encodeList: (list: readonly string[]) => readonly unknown[]
}
const asJson = (list: readonly string[]) => [JSON.stringify(list)]
const asItems = (list: readonly string[]) => list

/** With `read`, nothing in the file changes, not even its journal mode. */
export type OpenMode = 'read' | 'write'

export function openConnection(path: string, access: OpenMode): DatabaseSync {
  const connection = new DatabaseSync(path, { timeout: busyTimeoutMs, enableForeignKeyConstraints: true })
  if (access === 'write') switchJournal(connection)
  connection.exec(`
    pragma synchronous = normal; pragma wal_autocheckpoint = 0;
    pragma foreign_keys = on; pragma secure_delete = on; pragma temp_store = memory;
    pragma query_only = ${access === 'read' ? 'on' : 'off'};`)
  return connection
}

/** Called before the file is opened for use: switching a foreign file to WAL would already modify it. */
export function inspectFile(path: string): 'nothing' | 'store' | 'foreign' {
  if (!statSync(path, { throwIfNoEntry: false })) return 'nothing'
  const connection = new DatabaseSync(path, { timeout: busyTimeoutMs })
  try {
    connection.exec('pragma query_only = on')
    const tables = connection.prepare(`select name from sqlite_schema where type = 'table'`).all()
    if (tables.length === 0) return 'nothing'
    return tables.some(({ name }) => name === 'schema_step') ? 'store' : 'foreign'
  } finally {
    connection.close()
  }
}

function switchJournal(connection: DatabaseSync): void {
  const deadline = performance.now() + busyTimeoutMs
  // SQLite's busy timeout does not apply here: if another process opens the same new file, it fails with "locked" at
  // once.
  while (!isJournalSwitched(connection)) {
    if (performance.now() > deadline) throw new Failure('unavailable')
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10)
  }
}

function isJournalSwitched(connection: DatabaseSync): boolean {
  try {
    connection.exec('pragma journal_mode = wal')
    return true
  } catch (error) {
    if (asFailure(error) instanceof Failure && error instanceof Error && 'errcode' in error && error.errcode === 5)
      return false
    throw error
  }
}

/** Runs statements on one connection. `requireReady` throws if they cannot. */
export function sqliteDb(
  connection: DatabaseSync,
  requireReady: () => void = () => undefined,
): Connection['ask'] & Pick<Connection, 'send'> {
  const prepared = new WeakMap<TemplateStringsArray, Prepared>()
  const preparedForSingles = new WeakMap<TemplateStringsArray, Prepared>()

  function prepare(query: Sql): Prepared {
    const common = prepared.get(query.strings)
    if (common?.plain) return common
    const isSingle = hasSingleItems(query)
    const known = isSingle ? preparedForSingles.get(query.strings) : common
    if (known) return known
    const compiled = compile(query, 'sqlite', isSingle)
    const statement = connection.prepare(compiled.text)
    // Node's own row objects are hash tables: reading their fields takes longer than building our own from arrays.
    statement.setReturnArrays(true)
    const fresh = {
      compiled,
      statement,
      columns: statement.columns().map(({ name }) => name),
      plain: compiled.kinds.every((kind) => kind === 'value'),
      encodeList: isSingle ? asItems : asJson,
    }
    if (fresh.plain || !isSingle) prepared.set(query.strings, fresh)
    else preparedForSingles.set(query.strings, fresh)
    return fresh
  }

  function call<Result>(
    query: Sql,
    use: (statement: StatementSync, values: SQLInputValue[], columns: readonly string[]) => Result,
  ): Result {
    requireReady()
    try {
      const { compiled, statement, columns, plain, encodeList } = prepare(query)
      const values = plain ? query.values : parameters(query, compiled, encodeList)
      // Without lists and fragments, values are strings, numbers, bytes and null.
      return use(statement, values as SQLInputValue[], columns)
    } catch (error) {
      throw asFailure(error)
    }
  }

  const run = (query: Sql) => call(query, (statement, values) => Number(statement.run(...values).changes))

  return {
    one: async <Row>(query: Sql) =>
      call(query, (statement, values, columns) => {
        const row = statement.get(...values)
        return row && rowOf<Row>(columns, row)
      }),
    all: async <Row>(query: Sql) =>
      call(query, (statement, values, columns) => statement.all(...values).map((row) => rowOf<Row>(columns, row))),
    count: async (query) => run(query),
    send: async (statements) => {
      let done = 0
      for (const { run: statement, asFailure: asOther } of statements) {
        try {
          for (const query of 'strings' in statement ? [statement] : statement.inserts) {
            run(query)
            // Lets readers run while a large import is written.
            if (++done % rowsPerTurn === 0) await yieldToEventLoop()
          }
        } catch (error) {
          throw asOther(error)
        }
      }
    },
  }
}

/** The only place where untyped rows get the type that their query promises. */
function rowOf<Row>(columns: readonly string[], values: Readonly<Record<number, unknown>>): Row {
  const row: Record<string, unknown> = {}
  for (let at = 0; at < columns.length; at++) row[columns[at] ?? ''] = values[at]
  return row as Row
}

/** For the statements of every transaction: prepared once, run often. */
export function prepareStep(connection: DatabaseSync, text: string): () => void {
  const statement = connection.prepare(text)
  return () => {
    try {
      statement.run()
    } catch (error) {
      throw asFailure(error)
    }
  }
}

export function execute(connection: DatabaseSync, text: string): void {
  try {
    connection.exec(text)
  } catch (error) {
    throw asFailure(error)
  }
}

const constraintUnique: ReadonlySet<number> = new Set([2067, 1555, 2579])
const constraintForeignKey = 787
/** Primary result codes of an unavailable disk or file: BUSY, LOCKED, NOMEM, READONLY, IOERR, FULL, CANTOPEN. */
const unavailable: ReadonlySet<number> = new Set([5, 6, 7, 8, 10, 13, 14])

export function asFailure(error: unknown): unknown {
  if (!(error instanceof Error) || !('errcode' in error) || typeof error.errcode !== 'number') return error
  if (constraintUnique.has(error.errcode)) return new Failure('conflict', undefined, { cause: error })
  if (error.errcode === constraintForeignKey) return new Failure('conflict', undefined, { cause: error })
  if (unavailable.has(error.errcode & 0xff)) return new Failure('unavailable', undefined, { cause: error })
  return error
}

/** Keyed by SQLite's primary result codes: READONLY, IOERR, CORRUPT, FULL, CANTOPEN, NOTADB. */
const troubles: ReadonlyMap<number, string> = new Map([
  [8, 'cannot be written: check the permissions of the folder and its files.'],
  [10, 'cannot be read or written: check that its disk works and has room.'],
  [11, 'is damaged or not a database: restore it from a backup.'],
  [13, 'cannot be written, since the disk is full: make room.'],
  [14, 'cannot be opened: check that the folder and its files are writable.'],
  [26, 'is damaged or not a database: restore it from a backup.'],
])

/** Describes the problem of the file or its disk and how to fix it; undefined if neither is the cause. */
export function fileTrouble(error: unknown): string | undefined {
  if (error instanceof Failure) return fileTrouble(error.cause)
  if (codeOf(error) === 'ENOSPC') return troubles.get(13)
  if (!(error instanceof Error) || !('errcode' in error) || typeof error.errcode !== 'number') return undefined
  return troubles.get(error.errcode & 0xff)
}
