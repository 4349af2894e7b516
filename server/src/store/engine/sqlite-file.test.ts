/** Problems with the SQLite file and its disk. PostgreSQL manages its own files, and with a full disk it counts as unavailable. */
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtemp, readdir, readFile, rename, rm, symlink, truncate, unlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { promisify } from 'node:util'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createDatabase, openService, registerOwner, type TestService } from '../../../../test/harness.ts'
import { serve } from '../../../../test/process.ts'
import { createSecretProject } from '../../../../test/secret-project.ts'
import { settle } from '../../../../test/sql-engine.ts'
import { runProgram } from '../../../../test/start-server.ts'
import { asker, createFixture, harmless, path, promotion, reads, writes } from '../../../../test/unrecorded.ts'
import { until } from '../../../../test/wait.ts'
import { sql } from './sql.ts'
import { openSqlite } from './sqlite.ts'

const run = promisify(execFile)

describe('on a full disk', () => {
  let dataDir: string | undefined
  let service: TestService | undefined
  afterEach(async () => {
    await service?.stop()
    if (dataDir === undefined) return
    await run('umount', [dataDir])
    await rm(dataDir, { recursive: true, force: true })
  })

  test('no value is returned, requests without values are served, and writes resume without a restart', async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'coffer-full-'))
    await run('mount', ['-t', 'tmpfs', '-o', 'size=8m,mode=700', 'coffer-full', dataDir])
    service = await openService({ COFFER_DATA_DIR: dataDir }, dataDir)
    const { ask, expectAll, expectRefused, state, expectSoundTrail } = asker(await createFixture(service))
    await expectAll(reads, 200)
    const before = await state()
    const ballast = join(dataDir, 'ballast')
    await writeFile(ballast, Buffer.alloc(16_000_000)).catch((error: unknown) =>
      expect(String(error)).toContain('ENOSPC'),
    )
    const isFull = async () => (await ask(['GET', `${path}/secret`])).status === 503 || undefined
    await until(isFull, 120_000, 'there is no room for an entry')
    await expectRefused([...reads, promotion, ...writes])
    await expectAll(harmless, 200)
    expect(await state()).toEqual(before)
    expect((await ask(['GET', '/readyz'])).status).toBe(503)
    expect((await ask(['GET', '/healthz'])).status).toBe(200)
    const logged = (message: string) => service?.logs.filter((line) => line.includes(message)) ?? []
    expect(logged('writes are refused')).toEqual([expect.stringContaining('ERR_SQLITE_ERROR 13')])

    await unlink(ballast)
    expect((await ask(['GET', '/readyz'])).status).toBe(200)
    expect(logged('writes are accepted again')).toHaveLength(1)
    await expectAll(reads, 200)
    expect((await ask(promotion)).status).toBe(200)
    await expectSoundTrail()
  })
})

test('a statement after one that found no room is not stored by itself', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'coffer-test-'))
  const engine = openSqlite(join(folder, 'test.db'))
  await engine.migrateStep(1, 'test', 'create table note (text text not null)', 0)
  const insert = (text: string) => sql`insert into note (text) values (${text})`
  await engine.transaction('note', ({ db }) => db.one(sql`pragma max_page_count = 20`))
  const both = engine.transaction('note', ({ db }) =>
    Promise.all([db.count(insert('x'.repeat(200_000))), db.count(insert('stray'))]),
  )
  expect(await settle(both)).toMatchObject({ ok: false, error: { cause: { errcode: 13 } } })
  expect(await engine.all(sql`select text from note`)).toEqual([])
  await engine.transaction('note', async ({ db }) => db.write(insert('next')))
  expect(await engine.all(sql`select text from note`)).toEqual([{ text: 'next' }])
  await engine.close()
  await rm(folder, { recursive: true, force: true })
})

describe('an unusable file is refused', () => {
  let folder: string
  let file: string
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'coffer-test-'))
    file = join(folder, 'coffer.db')
  })
  afterEach(() => rm(folder, { recursive: true, force: true }))

  /** A start fails with one sentence; the doctor reports the same, and still checks the disk. */
  async function expectRefused(sentence: string): Promise<void> {
    const settings = { COFFER_DATA_DIR: folder, COFFER_PORT: '0' }
    const start = await runProgram([], settings)
    expect(start).toMatchObject({ code: 1, out: '', err: `Coffer cannot start. ${sentence}\n` })
    const doctor = await runProgram(['doctor'], settings)
    expect(doctor).toMatchObject({ code: 1, err: '' })
    expect(doctor.out).toContain(`  wrong  store and keys: ${sentence} Without the store and its keys `)
    expect(doctor.out).toMatch(/ {2}(ok {5}|wrong {2})disk: .* GiB free/)
    expect(await runProgram(['keys', 'status'], settings)).toMatchObject({ code: 1, out: '', err: `${sentence}\n` })
  }

  const damaged = () => `The database in ${folder} is damaged or not a database: restore it from a backup.`

  test.each([
    ['text', Buffer.from('this is no database, and long enough to be seen as none'.repeat(100))],
    ['random bytes', randomBytes(50_000)],
  ])('because it is not a database: %s', async (_what, bytes) => {
    await writeFile(file, bytes)
    await expectRefused(damaged())
    expect(bytes.equals(await readFile(file))).toBe(true)
  })

  test.each([50, 3_000, 100_000])('because it was truncated to %d bytes', async (length) => {
    const service = await openService({ COFFER_DATA_DIR: folder }, folder)
    await registerOwner(service)
    await service.stop()
    await truncate(file, length)
    await expectRefused(damaged())
  })

  test('because it has the tables of another program, and it is not changed', async () => {
    const other = new DatabaseSync(file)
    other.exec('create table account (id text primary key)')
    other.close()
    const bytes = await readFile(file)
    await expectRefused(`The database ${file} belongs to another program: it has tables, and none of them is Coffer's.`)
    expect(bytes.equals(await readFile(file))).toBe(true)
    expect(await readdir(folder)).toEqual(['coffer.db'])
  })

  test('because pages needed at the start are damaged', async () => {
    const service = await openService({ COFFER_DATA_DIR: folder }, folder)
    await registerOwner(service)
    await service.stop()
    const store = new DatabaseSync(file)
    const pages = store.prepare(`select rootpage as page from sqlite_schema where tbl_name = 'account'`).all()
    const { page_size: size } = store.prepare('pragma page_size').get() ?? {}
    store.close()
    const bytes = await readFile(file)
    for (const { page } of pages) bytes.fill(0xff, (Number(page) - 1) * Number(size), Number(page) * Number(size))
    await writeFile(file, bytes)
    const start = await runProgram([], { COFFER_DATA_DIR: folder, COFFER_PORT: '0' })
    expect(start).toMatchObject({ code: 1, out: '', err: `Coffer cannot start. ${damaged()}\n` })
    const doctor = await runProgram(['doctor'], { COFFER_DATA_DIR: folder })
    expect(doctor).toMatchObject({ code: 1, err: '' })
    expect(doctor.out).toContain('  wrong  database files: the file is damaged')
    expect(doctor.out).toContain(`  wrong  rows that grant rights: ${damaged()} Somebody with access `)
  })

  test.each([
    ['', 'EEXIST'],
    ['below', 'ENOTDIR'],
  ])('because its folder is a file: %j', async (below, reason) => {
    await writeFile(file, '')
    const dataDir = join(file, below)
    const { code, err } = await runProgram([], { COFFER_DATA_DIR: dataDir, COFFER_PORT: '0' })
    const sentence = `The database in ${dataDir} cannot be created, since part of the path is not a folder (${reason}): check COFFER_DATA_DIR.`
    expect({ code, err }).toEqual({ code: 1, err: `Coffer cannot start. ${sentence}\n` })
  })

  test('because its path has a broken link, as to a disk that is not mounted', async () => {
    await symlink(join(folder, 'nowhere', 'coffer'), join(folder, 'link'))
    for (const dataDir of [join(folder, 'link'), join(folder, 'link', 'data')]) {
      const { code, err } = await runProgram([], { COFFER_DATA_DIR: dataDir, COFFER_PORT: '0' })
      const sentence = `The database in ${dataDir} cannot be created, since a symbolic link in the path is broken, or nothing can be made there (ENOENT): check COFFER_DATA_DIR.`
      expect({ code, err }).toEqual({ code: 1, err: `Coffer cannot start. ${sentence}\n` })
    }
  })

  test.each([
    ['the data', 'COFFER_DATA_DIR', '/proc/coffer/data', 'The database in /proc/coffer/data cannot be created'],
    [
      'the key',
      'COFFER_MASTER_KEY_FILE',
      '/proc/coffer/key',
      'The folder /proc/coffer for the master key cannot be created',
    ],
  ])('because nothing can be made where %s should be', async (_, setting, path, problem) => {
    const { code, err } = await runProgram([], { COFFER_DATA_DIR: folder, COFFER_PORT: '0', [setting]: path })
    expect({ code, err }).toEqual({
      code: 1,
      err: expect.stringMatching(
        new RegExp(`^Coffer cannot start\\. ${problem}.* \\(ENOENT\\): check ${setting}\\.\n$`),
      ),
    })
  })

  test('because its disk is mounted read-only', async () => {
    await run('mount', ['-t', 'tmpfs', '-o', 'size=20m,mode=700', 'coffer-read-only', folder])
    try {
      const settings = { COFFER_DATA_DIR: folder, COFFER_PORT: '0' }
      // After a clean shutdown there is no log file, and SQLite itself reports the error.
      const { program } = await serve(settings)
      program.kill('SIGKILL')
      await program.ended
      await run('mount', ['-o', 'remount,ro', folder])
      const sentence = `The database in ${folder} cannot be written, since its disk is mounted read-only (EROFS): mount it for writing.`
      expect(await runProgram([], settings)).toMatchObject({ code: 1, err: `Coffer cannot start. ${sentence}\n` })
      const doctor = await runProgram(['doctor'], settings)
      expect(doctor.code).toBe(1)
      expect(doctor.out).toContain(`  wrong  disk: ${sentence} Every read of a value is recorded: `)
    } finally {
      await run('umount', [folder])
    }
  })

  test('because the disk is full at the first start', async () => {
    await run('mount', ['-t', 'tmpfs', '-o', 'size=400k,mode=700', 'coffer-full', folder])
    try {
      const { code, out, err } = await runProgram([], { COFFER_DATA_DIR: folder, COFFER_PORT: '0' })
      expect({ code, out, err }).toEqual({
        code: 1,
        out: '',
        err: `Coffer cannot start. The database in ${folder} cannot be written, since the disk is full: make room.\n`,
      })
      const doctor = await runProgram(['doctor'], { COFFER_DATA_DIR: folder })
      expect(doctor.code).toBe(1)
      expect(doctor.out).toContain(
        `  wrong  disk: the disk of ${folder} is full. Every read of a value is recorded: on a full disk the service serves none. Fix: make room before writes are refused, or move COFFER_DATA_DIR to a larger disk.\n`,
      )
    } finally {
      await run('umount', [folder])
    }
  })
})

test.each(['created by the first start', 'moved later'])(
  'a database file behind a symbolic link works: %s',
  async (how) => {
    const [folder, elsewhere] = await Promise.all([1, 2].map(() => mkdtemp(join(tmpdir(), 'coffer-link-'))))
    if (!folder || !elsewhere) throw new Error('there is no folder')
    const [link, file] = [join(folder, 'coffer.db'), join(elsewhere, 'kept.db')]
    if (how === 'moved later') {
      await (await openService({ COFFER_DATA_DIR: folder }, folder)).stop()
      await rename(link, file)
    }
    await symlink(file, link)
    const service = await openService({ COFFER_DATA_DIR: folder }, folder)
    await registerOwner(service)
    await service.stop()
    expect(await runProgram(['keys', 'rotate-root'], { COFFER_DATA_DIR: folder })).toMatchObject({ code: 0, err: '' })
    expect(await readdir(folder)).toEqual(['coffer.db', 'master.key'])
    await Promise.all([folder, elsewhere].map((one) => rm(one, { recursive: true })))
  },
)

test('a flipped bit in the index of names never returns the value of another name', async () => {
  const database = await createDatabase()
  const service = await openService(database.settings, database.dataDir)
  const { session } = await registerOwner(service)
  const project = await createSecretProject(service, session)
  const names = Array.from({ length: 8 }, (_, index) => `NAME_${index}`)
  await project.set('development', Object.fromEntries(names.map((name) => [name, `value of ${name}`])))
  const { body } = await service.call<{ id: string }>('GET', project.root, { token: session })
  await service.stop()

  // An index entry is the project id, the name and, in one byte, the row number. In the row itself, text follows the name.
  const file = join(database.dataDir, 'coffer.db')
  const bytes = await readFile(file)
  const name = names[4] ?? ''
  const entry = `${body.id}${name}`
  const isRow = (at: number) => bytes.subarray(at + entry.length).toString('latin1', 0, 7) === 'runtime'
  let entryAt = bytes.indexOf(entry)
  while (isRow(entryAt)) entryAt = bytes.indexOf(entry, entryAt + 1)
  expect(entryAt).toBeGreaterThan(0)
  const rowNumberAt = entryAt + entry.length
  bytes.writeUInt8(bytes.readUInt8(rowNumberAt) ^ 1, rowNumberAt)
  await writeFile(file, bytes)

  const damaged = await openService(database.settings, database.dataDir)
  const path = `${project.root}/secret/${name}`
  expect((await damaged.call('GET', path, { token: session })).status).toBe(404)
  const write = { environmentId: 'development', value: 'new' }
  expect((await damaged.call('PUT', `${path}/value`, { token: session, body: write })).status).toBe(404)
  for (const other of names.filter((one) => one !== name)) {
    const answer = await damaged.call('GET', `${project.root}/secret/${other}`, { token: session })
    expect(answer.body).toMatchObject({ name: other, values: [{ value: `value of ${other}` }] })
  }
  await damaged.stop()
  expect((await runProgram(['doctor'], database.settings)).code).toBe(1)
  await database.drop()
})
