/** Faults that keep a service from starting or working are found by `doctor`, and by the start itself. */
import { chmod, mkdir, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { tempFolder } from '../../../../test/backup-target.ts'
import { runHere } from '../../../../test/command.ts'
import { diagnose, findingsOf } from '../../../../test/doctor.ts'
import { createDatabase, type Database, engine, openService, registerOwner } from '../../../../test/harness.ts'
import { freePort } from '../../../../test/postgres.ts'
import { connectPostgres } from '../../../../test/postgres-client.ts'
import { serve } from '../../../../test/process.ts'
import { startProgram } from '../../../../test/start-server.ts'
import { tamper } from '../../../../test/store.ts'
import { sql } from '../../store/engine/sql.ts'

const day = 86_400_000
let database: Database
let keyFile: string
beforeAll(async () => {
  database = await createDatabase({ hasSchema: true })
  const service = await openService(database.settings, database.dataDir)
  await registerOwner(service)
  await service.stop()
  keyFile = join(database.dataDir, 'master.key')
})
afterAll(() => database.drop())

const only = (check: string, settings: Record<string, string> = {}) => findingsOf(database, check, settings)

test('no two lines about the file of the key contradict each other', async () => {
  await chmod(keyFile, 0o644)
  expect(await only('store and keys')).toMatchObject([{ level: 'wrong', what: expect.stringContaining('chmod 600') }])
  expect(await only('permissions')).toEqual([
    { level: 'wrong', what: `other users can open the file of the master key, ${keyFile}` },
  ])
  await chmod(keyFile, 0o600)
  const COFFER_MASTER_KEY_FILE = join(database.dataDir, 'mistyped.key')
  expect(await only('store and keys', { COFFER_MASTER_KEY_FILE })).toMatchObject([{ level: 'wrong' }])
  expect(await only('master key', { COFFER_MASTER_KEY_FILE })).toEqual([
    { level: 'note', what: `its file ${COFFER_MASTER_KEY_FILE} is missing` },
  ])
})

test('another installation on the port is not ready, and the own one is', async () => {
  const port = String(await freePort())
  const other = await createDatabase()
  const service = await serve({ ...other.settings, COFFER_PORT: port })
  try {
    expect(await findingsOf(other, 'service', { COFFER_PORT: port })).toEqual([
      { level: 'ok', what: `ready at 127.0.0.1 port ${port}` },
    ])
    expect(await only('service', { COFFER_PORT: port })).toEqual([
      {
        level: 'wrong',
        what: `the service at 127.0.0.1 port ${port} serves another store than these settings name`,
      },
    ])
    const empty = await createDatabase()
    expect(await findingsOf(empty, 'service', { COFFER_PORT: port })).toEqual([
      { level: 'note', what: `a service is ready at 127.0.0.1 port ${port}, perhaps of another store` },
    ])
    await empty.drop()
    const headers = { 'x-forwarded-for': '192.0.2.3' }
    expect((await service.call('GET', '/readyz?verbose', { headers })).body).not.toHaveProperty('installation')
  } finally {
    await service.stop()
    await other.drop()
  }
})

test('a data folder that everybody may write to stops the start; one of a group is a line of doctor', async () => {
  const { dataDir, settings } = database
  const { mode } = await stat(dataDir)
  try {
    await chmod(dataDir, 0o777)
    const { code, err } = await runHere([], settings)
    expect({ code, err }).toEqual({
      code: 1,
      err: `Coffer cannot start. Every user of this machine may write to the data folder ${dataDir}, and so replace what is in it: run "chmod o-w ${dataDir}".\n`,
    })
    expect(await only('permissions')).toContainEqual({
      level: 'wrong',
      what: `every user may write to the folder ${dataDir}`,
    })
    await chmod(dataDir, 0o770)
    expect(await only('permissions')).toEqual([{ level: 'note', what: `other users can open the folder ${dataDir}` }])
    const service = await serve(settings)
    await service.stop()
  } finally {
    await chmod(dataDir, mode & 0o777)
  }
})

test('all wrong settings are named at once, by the start and by doctor', async () => {
  const wrong = {
    COFFER_PORT: 'x',
    COFFER_PROT: '1',
    COFFER_SIGNUP: 'all',
    COFFER_BACKUP_EVERY: '1s',
    COFFER_MASTER_KEY_SHARES: 'yes',
  }
  const { code, err } = await runHere([], { ...database.settings, ...wrong })
  expect(code).toBe(1)
  const lines = err.trimEnd().split('\n')
  expect(lines).toHaveLength(5)
  for (const name of Object.keys(wrong)) expect(lines.filter((line) => line.includes(name))).not.toEqual([])
  const { out } = await runHere(['doctor', '--json'], { ...database.settings, ...wrong })
  const found: { check: string; level: string }[] = JSON.parse(out)
  expect(found.map(({ check, level }) => `${level} ${check}`)).toEqual(Array(5).fill('wrong settings'))
})

test('a place for backups that cannot be written is found before the first backup', async () => {
  const root = await tempFolder()
  const place = (to: string, more = {}) => only('backup place', { COFFER_BACKUP_TO: to, ...more })
  expect(await only('backup place')).toEqual([])
  expect(await place(join(root, 'new'))).toEqual([{ level: 'ok', what: `${join(root, 'new')} can be reached` }])
  expect(await readdir(root)).toEqual([])
  await writeFile(join(root, 'file'), '')
  expect(await place(join(root, 'file'))).toMatchObject([{ level: 'wrong', what: expect.stringContaining('ENOTDIR') }])
  expect(await place(join(root, 'lost', 'backups'))).toMatchObject([
    { level: 'wrong', what: expect.stringContaining('does not exist: check that its disk is mounted') },
  ])
  const keys = { AWS_REGION: 'eu-central-1', AWS_ACCESS_KEY_ID: 'AKIAEXAMPLE', AWS_SECRET_ACCESS_KEY: 'example' }
  const AWS_ENDPOINT_URL_S3 = 'http://127.0.0.1:1'
  expect(await place('s3://backups', { ...keys, AWS_ENDPOINT_URL_S3 })).toMatchObject([
    { level: 'wrong', what: expect.stringMatching(/could not be reached|does not answer/) },
  ])
})

test('a clock that is days behind is found, although the list of changes is empty', async () => {
  const ahead = await createDatabase({ hasSchema: true })
  const service = await openService(ahead.settings, ahead.dataDir, {}, { offsetMs: 3 * day })
  await registerOwner(service)
  await service.stop()
  await tamper(ahead.settings, (db) => db.count(sql`delete from change`))
  expect(await findingsOf(ahead, 'clock')).toEqual([
    { level: 'wrong', what: 'the store holds changes 3 days in the future' },
  ])
  const started = await serve(ahead.settings)
  expect(started.messages().filter((text) => text.includes('clock of this machine is behind'))).toHaveLength(1)
  await started.stop()
  await ahead.drop()
})

test('a nightly run with a split key checks what needs no share, and ends well', async () => {
  const split = await createDatabase({ hasSchema: true })
  const service = await openService(split.settings, split.dataDir)
  await service.stop()
  const out = join(await tempFolder(), 'shares')
  // As under cron: stdin is there, and empty.
  const run = (args: readonly string[], given: Record<string, string>) => {
    const program = startProgram(args, given)
    program.child.stdin?.end()
    return program.ended
  }
  expect(await run(['keys', 'split', '--out', out], split.settings)).toMatchObject({ code: 0 })
  const settings = { ...split.settings, COFFER_MASTER_KEY_SHARES: 'on', COFFER_PORT: String(await freePort()) }
  const { code, out: printed, err } = await run(['doctor'], settings)
  expect({ code, err }, printed).toEqual({ code: 0, err: '' })
  expect(printed).toContain(
    '  note   keys: not checked, since the master key is split and nobody handed in its shares.',
  )
  expect(printed).toContain('  ok     store: ')
  expect(printed).toContain('  ok     database files: ')
  await split.drop()
})

test('a refused restore leaves nothing behind', async () => {
  const file = join(await tempFolder(), 'one.backup')
  expect(await runHere(['backup', file], database.settings)).toMatchObject({ code: 0 })
  const empty = await createDatabase()
  const place = (settings: Record<string, string>) => ({ ...empty.settings, ...settings })
  const dataDir = join(empty.dataDir, 'deep', 'data')
  const otherKey = 'ab'.repeat(31)
  const refused: Record<string, string>[] = [
    { COFFER_DATA_DIR: dataDir },
    { COFFER_DATA_DIR: dataDir, COFFER_MASTER_KEY: `${otherKey}cd` },
    { COFFER_DATA_DIR: empty.dataDir, COFFER_MASTER_KEY: `${otherKey}cd` },
  ]
  for (const settings of refused) {
    expect((await runHere(['restore', file], place(settings))).code).toBe(1)
    expect(await readdir(empty.dataDir)).toEqual([])
  }
  await mkdir(dataDir, { recursive: true })
  await writeFile(join(dataDir, 'mine'), '')
  expect((await runHere(['restore', file], place({ COFFER_DATA_DIR: dataDir }))).code).toBe(1)
  expect(await readdir(dataDir)).toEqual(['mine'])
  await rm(dataDir, { recursive: true })
  await empty.drop()
})

if (engine === 'postgres') {
  test('the nodes on one machine are counted by their connections too', async () => {
    // A view of ours stands before that of the server, which also shows the connections of other tests.
    const client = await connectPostgres(database.settings.COFFER_DATABASE_URL ?? '')
    const show = (connections: number, database: string) => `
      create or replace view odd.pg_stat_activity as
      select 0 as pid, ${database}::name as datname, client_addr, 'coffer' as application_name, state, xact_start
      from pg_catalog.pg_stat_activity, generate_series(1, ${connections}) where pid = pg_backend_pid()`
    await client.query('create schema odd')
    const search = (path: string) => `
      do $$ begin execute format('alter database %I set search_path = ${path}', current_database()); end $$`
    await client.query(search('odd, pg_catalog, public'))
    try {
      // A node that was killed leaves its row for a while.
      await client.query(`
        insert into node (id, name, version, level, seen_at)
        select 'killed ' || number, 'host', '0.2.0', 1, ${Date.now()} from generate_series(1, 3) as number`)
      for (const [connections, nodes, where] of [
        [1, 1, 'datname'],
        [20, 3, 'datname'],
        [20, 1, "'other'"],
        [21, 2, "'other'"],
        [50, 3, 'datname'],
      ] as const) {
        await client.query(show(connections, where))
        const found = await diagnose(database)
        const [line] = found.filter(({ check }) => check === 'PostgreSQL: connections')
        expect(line?.what).toMatch(new RegExp(`^\\d+ for ${nodes} node\\(s\\), which take up to 20 each$`))
      }
    } finally {
      await client.query(search('public'))
      await client.query('delete from node')
      await client.query('drop schema odd cascade')
      await client.end()
    }
  })
}
