/** Migrations that are killed, run concurrently or come from a newer version. */
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createDatabase, type Database, engine as kind } from '../../../test/harness.ts'
import { type Program, startNode } from '../../../test/program.ts'
import { describeSchema, openEngine } from '../../../test/store.ts'
import { times } from '../../../test/tier.ts'
import { until } from '../../../test/wait.ts'
import { createServices } from '../app.ts'
import { readConfig } from '../config.ts'
import { createLog } from '../log.ts'
import { type Engine, sql } from './engine/sql.ts'
import { migrate, steps } from './migrate.ts'

const killRounds = times(1, 3)
/** Statements of each interrupted run: the deep tier interrupts after every one. */
const stride = times(40, 1)

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

/** The schema of an uninterrupted run, which every other run must end with. */
const expectedSchema = withDatabase((database) =>
  withEngine(database, async (engine) => {
    expect(await migrate(engine, 1)).toBe(steps.length)
    return describeSchema(engine)
  }),
)

const applyStep = async (engine: Engine, step: number) => {
  const next = steps[step - 1]
  if (next) await engine.migrateStep(step, next.name, next.statement, 1)
}

describe('a migration', () => {
  test('that has run has nothing left to apply', async () => {
    await withDatabase((database) =>
      withEngine(database, async (engine) => {
        expect(await migrate(engine, 1)).toBe(steps.length)
        expect(await migrate(engine, 1)).toBe(0)
        expect(await engine.migratedSteps()).toBe(steps.length)
        expect(await describeSchema(engine)).toEqual(await expectedSchema)
      }),
    )
  })

  test('interrupted after any statement continues to the same schema', async () => {
    const ends = steps.map((_, index) => index + 1).filter((end) => end % stride === 0 || end === steps.length)
    const schemas = await withDatabase((database) =>
      withEngine(database, async (engine) => {
        const after = new Map<number, unknown>()
        for (let step = 1; step <= steps.length; step++) {
          await applyStep(engine, step)
          if (ends.includes(step)) after.set(step, await describeSchema(engine))
        }
        return after
      }),
    )
    expect(schemas.get(steps.length)).toEqual(await expectedSchema)
    // Each run continues from the schema of an uninterrupted run and ends, some statements later, with that schema. By
    // induction, the number of interruptions does not matter, and in the deep tier neither does their place.
    await withDatabase(async (database) => {
      let done = 0
      for (const end of ends) {
        await withEngine(database, async (engine) => {
          const endsEarly: Engine = {
            ...engine,
            migrateStep: async (step, ...rest) => {
              if (step > end) throw new Error('ended')
              await engine.migrateStep(step, ...rest)
            },
          }
          const migrated = migrate(endsEarly, 1)
          if (end < steps.length) await expect(migrated).rejects.toThrow('ended')
          else expect(await migrated).toBe(end - done)
          expect(await describeSchema(engine), `after ${end} statements`).toEqual(schemas.get(end))
        })
        done = end
      }
    })
  })

  test('that recreates tables keeps all their rows', async () => {
    const first = steps.findIndex(({ name }) => name === 'leftover-1')
    await withDatabase((database) =>
      withEngine(database, async (engine) => {
        await engine.migratedSteps()
        for (let step = 1; step <= first; step++) await applyStep(engine, step)
        const bytes = Buffer.from([0, 1, 255])
        await engine.transaction('test', async ({ db }) => {
          db.write(sql`insert into workspace (id, name, slug, created_at, updated_at) values ('w', 'W', 'w', 1, 1)`)
          db.write(sql`
            insert into team (id, workspace_id, name, created_at, updated_at) values ('t', 'w', 'T', 1, 1)`)
          db.write(sql`
            insert into project (id, workspace_id, team_id, name, slug, created_at, updated_at)
            values ('p', 'w', 't', 'P', 'p', 1, 1)`)
          db.write(sql`
            insert into environment (id, workspace_id, project_id, name, folded_name, has_personal_overrides, created_at,
              updated_at)
            values ('e', 'w', 'p', 'E', 'e', 0, 1, 1)`)
          db.write(sql`
            insert into secret (id, workspace_id, project_id, name, type, data_type, note, created_at, updated_at)
            values ('s', 'w', 'p', 'S', 'runtime', 'text', '', 1, 1)`)
          for (const version of [1, 2, 3]) {
            db.write(sql`
              insert into secret_version (environment_id, secret_id, version, workspace_id, revision, name, action, sealed,
                created_at, created_by, message)
              values ('e', 's', ${version}, 'w', ${version + 10}, 'S', 'updated', ${bytes}, 7, 'me', 'why')`)
            db.write(sql`
              insert into secret_value (environment_id, secret_id, owner_id, workspace_id, version, sealed, updated_at)
              values ('e', 's', ${String(version)}, 'w', ${version}, ${version === 3 ? null : bytes}, 8)`)
            db.write(sql`
              insert into secret_rename (environment_id, secret_id, revision, workspace_id, old_name, new_name, created_at,
                created_by, message)
              values ('e', 's', ${version}, 'w', 'OLD', 'S', 9, 'me', '')`)
          }
        })
        const rows = async () => [
          await engine.all(sql`
            select environment_id, secret_id, version, workspace_id, revision, name, action, sealed, created_at, created_by,
              message
            from secret_version order by version`),
          await engine.all(sql`
            select environment_id, secret_id, owner_id, workspace_id, version, sealed, updated_at
            from secret_value order by version`),
          await engine.all(sql`select * from secret_rename order by revision`),
        ]
        const before = await rows()
        expect(before.map((list) => list.length)).toEqual([3, 3, 3])
        await migrate(engine, 1)
        expect(await rows()).toEqual(before)
        // The authors of rows from before the migration are unknown.
        const authors = await engine.all(sql`
          select authors from secret_version union all select authors from secret_value`)
        expect(authors).toEqual(Array.from({ length: 6 }, () => ({ authors: '' })))
      }),
    )
  })

  test('with a statement that fails half-way is rolled back, and continues later', async () => {
    await withDatabase((database) =>
      withEngine(database, async (engine) => {
        await engine.migratedSteps()
        await applyStep(engine, 1)
        const before = await describeSchema(engine)
        const halfGood = 'create table half_made (id text primary key); create table half_made (id text primary key)'
        await expect(engine.migrateStep(2, 'broken', halfGood, 1)).rejects.toThrow()
        expect(await describeSchema(engine)).toEqual(before)
        await migrate(engine, 1)
        expect(await describeSchema(engine)).toEqual(await expectedSchema)
      }),
    )
  })

  test('that has not begun reports no steps and leaves an empty database empty', async () => {
    await withDatabase((database) =>
      withEngine(database, async (engine) => {
        expect(await engine.migratedSteps()).toBe(0)
        const tables =
          kind === 'sqlite'
            ? sql`select name from sqlite_schema`
            : sql`select table_name from information_schema.tables where table_schema = 'public'`
        expect(await engine.all(tables)).toEqual([])
      }),
    )
  })

  test('that was applied is not applied again by a late process', async () => {
    await withDatabase((database) =>
      withEngine(database, async (engine) => {
        await migrate(engine, 1)
        for (const step of [1, 5, steps.length]) await applyStep(engine, step)
        expect(await describeSchema(engine)).toEqual(await expectedSchema)
      }),
    )
  })

  test(`killed at random moments, ${4 * killRounds} times, ends with the same schema`, {
    timeout: 600_000,
  }, async () => {
    const expected = await expectedSchema
    const reached = new Set<number>()
    for (let round = 0; round < killRounds; round++) {
      await withDatabase(async (database) => {
        const moments = Array.from({ length: 4 }, () => 1 + Math.floor(Math.random() * (steps.length - 1)))
        // Later runs continue where earlier ones were killed.
        for (const at of moments.toSorted((one, other) => one - other)) {
          const migrating = startMigrations()
          migrating.send(database)
          await hasReached(migrating, at)
          // The kill comes anywhere in the next statements.
          await new Promise((resolve) => setTimeout(resolve, 4 * Math.random()))
          migrating.kill('SIGKILL')
          expect(await migrating.ended).toMatchObject({ signal: 'SIGKILL', err: '' })
          await withEngine(database, async (engine) => void reached.add(await engine.migratedSteps()))
        }
        await withEngine(database, async (engine) => {
          const done = await engine.migratedSteps()
          expect(await migrate(engine, 1)).toBe(steps.length - done)
          expect(await describeSchema(engine), `killed at the steps ${moments}`).toEqual(expected)
        })
      })
    }
    expect(reached.size).toBeGreaterThan(1)
  })

  describe('by concurrent processes', () => {
    let all: Migrations[]
    beforeAll(async () => {
      all = Array.from({ length: 4 }, startMigrations)
      for (const { out } of all) await until(() => out().includes('ready') || undefined, 120_000, 'all are ready')
    })
    afterAll(async () => {
      for (const { child, ended } of all) {
        child.stdin?.end()
        expect(await ended).toMatchObject({ code: 0, err: '' })
      }
    })

    test.each([2, 4])('(%d of them) is applied once, and all of them succeed', { timeout: 600_000 }, async (n) => {
      const together = all.slice(0, n)
      for (let round = 0; round < times(1, 4); round++) {
        await withDatabase(async (database) => {
          const before = together.map(timesDone)
          for (const { send } of together) send(database)
          for (const [index, migrating] of together.entries()) {
            const isOver = () => migrating.hasEnded() || timesDone(migrating) > (before[index] ?? 0) || undefined
            await until(isOver, 120_000, 'all are done')
            expect(migrating.err()).toBe('')
            expect(migrating.hasEnded()).toBe(false)
          }
          await withEngine(database, async (engine) => {
            expect(await engine.one(sql`select count(*) as count from schema_step`)).toEqual({ count: steps.length })
            expect(await describeSchema(engine)).toEqual(await expectedSchema)
          })
        })
      }
    })
  })

  test('waits while another process creates the database', async () => {
    if (kind === 'postgres') {
      expect(process.env.COFFER_TEST_ENGINE).toBe('postgres')
      return
    }
    await withDatabase(async (database) => {
      const path = JSON.stringify(join(database.dataDir, 'coffer.db'))
      // SQLite does not wait for this lock when the journal mode is switched: it fails with "locked" at once.
      const first = startNode([
        '--input-type=module',
        '--eval',
        `import { DatabaseSync } from 'node:sqlite'
         const connection = new DatabaseSync(${path})
         connection.exec('begin immediate; create table first (id text)')
         process.stdout.write('held')
         setTimeout(() => connection.exec('rollback'), 300)`,
      ])
      await until(() => first.out() === 'held' || undefined, 120_000, 'the lock is held')
      await withEngine(database, async (engine) => {
        expect(await migrate(engine, 1)).toBe(steps.length)
        expect(await describeSchema(engine)).toEqual(await expectedSchema)
      })
      expect((await first.ended).code).toBe(0)
    })
  })

  test('by a newer version is refused in one sentence, and nothing is changed', async () => {
    await withDatabase(async (database) => {
      await withEngine(database, async (engine) => {
        await migrate(engine, 1)
        await engine.migrateStep(9_999, 'from the future', 'create table from_the_future (id text primary key)', 1)
        const before = await describeSchema(engine)
        const sentence = `The database was migrated by a newer version of Coffer (step 9999, this version knows ${steps.length}): start that version or a later one. To go back to this version, restore a backup of before the upgrade as docs/upgrade.md describes; everything written since the upgrade is lost then.`
        await expect(migrate(engine, 2)).rejects.toThrow(sentence)
        await expect(createServices(readConfig(database.settings), createLog('silent'))).rejects.toThrow(sentence)
        expect(await describeSchema(engine)).toEqual(before)
      })
    })
  })
})

type Migrations = Program & { send(database: Database): void }

/** A process that migrates each database named on stdin, and prints the step after each one. */
function startMigrations(): Migrations {
  const at = (name: string) => JSON.stringify(pathToFileURL(join(import.meta.dirname, name)).href)
  const script = `
    import { writeSync } from 'node:fs'
    import { createInterface } from 'node:readline'
    import { ${kind === 'sqlite' ? 'openSqlite' : 'openPostgres'} as open } from ${at(`engine/${kind}.ts`)}
    import { migrate } from ${at('migrate.ts')}
    writeSync(1, 'ready\\n')
    for await (const where of createInterface({ input: process.stdin })) {
      const engine = open(where)
      const migrateStep = async (step, ...rest) => {
        await engine.migrateStep(step, ...rest)
        writeSync(1, 'step ' + step + '\\n')
      }
      await migrate({ ...engine, migrateStep }, 1)
      await engine.close()
      writeSync(1, 'done\\n')
    }`
  const program = startNode(['--input-type=module-typescript', '--eval', script])
  const whereIs = ({ settings, dataDir }: Database) => settings.COFFER_DATABASE_URL ?? join(dataDir, 'coffer.db')
  return { ...program, send: (database) => void program.child.stdin?.write(`${whereIs(database)}\n`) }
}

/** Resolves on the output event: a poll would notice the step much later. */
function hasReached(migrating: Program, step: number): Promise<void> {
  return new Promise((resolve) => {
    const isThere = () => stepOf(migrating) >= step || timesDone(migrating) > 0
    migrating.child.stdout?.on('data', () => isThere() && resolve())
    migrating.child.once('close', () => resolve())
  })
}

const stepOf = ({ out }: Program) => Number(/.*step (\d+)\n/s.exec(out())?.[1] ?? 0)
const timesDone = ({ out }: Program) => out().split('done\n').length - 1
