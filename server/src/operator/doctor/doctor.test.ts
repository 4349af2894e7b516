/** doctor and the other operator commands: in this process, except some in a separate one. */
import { randomBytes } from 'node:crypto'
import { readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { runHere } from '../../../../test/command.ts'
import {
  copyDatabase,
  createDatabase,
  type Database,
  engine,
  openService,
  password,
  registerOwner,
} from '../../../../test/harness.ts'
import { serve } from '../../../../test/process.ts'
import type { Settings } from '../../../../test/program.ts'
import { runProgram } from '../../../../test/start-server.ts'
import { describeSchema, openEngine, tamper } from '../../../../test/store.ts'
import { type Sql, sql } from '../../store/engine/sql.ts'
import { steps } from '../../store/migrate.ts'

/** A store as a service left it; tests work on copies. */
let used: Database
let token: string
beforeAll(async () => {
  used = await createDatabase({ hasSchema: true })
  const service = await openService(used.settings, used.dataDir)
  token = (await registerOwner(service)).session
  await service.call('POST', '/v1/auth/login', { body: { email: 'owner@example.com', password } })
  await service.call('POST', '/v1/workspace/main/team', { token, body: { name: 'Backend' } })
  await service.stop()
})
afterAll(() => used.drop())

describe('operator commands', () => {
  const commands = [
    'doctor',
    'keys status',
    'keys rotate-root',
    'keys rotate-workspace main',
    'keys rotate-environment main api development',
  ].map((words) => [words] as const)

  /** The output of a command that exits with 1, on stdout or stderr. */
  async function refusalOf(words: string, settings: Settings): Promise<string> {
    const { code, out, err } = await runHere(words.split(' '), settings)
    expect(code, out + err).toBe(1)
    return out + err
  }

  const nowhere = (dataDir: string) =>
    engine === 'sqlite'
      ? `There is no store in ${dataDir}: check COFFER_DATA_DIR.`
      : 'There is no store in the database of COFFER_DATABASE_URL: check that it is the right one.'

  describe('without a store', () => {
    let database: Database
    beforeAll(async () => {
      database = await createDatabase()
    })
    afterAll(() => database.drop())

    test.each(commands)('create none: %s', async (words) => {
      const dataDir = join(database.dataDir, 'mistyped')
      expect(await refusalOf(words, { ...database.settings, COFFER_DATA_DIR: dataDir })).toContain(nowhere(dataDir))
      expect(await readdir(database.dataDir)).toEqual([])
      if (engine === 'sqlite') {
        // An empty file stays empty.
        const file = join(database.dataDir, 'coffer.db')
        await writeFile(file, '')
        expect(await refusalOf(words, database.settings)).toContain(nowhere(database.dataDir))
        expect(await readdir(database.dataDir)).toEqual(['coffer.db'])
        expect((await stat(file)).size).toBe(0)
        await rm(file)
        return
      }
      const tables = await tamper(database.settings, (db) =>
        db.all(sql`select table_name from information_schema.tables where table_schema = 'public'`),
      )
      expect(tables).toEqual([])
    })
  })

  test('do not migrate an older schema', async () => {
    const database = await createDatabase()
    const store = openEngine(database.settings)
    const older = steps.slice(0, -3)
    for (const [index, { name, statement }] of older.entries()) await store.migrateStep(index + 1, name, statement, 1)
    const before = await describeSchema(store)
    await store.close()
    for (const [words] of commands) {
      expect(await refusalOf(words, database.settings), words).toContain(
        `The store is at step ${older.length} of ${steps.length}: the next start of the service brings it up to date.`,
      )
      expect(await readdir(database.dataDir), words).toEqual(engine === 'sqlite' ? ['coffer.db'] : [])
      // The next start works: doctor must not say that it does not.
      expect(await refusalOf(words, database.settings), words).not.toContain('does not start')
      const again = openEngine(database.settings)
      expect(await describeSchema(again), words).toEqual(before)
      await again.close()
    }
    await database.drop()
  })

  test('create no keys before the service has', async () => {
    const database = await createDatabase({ hasSchema: true })
    for (const [words] of commands) {
      expect(await refusalOf(words, database.settings)).toContain(nowhere(database.dataDir))
    }
    const count = await tamper(database.settings, (db) => db.one(sql`select count(*) as count from root_key`))
    expect(count).toEqual({ count: 0 })
    await database.drop()
  })

  test('refuse the schema of a newer version', async () => {
    const database = await createDatabase({ hasSchema: true })
    const store = openEngine(database.settings)
    await store.migrateStep(9_999, 'from the future', 'create table from_the_future (id text primary key)', 1)
    await store.close()
    for (const [words] of commands) {
      expect(await refusalOf(words, database.settings)).toContain(
        'The database was migrated by a newer version of Coffer (step 9999',
      )
    }
    await database.drop()
  })

  test('report errors without mentioning a startup', async () => {
    const { settings } = used
    expect(await runProgram(['keys', 'rotate-workspace', 'nope'], settings)).toMatchObject({
      code: 1,
      err: 'There is no workspace "nope".\n',
    })
    expect(await runHere(['keys', 'status'], { ...settings, COFFER_PORT: 'x' })).toMatchObject({
      code: 1,
      err: 'COFFER_PORT must be a port number from 0 to 65535.\n',
    })
  })

  test('change no byte of the file if they only read', async () => {
    const { settings, dataDir } = used
    const file = join(dataDir, 'coffer.db')
    const bytes = engine === 'sqlite' ? await readFile(file) : undefined
    const files = await readdir(dataDir)
    for (const words of ['doctor', 'keys status']) {
      expect(await runHere(words.split(' '), settings)).toMatchObject({ code: 0, err: '' })
    }
    expect(await readdir(dataDir)).toEqual(files)
    if (bytes) expect(bytes.equals(await readFile(file))).toBe(true)
  })

  if (engine === 'sqlite') {
    test('read a file that was restored with another journal mode, without changing it', async () => {
      const { settings, dataDir, drop } = await copyDatabase(used)
      const file = join(dataDir, 'coffer.db')
      const restored = join(dataDir, 'restored.db')
      const source = new DatabaseSync(file)
      source.exec(`vacuum into '${restored}'`)
      source.close()
      await rename(restored, file)
      const bytes = await readFile(file)
      for (const words of ['doctor', 'keys status']) {
        expect(await runHere(words.split(' '), settings)).toMatchObject({ code: 0, err: '' })
      }
      expect(bytes.equals(await readFile(file))).toBe(true)
      await drop()
    })
  }
})

describe('doctor', () => {
  let database: Database
  beforeEach(async () => {
    database = await copyDatabase(used)
  })
  afterEach(() => database.drop())

  const doctor = (run: typeof runHere = runHere) => run(['doctor'], database.settings)

  test('exits with 0 on a healthy store, and names each check', async () => {
    const { code, out, err } = await doctor(runProgram)
    expect({ code, err }).toEqual({ code: 0, err: '' })
    const lines = out.trimEnd().split('\n')
    // The key of a new installation is beside its database, and it makes no backups.
    const notes = lines.filter((line) => !/^ {2}ok {5}/.test(line))
    const besideKey = /^ {2}note {3}master key: on the same disk as the database\. .* keys move --to file /
    const noBackups = /^ {2}note {3}backup: no backups are scheduled\. .* Fix: set COFFER_BACKUP_TO /
    const expected = engine === 'sqlite' ? [noBackups, besideKey] : [noBackups]
    expect(notes).toEqual(expected.map((pattern) => expect.stringMatching(pattern)))
    for (const name of [
      'settings',
      'store',
      'database files',
      'keys',
      'rows that grant rights',
      'audit trail',
      'clock',
      'disk',
      'Node',
      'encryption',
      'public URL',
      'permissions',
      'service',
    ]) {
      expect(out).toContain(`ok     ${name}`)
    }
  })

  test('works while the service runs', async () => {
    const service = await serve(database.settings)
    expect((await doctor()).code).toBe(0)
    await service.stop()
  })

  const tampered: [what: string, change: Sql, found: string][] = [
    ['a membership', sql`update member set role = 'member'`, '1 memberships'],
    ['an account', sql`update account set email = 'intruder@example.com'`, '1 accounts'],
    ['a session', sql`update session set expires_at = expires_at + 1`, '2 sessions'],
  ]
  test.each(tampered)('detects %s that was changed directly in the database', async (_what, change, found) => {
    await tamper(database.settings, (db) => db.count(change))
    const { code, out } = await doctor()
    expect(code).toBe(1)
    expect(out).toContain(`  wrong  rows that grant rights: changed outside of Coffer: ${found}.`)
    expect(out).toContain(
      'They grant nothing any more, but somebody tried. Fix: restore them from a backup or remove them.\n',
    )
    expect(out.match(/wrong/g)).toHaveLength(1)
  })

  const breaks: [what: string, change: Sql, found: RegExp][] = [
    [
      'a changed entry',
      sql`update audit_entry set actor_name = 'x' where sequence = 2 and chain_id like '0000%'`,
      /broken at entry 2: This entry was changed/,
    ],
    [
      'a removed entry',
      sql`delete from audit_entry where sequence = 1 and chain_id like '0000%'`,
      /broken at entry 1: Entries are missing/,
    ],
    [
      'a truncated trail',
      sql`update audit_head set sequence = 1 where chain_id like '0000%'`,
      /broken at entry 1: The signature of the head is wrong/,
    ],
  ]
  test.each(breaks)('detects %s in the audit trail of the system', async (_what, change, found) => {
    expect(await tamper(database.settings, (db) => db.count(change))).toBe(1)
    const { code, out } = await doctor()
    expect(code).toBe(1)
    expect(out).toMatch(/ {2}wrong {2}audit trail of the system: /)
    expect(out).toMatch(found)
  })

  const trails = 'audit trails of workspaces'
  const tampering =
    'Somebody with access to the database may have changed or removed records. Fix: compare with a backup, and restore it if you cannot explain the difference.'
  const workspaceBreaks: [what: string, change: Sql, found: string][] = [
    [
      'a changed entry',
      sql`update audit_entry set actor_name = 'x' where sequence = 2 and chain_id not like '0000%'`,
      'broken at entry 2: This entry was changed.',
    ],
    [
      'a removed entry',
      sql`delete from audit_entry where sequence = 1 and chain_id not like '0000%'`,
      'broken at entry 1: Entries are missing.',
    ],
    [
      'a removed head',
      sql`delete from audit_head where chain_id not like '0000%'`,
      'broken at entry 1: Entries are missing.',
    ],
  ]
  test.each(workspaceBreaks)('detects %s in the audit trail of a workspace', async (_what, change, found) => {
    expect((await doctor()).out).toMatch(/ {2}ok {5}audit trails of workspaces: 1 trail, \d+ entries, /)
    expect(await tamper(database.settings, (db) => db.count(change))).toBe(1)
    const { code, out } = await doctor()
    expect(code).toBe(1)
    expect(out).toContain(`  wrong  ${trails}: "main" is ${found} ${tampering}\n`)
    expect(out.match(/wrong/g)).toHaveLength(1)
  })

  test('checks the trails of deleted workspaces too, and names each broken one', async () => {
    const service = await openService(database.settings, database.dataDir)
    const { body: gone } = await service.call<{ id: string }>('POST', '/v1/workspace', {
      token,
      body: { name: 'Gone', slug: 'gone' },
    })
    expect((await service.call('DELETE', '/v1/workspace/gone', { token, body: { password } })).status).toBeLessThan(300)
    await service.stop()
    expect((await doctor()).out).toContain(`  ok     ${trails}: 2 trails, `)
    await tamper(database.settings, (db) => db.count(sql`update audit_entry set ip = 'x' where chain_id = ${gone.id}`))
    const alone = await doctor()
    expect(alone.code).toBe(1)
    expect(alone.out).toContain(`  wrong  ${trails}: "${gone.id}" (deleted) is broken at entry 1: `)
    await tamper(database.settings, (db) =>
      db.count(sql`delete from audit_entry where sequence = 1 and chain_id not like '0000%'`),
    )
    const { out } = await doctor()
    expect(out).toContain(`"${gone.id}" (deleted) is broken at entry 1: Entries are missing.`)
    expect(out).toContain('"main" is broken at entry 1: Entries are missing.')
  })

  test('detects a wrong master key and a wrong setting', async () => {
    await writeFile(join(database.dataDir, 'master.key'), randomBytes(32).toString('base64'))
    const wrongKey = await doctor()
    expect(wrongKey).toMatchObject({ code: 1, err: '' })
    expect(wrongKey.out).toContain('  wrong  store and keys: The master key does not match this database')
    const wrongSetting = await runHere(['doctor'], { ...database.settings, COFFER_PORT: 'x' })
    expect(wrongSetting).toMatchObject({ code: 1, err: '' })
    expect(wrongSetting.out).toBe(
      '  wrong  settings: COFFER_PORT must be a port number from 0 to 65535. The service does not start with it. Fix: correct the setting; "npm run coffer-server -- --help" lists all of them.\n',
    )
  })

  test('detects a flipped bit in the file that hides a row', async () => {
    if (engine === 'postgres') {
      expect((await doctor()).out).toContain('  ok     database files: PostgreSQL checks every page that it reads\n')
      return
    }
    const file = join(database.dataDir, 'coffer.db')
    const bytes = await readFile(file)
    // In the index of slugs, not in the row itself.
    const index = bytes.indexOf(Buffer.from('main'))
    expect(index).toBeGreaterThan(0)
    bytes.writeUInt8(bytes.readUInt8(index) ^ 1, index)
    await writeFile(file, bytes)
    const { code, out } = await doctor()
    expect(code).toBe(1)
    expect(out).toContain(
      '  wrong  database files: the file is damaged, and reads may be incomplete: restore it from a backup. Records may be missing, and the damage may grow. Fix: stop the service, ',
    )
  })

  test('detects changes with a time in the future', async () => {
    await tamper(database.settings, (db) =>
      db.count(sql`insert into change (subject, subject_id, at) values ('user', 'x', ${Date.now() + 3_600_000})`),
    )
    const { code, out } = await doctor(runProgram)
    expect(code).toBe(1)
    expect(out).toMatch(/ {2}wrong {2}clock: the store holds changes 3\d\d\d s in the future\. .* Fix: set the clock/)
  })

  test('keys status shows every key and its uses, and never the key itself', async () => {
    const { code, out, err } = await runProgram(['keys', 'status'], database.settings)
    expect({ code, err }).toEqual({ code: 0, err: '' })
    const [master, root, signing, ...rest] = out.trimEnd().split('\n')
    expect(master).toBe('Master key: from file, opens 1 root key(s).')
    expect(root).toMatch(
      /^Root key [0-9a-f-]{36} active {2}check [0-9a-f]{16} created \S+Z: 1 workspace keys, 2 signing keys, 7 row MACs, 2 token and session hashes$/,
    )
    expect(signing).toMatch(/^Signing keys: jwt [0-9a-f-]{36}, audit [0-9a-f-]{36}\.$/)
    expect(rest).toEqual([])
    const key = await readFile(join(database.dataDir, 'master.key'), 'utf8')
    expect(out).not.toContain(key.trim())
  })
})
