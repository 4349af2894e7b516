/** Direct access to a service's database, like an attacker with the file or the password. */
import { join } from 'node:path'
import { DatabaseSync, type SQLInputValue } from 'node:sqlite'
import pg from 'pg'
import { databaseFile } from '../server/src/open-store.ts'
import type { TestService } from './harness.ts'

export type Cell = string | number | null | Uint8Array
export type RawRow = Record<string, Cell>
export type RawDatabase = {
  /** Parameters are `?` on both engines. Foreign keys are not enforced. */
  query(text: string, values?: readonly Cell[]): Promise<RawRow[]>
  /** Runs the work, then restores the tables. */
  restoring<Result>(tables: readonly string[], work: () => Promise<Result>): Promise<Result>
  tables(): Promise<string[]>
  close(): Promise<void>
}

type Connection = Omit<RawDatabase, 'restoring'> & {
  /** Waits for writers, which avoids a deadlock. */
  begin(tables: readonly string[]): Promise<void>
}

export async function openRaw(service: Pick<TestService, 'settings' | 'dataDir'>): Promise<RawDatabase> {
  const url = service.settings.COFFER_DATABASE_URL
  const connection = url === undefined ? openFile(service.dataDir) : await openServer(url)
  const { query } = connection

  async function restore(table: string, rows: readonly RawRow[]): Promise<void> {
    await query(`delete from ${table}`)
    for (const row of rows) {
      const columns = Object.keys(row)
      await query(
        `insert into ${table} (${columns.join(', ')}) values (${columns.map(() => '?').join(', ')})`,
        Object.values(row),
      )
    }
  }

  return {
    ...connection,
    async restoring(tables, work) {
      const copies = new Map<string, RawRow[]>()
      for (const table of tables) copies.set(table, await query(`select * from ${table}`))
      try {
        return await work()
      } finally {
        // One transaction: the service must not see a half-restored table.
        await connection.begin(tables)
        for (const [table, rows] of copies) await restore(table, rows)
        await query('commit')
      }
    },
  }
}

export function bytesOf(cell: Cell | undefined): Buffer {
  if (!(cell instanceof Uint8Array)) throw new Error('not bytes')
  return Buffer.from(cell)
}

/** The bytes of a cell with one bit of one byte changed, or more by the mask. */
export function flip(cell: Cell | undefined, at: number, mask = 0x10): Buffer {
  const bytes = bytesOf(cell)
  bytes.writeUInt8(bytes.readUInt8(at) ^ mask, at)
  return bytes
}

function openFile(dataDir: string): Connection {
  const path = join(dataDir, databaseFile)
  const connection = new DatabaseSync(path, { timeout: 60_000, enableForeignKeyConstraints: false })
  const query = async (text: string, values: readonly Cell[] = []) =>
    // Every integer in the schema fits a double, so there are no bigints.
    connection.prepare(text).all(...(values as SQLInputValue[])) as RawRow[]
  return {
    query,
    tables: async () => {
      const rows = await query("select name from sqlite_schema where type = 'table'")
      return rows.map(({ name }) => String(name))
    },
    begin: async () => connection.exec('begin immediate'),
    close: async () => connection.close(),
  }
}

const int8 = 20

async function openServer(url: string): Promise<Connection> {
  const types: pg.CustomTypesConfig = {
    getTypeParser: (id, format) => (id === int8 ? Number : pg.types.getTypeParser(id, format)),
  }
  const client = new pg.Client({ connectionString: url, types })
  // Dropping the database may close the connection first.
  client.on('error', () => undefined)
  await client.connect()
  await client.query('set session_replication_role = replica')
  const query = async (text: string, values: readonly Cell[] = []) => {
    let count = 0
    const numbered = text.replaceAll('?', () => `$${++count}`)
    return (await client.query<RawRow>(numbered, [...values])).rows
  }
  return {
    query,
    tables: async () => {
      const rows = await query("select table_name from information_schema.tables where table_schema = 'public'")
      return rows.map(({ table_name }) => String(table_name))
    },
    begin: async (tables) => {
      await client.query('begin')
      await client.query(`lock table ${tables.join(', ')} in exclusive mode`)
    },
    close: () => client.end(),
  }
}
