/**
 * Reads all of a SQLite store from a copy of the file beside it. The copy is one short read at the speed of the disk; a read
 * of the store itself would keep the WAL from being emptied for as long as the backup takes.
 */
import { closeSync, openSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { backup, DatabaseSync, type StatementSync } from 'node:sqlite'
import { yieldToEventLoop } from '../../event-loop.ts'
import { createScratchFolder } from './scratch-folder.ts'
import { asFailure } from './sqlite-connection.ts'
import {
  type Cell,
  cellBytes,
  inReferenceOrder,
  pageBytes,
  rowsPerPage,
  type ShapeReader,
  shapeOf,
  type TableReader,
  type TableShape,
} from './table-reader.ts'

/** All pages in one step: a copy in several steps would start over with every write of another process. */
const everyPage = 2 ** 31 - 1

export async function withSqliteTables<Result>(
  file: string,
  work: (reader: TableReader) => Promise<Result>,
): Promise<Result> {
  const folder = createScratchFolder(dirname(file), 'coffer-backup-')
  try {
    const copy = join(folder.path, 'copy.db')
    closeSync(openSync(copy, 'wx', 0o600))
    await copyDatabase(file, copy)
    return await readSqliteFile(copy, work)
  } finally {
    folder.remove()
  }
}

/** Reads a store that nobody else writes. */
export async function readSqliteFile<Result>(
  file: string,
  work: (reader: TableReader) => Promise<Result>,
): Promise<Result> {
  const connection = new DatabaseSync(file)
  try {
    connection.exec('pragma query_only = on; pragma temp_store = memory')
    return await work(readerOf(connection))
  } finally {
    connection.close()
  }
}

async function copyDatabase(file: string, copy: string): Promise<void> {
  const source = new DatabaseSync(file, { timeout: 5_000 })
  try {
    source.exec('pragma query_only = on')
    await backup(source, copy, { rate: everyPage })
  } catch (error) {
    throw asFailure(error)
  } finally {
    source.close()
  }
}

function readerOf(connection: DatabaseSync): TableReader {
  return {
    steps: Number(connection.prepare('select coalesce(max(step), 0) as step from schema_step').get()?.step),
    shapes: sqliteShapes(connection),
    count: async ({ name }) => Number(connection.prepare(`select count(*) as count from ${name}`).get()?.count),
    pages: (table) => pagesOf(connection, table),
  }
}

export function sqliteShapes(connection: DatabaseSync): ShapeReader {
  return async (names) => {
    const columns = connection.prepare('select name, lower(type) as type, pk from pragma_table_info(?)')
    const references = connection.prepare('select distinct "table" as name from pragma_foreign_key_list(?)')
    const shapes = names.map((name) => {
      const found = columns.all(name).map((column) => {
        return { name: String(column.name), type: String(column.type), keyPlace: Number(column.pk) }
      })
      const others = references.all(name).map((other) => String(other.name))
      return shapeOf(name, found, others)
    })
    return inReferenceOrder(shapes)
  }
}

async function* pagesOf(connection: DatabaseSync, { name, columns, primaryKey }: TableShape) {
  const list = columns.map((column) => column.name).join(', ')
  const statement = connection.prepare(`select ${list} from ${name} order by ${primaryKey.join(', ')}`)
  statement.setReturnArrays(true)
  let page: Cell[][] = []
  let bytes = 0
  for (const row of cellsOf(statement, name)) {
    page.push(row)
    bytes += cellBytes(row)
    if (page.length < rowsPerPage && bytes < pageBytes) continue
    yield page
    page = []
    bytes = 0
    await yieldToEventLoop()
  }
  if (page.length > 0) yield page
}

function* cellsOf(statement: StatementSync, table: string): Generator<Cell[]> {
  for (const row of statement.iterate()) {
    yield Array.from(Object.values(row), (cell) => {
      const isWhole = typeof cell !== 'number' || Number.isSafeInteger(cell)
      if (typeof cell === 'bigint' || !isWhole) throw new Error(`a row of ${table} holds a number that is not whole`)
      return cell
    })
  }
}
