/**
 * The embedded engine: node:sqlite in WAL mode; a commit counts once it is on the disk (sqlite-wal.ts). One connection
 * writes and another reads, so that readers never see uncommitted data.
 */
import type { DatabaseSync } from 'node:sqlite'
import { yieldToEventLoop } from '../../event-loop.ts'
import { Failure } from '../../failure.ts'
import { createCommitQueue } from './commit-queue.ts'
import type { Connection } from './open-transaction.ts'
import { createRefusalBell } from './refusal.ts'
import type { Engine } from './sql.ts'
import { asFailure, execute, type OpenMode, openConnection, prepareStep, sqliteDb } from './sqlite-connection.ts'
import { createMigrationSnapshots } from './sqlite-snapshot.ts'
import { sqliteShapes, withSqliteTables } from './sqlite-table-reader.ts'
import { openWal } from './sqlite-wal.ts'

export function openSqlite(path: string, access: OpenMode = 'write'): Engine {
  const writer = openConnection(path, access)
  const reader = openConnection(path, access)
  // If the path is a symbolic link, SQLite keeps the WAL beside the link's target, and so are snapshots.
  const file = writer.location() ?? path
  const wal = openWal(file, writer)
  const { send, ...ask } = sqliteDb(writer, () => {
    // A full disk ends the transaction in the database: a statement after that would be stored by itself.
    if (!writer.isTransaction) throw new Failure('unavailable')
  })
  const [begin, commit] = [prepareStep(writer, 'begin immediate'), prepareStep(writer, 'commit')]
  const connection: Connection = {
    locked: undefined,
    isPipelined: false,
    ask,
    send,
    commit: async (statements) => {
      await send(statements)
      try {
        commit()
      } catch (error) {
        wal.makeRoom()
        throw error
      }
    },
    rollback: async () => {
      if (writer.isTransaction) execute(writer, 'rollback')
    },
  }
  const refusals = createRefusalBell()
  const queue = createCommitQueue(
    async () => {
      await wal.prepare().catch((error: unknown) => {
        throw asFailure(error)
      })
      begin()
      return connection
    },
    { harden: wal.harden, onFailure: refusals.ring },
  )
  const { one, all } = sqliteDb(reader)

  return {
    kind: 'sqlite',
    one,
    all,
    transaction: (_lock, work, options) => queue.run(work, options),
    commit: (lock, job) => queue.commit(lock, job),
    onRefusal: refusals.listen,
    checkDurability: async () => checkDurability(writer, access),
    checkFiles: async () => checkFiles(reader),
    migratedSteps: async () => {
      const book = writer.prepare(`select 1 from sqlite_schema where type = 'table' and name = 'schema_step'`).get()
      if (!book) return 0
      return Number(writer.prepare('select coalesce(max(step), 0) as step from schema_step').get()?.step)
    },
    migrateStep: async (step, name, statement, nowMs) => {
      execute(writer, 'begin immediate')
      try {
        if (step === 1) execute(writer, makeBook)
        const done = writer.prepare('select 1 from schema_step where step = ?').get(step)
        if (!done) {
          execute(writer, statement.replaceAll('$serial', 'integer primary key autoincrement'))
          writer.prepare('insert into schema_step (step, name, applied_at) values (?, ?, ?)').run(step, name, nowMs)
        }
        // Not synced: a step lost in a power failure is applied again, and the first regular commit syncs everything.
        execute(writer, 'commit')
      } catch (error) {
        if (writer.isTransaction) execute(writer, 'rollback')
        throw error
      }
    },
    snapshots: createMigrationSnapshots(file, writer),
    shapes: sqliteShapes(reader),
    readTables: (_names, work) => withSqliteTables(file, work),
    close: async () => {
      while (!queue.isIdle) await yieldToEventLoop()
      await wal.close()
      reader.close()
      writer.close()
    },
  }
}

const makeBook = 'create table if not exists schema_step (step integer primary key, name text, applied_at bigint)'

function checkDurability(connection: DatabaseSync, access: OpenMode): void {
  const expected: [name: string, value: string | number][] = [
    // A restored file may have another journal mode until the service next starts.
    ...(access === 'write' ? [['journal_mode', 'wal'] satisfies [string, string]] : []),
    ['synchronous', 1],
    ['wal_autocheckpoint', 0],
    ['foreign_keys', 1],
  ]
  for (const [name, value] of expected) {
    const actual = connection.prepare(`pragma ${name}`).get()?.[name]
    if (actual !== value) throw new Error(`SQLite's ${name} is ${String(actual)} and must be ${value}.`)
  }
}

/** SQLite pages have no checksum: a flipped bit shows only if two places, such as a table and its index, disagree. */
function checkFiles(connection: DatabaseSync): string {
  let isWhole = false
  try {
    isWhole = connection.prepare('pragma integrity_check(1)').get()?.integrity_check === 'ok'
  } catch {
    // An unreadable file is damaged too.
  }
  if (!isWhole) throw new Error('the file is damaged, and reads may be incomplete: restore it from a backup.')
  return 'all pages and indexes are consistent'
}
