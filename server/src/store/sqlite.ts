/**
 * The embedded engine: node:sqlite in WAL mode; a commit counts once the disk has it (sqlite-wal.ts). One connection writes,
 * one reads, so that a reader never sees what is not committed.
 */
import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite'
import { Failure } from '../failure.ts'
import { type Connection, createCommitQueue } from './commit-queue.ts'
import { type Compiled, compile, type Db, type Engine, hasSingleItems, parameters, type Sql } from './sql.ts'
import { openWal } from './sqlite-wal.ts'

const busyTimeoutMs = 5_000
const rowsPerTurn = 500

type Prepared = {
  readonly compiled: Compiled
  readonly statement: StatementSync
  readonly plain: boolean
  readonly encodeList: (list: readonly string[]) => readonly unknown[]
}
const asJson = (list: readonly string[]) => [JSON.stringify(list)]
const asItems = (list: readonly string[]) => list

export function openSqlite(path: string): Engine {
  const writer = openConnection(path)
  const reader = openConnection(path)
  const wal = openWal(path, writer)
  const writeDb = sqliteDb(writer)
  const [begin, commit] = [prepareStep(writer, 'begin immediate'), prepareStep(writer, 'commit')]
  const savepoint = prepareStep(writer, 'savepoint one_of_many')
  const releaseSavepoint = prepareStep(writer, 'release one_of_many')
  const connection: Connection = {
    db: writeDb,
    savepoint,
    releaseSavepoint,
    rollbackToSavepoint: async () => {
      execute(writer, 'rollback to one_of_many')
      await releaseSavepoint()
    },
    commit: async () => {
      try {
        await commit()
      } catch (error) {
        wal.makeRoom()
        throw error
      }
    },
    harden: wal.harden,
    rollback: async () => {
      if (writer.isTransaction) execute(writer, 'rollback')
    },
    isLost: () => !writer.isTransaction,
  }
  const queue = createCommitQueue(async () => {
    await wal.prepare().catch((error: unknown) => {
      throw asFailure(error)
    })
    await begin()
    return connection
  })

  return {
    kind: 'sqlite',
    ...sqliteDb(reader),
    transaction: (_lock, work) => queue.run(work),
    joinTransaction: (_lock, group, item, work) => queue.join(group, item, work),
    checkDurability: async () => checkDurability(writer),
    checkFiles: async () => checkFiles(reader),
    migratedSteps: async () => {
      execute(writer, 'create table if not exists schema_step (step integer primary key, name text, applied_at bigint)')
      return Number(writer.prepare('select coalesce(max(step), 0) as step from schema_step').get()?.step)
    },
    migrateStep: async (step, name, statement, nowMs) => {
      execute(writer, 'begin immediate')
      try {
        const done = writer.prepare('select 1 from schema_step where step = ?').get(step)
        if (!done) {
          execute(writer, statement.replaceAll('$serial', 'integer primary key autoincrement'))
          writer.prepare('insert into schema_step (step, name, applied_at) values (?, ?, ?)').run(step, name, nowMs)
        }
        execute(writer, 'commit')
        await wal.harden()
      } catch (error) {
        if (writer.isTransaction) execute(writer, 'rollback')
        throw error
      }
    },
    close: async () => {
      while (!queue.isIdle) await new Promise((resolve) => setImmediate(resolve))
      await wal.close()
      reader.close()
      writer.close()
    },
  }
}

function openConnection(path: string): DatabaseSync {
  const connection = new DatabaseSync(path, { timeout: busyTimeoutMs, enableForeignKeyConstraints: true })
  const deadline = performance.now() + busyTimeoutMs
  // SQLite itself does not wait here: where another process opens the same new file, it says "locked" at once.
  while (!isJournalSwitched(connection)) {
    if (performance.now() > deadline) throw new Failure('unavailable')
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10)
  }
  connection.exec(`
    pragma synchronous = normal; pragma wal_autocheckpoint = 0;
    pragma foreign_keys = on; pragma secure_delete = on;`)
  return connection
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

function checkDurability(connection: DatabaseSync): void {
  const expected: [name: string, value: string | number][] = [
    ['journal_mode', 'wal'],
    ['synchronous', 1],
    ['wal_autocheckpoint', 0],
    ['foreign_keys', 1],
  ]
  for (const [name, value] of expected) {
    const actual = connection.prepare(`pragma ${name}`).get()?.[name]
    if (actual !== value) throw new Error(`SQLite's ${name} is ${String(actual)} and must be ${value}.`)
  }
}

/** Pages carry no checksum: a bit that turned in a name or an index is seen only where two places disagree. */
function checkFiles(connection: DatabaseSync): string {
  let isWhole = false
  try {
    isWhole = connection.prepare('pragma integrity_check(1)').get()?.integrity_check === 'ok'
  } catch {
    // What cannot even be read is damaged too.
  }
  if (!isWhole)
    throw new Error('the file is damaged, and what it answers may lack something: restore it from a backup.')
  return 'every page and every index agrees with the others'
}

function sqliteDb(connection: DatabaseSync): Db {
  const prepared = new WeakMap<TemplateStringsArray, Prepared>()
  const preparedForSingles = new WeakMap<TemplateStringsArray, Prepared>()

  function prepare(query: Sql): Prepared {
    const common = prepared.get(query.strings)
    if (common?.plain) return common
    const isSingle = hasSingleItems(query)
    const known = isSingle ? preparedForSingles.get(query.strings) : common
    if (known) return known
    const compiled = compile(query, 'sqlite', isSingle)
    const fresh = {
      compiled,
      statement: connection.prepare(compiled.text),
      plain: compiled.kinds.every((kind) => kind === 'value'),
      encodeList: isSingle ? asItems : asJson,
    }
    if (fresh.plain || !isSingle) prepared.set(query.strings, fresh)
    else preparedForSingles.set(query.strings, fresh)
    return fresh
  }

  function call<Result>(query: Sql, use: (statement: StatementSync, values: SQLInputValue[]) => Result): Result {
    try {
      const { compiled, statement, plain, encodeList } = prepare(query)
      const values = plain ? query.values : parameters(query, compiled, encodeList)
      // Sql values are strings, numbers, bytes and null once lists and fragments are dealt with.
      return use(statement, values as SQLInputValue[])
    } catch (error) {
      throw asFailure(error)
    }
  }

  return {
    // Rows are what the statement says they are: the one place where SQL meets types.
    one: async <Row>(query: Sql) => call(query, (statement, values) => statement.get(...values) as Row | undefined),
    all: async <Row>(query: Sql) => call(query, (statement, values) => statement.all(...values) as Row[]),
    run: async (query) => call(query, (statement, values) => Number(statement.run(...values).changes)),
    runMany: async (rows, query) => {
      let done = 0
      for (const row of rows) {
        call(query(row), (statement, values) => statement.run(...values))
        // Readers go on while a large import is written.
        if (++done % rowsPerTurn === 0) await new Promise((resolve) => setImmediate(resolve))
      }
    },
  }
}

/** For what every transaction does: the text is read once. */
function prepareStep(connection: DatabaseSync, text: string): () => Promise<void> {
  const statement = connection.prepare(text)
  return async () => {
    try {
      statement.run()
    } catch (error) {
      throw asFailure(error)
    }
  }
}

function execute(connection: DatabaseSync, text: string): void {
  try {
    connection.exec(text)
  } catch (error) {
    throw asFailure(error)
  }
}

const constraintUnique = new Set([2067, 1555, 2579])
const constraintForeignKey = 787
/** Primary result codes of a disk or file that does not answer: BUSY, LOCKED, NOMEM, READONLY, IOERR, FULL, CANTOPEN. */
const unavailable = new Set([5, 6, 7, 8, 10, 13, 14])

function asFailure(error: unknown): unknown {
  if (!(error instanceof Error) || !('errcode' in error) || typeof error.errcode !== 'number') return error
  if (constraintUnique.has(error.errcode)) return new Failure('conflict', undefined, { cause: error })
  if (error.errcode === constraintForeignKey) return new Failure('conflict', undefined, { cause: error })
  if (unavailable.has(error.errcode & 0xff)) return new Failure('unavailable', undefined, { cause: error })
  return error
}
