/** A store that could lose a commit is refused at the start. */
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { createDatabase, type Database, engine as kind } from '../../../test/harness.ts'
import { type Postgres, startPostgres } from '../../../test/postgres.ts'
import { connectPostgres } from '../../../test/postgres-client.ts'
import { openEngine } from '../../../test/store.ts'
import { until } from '../../../test/wait.ts'
import { createServices } from '../app.ts'
import { readConfig } from '../config.ts'
import { createLog } from '../log.ts'
import { type Engine, sql } from './engine/sql.ts'
import { openSqlite } from './engine/sqlite.ts'

async function withDatabase<Result>(work: (database: Database) => Promise<Result>): Promise<Result> {
  const database = await createDatabase()
  try {
    return await work(database)
  } finally {
    await database.drop()
  }
}

async function withEngine<Result>(database: Database, work: (engine: Engine) => Promise<Result>): Promise<Result> {
  const engine = openEngine(database.settings)
  try {
    return await work(engine)
  } finally {
    await engine.close()
  }
}

describe('a store that could lose a commit', () => {
  /** Started once: its settings can be changed while it runs. */
  let ownServer: Postgres | undefined
  afterAll(() => ownServer?.stop())

  test('is never opened: every connection uses the WAL, syncs and checks foreign keys', async () => {
    await withDatabase((database) =>
      withEngine(database, async (engine) => {
        await expect(engine.checkDurability()).resolves.toBeUndefined()
        if (engine.kind === 'postgres') {
          expect(kind).toBe('postgres')
          return
        }
        const ask = (db: Pick<Engine, 'one'>) =>
          db.one(sql`
            select journal_mode, synchronous, foreign_keys
            from pragma_journal_mode, pragma_synchronous, pragma_foreign_keys`)
        const expected = { journal_mode: 'wal', synchronous: 1, foreign_keys: 1 }
        expect(await ask(engine)).toEqual(expected)
        expect(await engine.transaction('pragma', ({ db }) => ask(db))).toEqual(expected)
        const { DatabaseSync } = await import('node:sqlite')
        const stranger = new DatabaseSync(join(database.dataDir, 'coffer.db'), { readOnly: true })
        expect(stranger.prepare('pragma journal_mode').get()).toEqual({ journal_mode: 'wal' })
        stranger.close()
      }),
    )
  })

  test('is refused when SQLite cannot use a WAL', async () => {
    const engine = openSqlite(':memory:')
    await expect(engine.checkDurability()).rejects.toThrow("SQLite's journal_mode is memory and must be wal.")
    await engine.close()
  })

  test.each(['fsync', 'full_page_writes', 'synchronous_commit'])('is refused with %s off', async (name) => {
    if (kind === 'sqlite') {
      expect(process.env.COFFER_TEST_ENGINE).toBe('sqlite')
      return
    }
    ownServer ??= await startPostgres()
    const client = await connectPostgres(ownServer.url)
    const turn = async (to: 'on' | 'off') => {
      await client.query(`alter system set ${name} = ${to}`)
      await client.query('select pg_reload_conf()')
      const isSo = async () => (await client.query(`show ${name}`)).rows[0]?.[name] === to || undefined
      await until(isSo, 120_000, `${name} is ${to}`)
    }
    await turn('off')
    try {
      // A folder that is removed together with the folder of the server.
      const dataDir = join(ownServer.dataDir, '../coffer')
      const config = readConfig({ COFFER_DATA_DIR: dataDir, COFFER_DATABASE_URL: ownServer.url })
      await expect(createServices(config, createLog('silent'))).rejects.toThrow(
        `The database cannot be used: PostgreSQL's ${name} is off and must be on: a commit could be lost.`,
      )
      expect((await client.query(`select to_regclass('schema_step') as name`)).rows).toEqual([{ name: null }])
    } finally {
      await turn('on')
    }
    await client.end()
  })

  test('is refused even if only this database or this user has the setting', async () => {
    if (kind === 'sqlite') {
      expect(process.env.COFFER_TEST_ENGINE).toBe('sqlite')
      return
    }
    await withDatabase(async (database) => {
      const client = await connectPostgres(database.settings.COFFER_DATABASE_URL)
      const name = new URL(database.settings.COFFER_DATABASE_URL ?? '').pathname.slice(1)
      await client.query(`alter database ${name} set synchronous_commit = off`)
      await client.end()
      await expect(createServices(readConfig(database.settings), createLog('silent'))).rejects.toThrow(
        "PostgreSQL's synchronous_commit is off",
      )
    })
  })
})
