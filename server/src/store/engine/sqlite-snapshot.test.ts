/** The copy of a SQLite store before its migration: when it is made, kills, a full disk, and the way back. */
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { mkdtemp, readdir, rm, stat, symlink, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { promisify } from 'node:util'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { describeFixture, placeFixture } from '../../../../test/fixture/fixture.ts'
import { messagesOf, startNode } from '../../../../test/program.ts'
import { runProgram, startListening } from '../../../../test/start-server.ts'
import { isDeep } from '../../../../test/tier.ts'
import { migrate, steps } from '../migrate.ts'
import { openSqlite } from './sqlite.ts'

const run = promisify(execFile)
const version = '0.1.0'
const firstStep = describeFixture(version, 'sqlite').steps + 1
const snapshotName = `coffer.db.before-step-${firstStep}`

let folder: string
let path: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'coffer-test-'))
  path = join(folder, 'coffer.db')
  await place(folder)
})
afterEach(() => rm(folder, { recursive: true, force: true }))

const place = (dataDir: string) => placeFixture(version, { settings: { COFFER_DATA_DIR: dataDir }, dataDir })
const inFolder = async () => (await readdir(folder)).filter((name) => name.startsWith('coffer.db.')).sort()

/** With `applied`, it has seen the store with so many steps. With `before`, that runs before each step. */
async function migrateHere(applied?: number, before?: (step: number) => void): Promise<string[]> {
  const told: string[] = []
  const engine = openSqlite(path)
  const migratedSteps = async () => applied ?? engine.migratedSteps()
  const migrateStep: typeof engine.migrateStep = async (step, ...rest) => {
    before?.(step)
    await engine.migrateStep(step, ...rest)
  }
  try {
    await migrate({ ...engine, migratedSteps, migrateStep }, 1, (message) => told.push(message))
  } finally {
    await engine.close()
  }
  return told
}

const migrateUntil = (last: number) =>
  migrateHere(undefined, (step) => {
    if (step > last) throw new Error('interrupted')
  })

function forgetStep(step: number): void {
  const database = new DatabaseSync(path)
  database.prepare('delete from schema_step where step = ?').run(step)
  database.close()
}

/** The schema and all rows. */
function contentOf(file: string): unknown[] {
  const database = new DatabaseSync(file)
  const schema = database.prepare('select type, name, sql from sqlite_schema order by type, name').all()
  const tables = schema.filter(({ type }) => type === 'table').map(({ name }) => String(name))
  const rows = tables.map((table) => {
    const all = database.prepare(`select * from "${table}"`).all()
    return [table, all.map((row) => JSON.stringify(row)).sort()]
  })
  database.close()
  return [schema, ...rows]
}

async function originalContent(): Promise<unknown[]> {
  const other = await mkdtemp(join(tmpdir(), 'coffer-test-'))
  await place(other)
  try {
    return contentOf(join(other, 'coffer.db'))
  } finally {
    await rm(other, { recursive: true })
  }
}

test('holds the store as it was, for the user of the service alone, and is named in the log', async () => {
  const service = await startListening({ COFFER_DATA_DIR: folder })
  const snapshot = join(folder, snapshotName)
  const sentence = `upgrading the store from step ${firstStep - 1} to ${steps.length}; its state before that is in ${snapshot}`
  expect(service.messages()).toContain(sentence)
  expect((await stat(snapshot)).mode & 0o777).toBe(0o600)
  await service.stop()
  expect(await inFolder()).toEqual([snapshotName])
  expect(contentOf(snapshot)).toEqual(await originalContent())
  expect(contentOf(path)).not.toEqual(contentOf(snapshot))
})

test('is beside the file that a link names', async () => {
  const other = await mkdtemp(join(tmpdir(), 'coffer-test-'))
  await symlink(path, join(other, 'coffer.db'))
  const engine = openSqlite(join(other, 'coffer.db'))
  await migrate(engine, 1)
  await engine.close()
  expect(await inFolder()).toEqual([snapshotName])
  await rm(other, { recursive: true })
})

test('is made once for a migration, however often that is interrupted, and again for the next one', async () => {
  for (const stopAt of [firstStep, firstStep + 3]) await expect(migrateUntil(stopAt)).rejects.toThrow('interrupted')
  expect(await migrateHere()).toEqual([`upgrading the store from step ${firstStep + 3} to ${steps.length}`])
  expect(await inFolder()).toEqual([snapshotName])
  expect(contentOf(join(folder, snapshotName))).toEqual(await originalContent())
  expect(await migrateHere()).toEqual([])

  forgetStep(steps.length)
  await expect(migrateUntil(steps.length - 1)).rejects.toThrow('interrupted')
  expect(await inFolder()).toEqual([snapshotName, `coffer.db.before-step-${steps.length}`].sort())
})

test('is not replaced by a process that saw the store before another one upgraded it', async () => {
  await migrateHere()
  expect(await migrateHere(firstStep - 1)).toEqual([
    `upgrading the store from step ${firstStep - 1} to ${steps.length}`,
  ])
  expect(await inFolder()).toEqual([snapshotName])
  expect(contentOf(join(folder, snapshotName))).toEqual(await originalContent())
})

test('is made again if the version before has written since an upgrade that applied nothing', async () => {
  await expect(migrateUntil(firstStep - 1)).rejects.toThrow('interrupted')
  const database = new DatabaseSync(path)
  database.exec(`insert into change (subject, subject_id, at) values ('user', 'written since', 1)`)
  database.close()
  await migrateHere()
  expect(JSON.stringify(contentOf(join(folder, snapshotName)))).toContain('written since')
})

test('stays if others seem newer, because a clock was wrong', async () => {
  const inAnHour = Date.now() / 1_000 + 3_600
  for (const step of [10, 20]) {
    await writeFile(`${path}.before-step-${step}`, '')
    await utimes(`${path}.before-step-${step}`, inAnHour + step, inAnHour + step)
  }
  await migrateHere()
  expect(await inFolder()).toEqual([snapshotName, 'coffer.db.before-step-20'].sort())
})

test('leaves the two newest', async () => {
  for (const [age, step] of [30, 20, 10].entries()) {
    const file = `${path}.before-step-${step}`
    await writeFile(file, '')
    await utimes(file, 1_000 - age, 1_000 - age)
  }
  const others = ['coffer.db.before-step-x', 'coffer.db.before-lunch', 'coffer.db.backup']
  for (const name of others) await writeFile(join(folder, name), '')
  await migrateHere()
  expect(await inFolder()).toEqual([snapshotName, 'coffer.db.before-step-30', ...others].sort())
})

test('is not made of an empty store, nor of one that was never started', async () => {
  await rm(path)
  await migrateHere()
  expect(await inFolder()).toEqual([])
  expect(await migrateHere(steps.length - 1)).toEqual([
    `upgrading the store from step ${steps.length - 1} to ${steps.length}`,
  ])
  expect(await inFolder()).toEqual([])
})

const program = join(import.meta.dirname, '../../../../test/killed-snapshot.ts')
const stages = ['closeSync after', 'fsyncSync before', 'renameSync before', 'renameSync after']

test.each(isDeep ? stages : stages.slice(2))('killed at %s, is complete after the next start', async (stage) => {
  const { signal, err } = await startNode([program, stage, path]).ended
  expect(signal, err).toBe('SIGKILL')
  expect(await inFolder()).toEqual([stage === 'renameSync after' ? snapshotName : `${snapshotName}.part`])
  const database = new DatabaseSync(path)
  expect(database.prepare('select max(step) as step from schema_step').get()).toEqual({ step: firstStep - 1 })
  database.close()
  await migrateHere()
  expect(await inFolder()).toEqual([snapshotName])
  expect(contentOf(join(folder, snapshotName))).toEqual(await originalContent())
})

describe('on a disk without room', () => {
  beforeEach(async () => {
    await run('mount', ['-t', 'tmpfs', '-o', 'size=8m,mode=700', 'coffer-full', folder])
    await place(folder)
  })
  afterEach(() => run('umount', [folder]))

  test('refuses the upgrade in one sentence, and changes nothing', async () => {
    const { code, err, out } = await runProgram([], { COFFER_DATA_DIR: folder, COFFER_PORT: '0' })
    const sentence = `The upgrade first copies the store, and its disk has no room for that: make 17 MiB free in ${folder}. Older copies there (coffer.db.before-…) may be moved elsewhere.`
    expect({ code, out, err }).toEqual({ code: 1, out: '', err: `Coffer cannot start. ${sentence}\n` })
    expect(await inFolder()).toEqual([])
    expect(contentOf(path)).toEqual(await originalContent())
    await run('mount', ['-o', 'remount,size=64m', folder])
    await migrateHere()
    expect(await inFolder()).toEqual([snapshotName])
  })
})

describe('the way back', () => {
  test('is named to an older version, which changes nothing', async () => {
    await migrateHere()
    const engine = openSqlite(path)
    const upgradedAt = Date.parse('2026-03-01T12:00:00.000Z')
    await engine.migrateStep(steps.length + 1, 'from the future', 'create table from_the_future (id text)', upgradedAt)
    await engine.close()
    const newest = `${path}.before-step-${steps.length + 1}`
    for (const name of [newest, `${path}.before-step-${steps.length + 2}`]) await writeFile(name, '')
    const before = contentOf(path)
    const sentence = `The database was migrated by a newer version of Coffer (step ${steps.length + 1}, this version knows ${steps.length}): start that version or a later one. To go back to this version, put ${newest} in its place as docs/upgrade.md describes; everything written since 2026-03-01T12:00:00.000Z is lost then.`
    for (const args of [[], ['doctor']]) {
      const { code, err, out } = await runProgram(args, { COFFER_DATA_DIR: folder, COFFER_PORT: '0' })
      expect(code).toBe(1)
      expect(`${out}${err}`).toContain(sentence)
    }
    expect(contentOf(path)).toEqual(before)
  })

  test('is named with its time, if a person has removed the newest copy and an older one is left', async () => {
    await migrateHere()
    const database = new DatabaseSync(path)
    const upgradedAt = Date.parse('2025-03-01T12:00:00.000Z')
    database.prepare('update schema_step set applied_at = ? where step = ?').run(upgradedAt, firstStep)
    database.close()
    const engine = openSqlite(path)
    await engine.migrateStep(steps.length + 1, 'from the future', 'create table from_the_future (id text)', Date.now())
    await expect(migrate(engine, 1)).rejects.toThrow(
      `put ${join(folder, snapshotName)} in its place as docs/upgrade.md describes; everything written since 2025-03-01T12:00:00.000Z is lost then.`,
    )
    await engine.close()
  })

  test('of docs/upgrade.md leads to the store of before, which can be upgraded again', async () => {
    const page = readFileSync(join(import.meta.dirname, '../../../../docs/upgrade.md'), 'utf8')
    const [, block = ''] = /## Go back[\s\S]*?```sh\n([\s\S]*?)```/.exec(page) ?? []
    expect(block).toContain('SNAPSHOT')
    const service = await startListening({ COFFER_DATA_DIR: folder })
    // Killed, so that the newest commits are in the log, which the commands must remove.
    await service.destroy()
    expect(await readdir(folder)).toContain('coffer.db-wal')
    const goBack = (SNAPSHOT: string) =>
      run('sh', ['-euc', block.replaceAll(/\bdata\b/g, folder)], { env: { PATH: process.env.PATH, SNAPSHOT } })
    const files = await readdir(folder)
    await expect(goBack('')).rejects.toThrow()
    expect(await readdir(folder)).toEqual(files)
    await goBack(join(folder, snapshotName))
    expect((await readdir(folder)).sort()).toEqual(['coffer.db', 'coffer.db.newer', 'master.key'])
    expect(contentOf(path)).toEqual(await originalContent())
    const again = await startListening({ COFFER_DATA_DIR: folder })
    expect(messagesOf(again.program.out()).join()).toContain(`upgrading the store from step ${firstStep - 1}`)
    await again.stop()
    expect(await inFolder()).toEqual([snapshotName, 'coffer.db.newer'])
  })
})
