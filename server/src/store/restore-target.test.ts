/** The target of a restore: tables of other programs are neither taken for an empty store nor removed. */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { runHere } from '../../../test/command.ts'
import { createDatabase, type Database } from '../../../test/harness.ts'
import { openEngine, tamper } from '../../../test/store.ts'
import { readConfig } from '../config.ts'
import { type BackupFile, openBackupFile } from '../domain/backup/file.ts'
import { finishMove, restoreBackup } from '../domain/backup/restore.ts'
import { findMasterAccess } from '../open-store.ts'
import { type Db, sql } from './engine/sql.ts'
import { beginRestore } from './restore-target.ts'

const fixture = join(import.meta.dirname, '../../../test/fixture/backup')
let target: Database

beforeEach(async () => {
  target = await createDatabase()
  const { masterKey } = JSON.parse(await readFile(join(fixture, 'old.json'), 'utf8'))
  await writeFile(join(target.dataDir, 'master.key'), masterKey, { mode: 0o600 })
})
afterEach(() => target.drop())

const restore = () => runHere(['restore', join(fixture, 'old.backup')], target.settings)

test("another program's database is refused, however often it is tried, and nothing is made or removed in it", async () => {
  await tamper(target.settings, makeForeign)
  for (let count = 1; count <= 2; count++) {
    const { code, err } = await restore()
    expect([code, err]).toEqual([
      1,
      expect.stringMatching(/has the table "session", which is not|belongs to another program/),
    ])
    expect(await listTables(target)).toEqual(['session'])
  }
  expect(await tamper(target.settings, (db) => db.all(sql`select note from session`))).toEqual([{ note: 'theirs' }])
})

test("a restore that starts over removes no table of another program that has the name of one of Coffer's", async () => {
  const engine = openEngine(target.settings)
  await beginRestore(engine, 1, Date.now())
  await engine.close()
  await tamper(target.settings, makeForeign)
  const before = await listTables(target)
  const refused = await restore()
  expect([refused.code, refused.err]).toEqual([
    1,
    expect.stringContaining('has the table "session", which is not of Coffer'),
  ])
  expect(await listTables(target)).toEqual(before)
  expect(await tamper(target.settings, (db) => db.all(sql`select note from session`))).toEqual([{ note: 'theirs' }])
  await tamper(target.settings, (db) => db.count(sql`drop table session`))
  expect(await restore()).toMatchObject({ code: 0 })
})

test('a restore is given up once another into the same store has begun', async () => {
  const engine = openEngine(target.settings)
  const other = openEngine(target.settings)
  const file = await openBackupFile(join(fixture, 'old.backup'))
  const master = await findMasterAccess(readConfig(target.settings), file.header.wrappedMaster)
  const begun = () => beginRestore(other, file.header.schemaStep, Date.now())
  const whole = async () => {
    const { mark } = await restoreBackup(engine, beforeRows(file, begun), master, {})
    await finishMove(engine, mark)
  }
  await expect(whole()).rejects.toThrow('Another restore into this store was begun or has ended meanwhile')
  for (const one of [file, engine, other]) await one.close()
  // The store is still marked as that of the other restore, which has not ended.
  const { err } = await runHere(['backup', join(target.dataDir, 'new.backup')], target.settings)
  expect(err).toContain('A restore into this store was interrupted')
  expect(await restore()).toMatchObject({ code: 0 })
})

/** Calls `work` before the first rows, the second time that the file is read: the first time it is only checked. */
function beforeRows(file: BackupFile, work: () => Promise<unknown>): BackupFile {
  let passes = 0
  return {
    ...file,
    async *frames(key) {
      let isDue = ++passes === 2
      for await (const frame of file.frames(key)) {
        if (isDue && frame.kind === 'rows') {
          await work()
          isDue = false
        }
        yield frame
      }
    },
  }
}

async function makeForeign(db: Db): Promise<void> {
  db.write(sql`create table session (note text primary key)`)
  db.write(sql`insert into session (note) values ('theirs')`)
}

const listTables = ({ settings }: Database): Promise<string[]> =>
  tamper(settings, async (db) => {
    const query =
      settings.COFFER_DATABASE_URL === undefined
        ? sql`select name from sqlite_schema where type = 'table' order by name`
        : sql`select tablename as name from pg_tables where schemaname = 'public' order by tablename`
    return (await db.all<{ name: string }>(query)).map(({ name }) => name)
  })
