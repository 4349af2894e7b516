import { once } from 'node:events'
import { closeSync, existsSync, openSync, readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs'
import { copyFile, mkdir, mkdtemp, rename, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { Worker } from 'node:worker_threads'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { itemJob, newTrace } from '../../../../test/job.ts'
import { settle } from '../../../../test/sql-engine.ts'
import { Failure } from '../../failure.ts'
import { type Db, type Desk, type Engine, sql } from './sql.ts'
import { openSqlite } from './sqlite.ts'
import { createCheckpointer } from './sqlite-checkpointer.ts'
import { openWal } from './sqlite-wal.ts'

let folder: string
let engine: Engine
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'coffer-wal-'))
  engine = openSqlite(join(folder, 'test.db'))
  await engine.migratedSteps()
  await engine.migrateStep(1, 'test', 'create table note (id integer primary key, text text not null)', 0)
})
afterEach(async () => {
  await engine.close()
  await rm(folder, { recursive: true, force: true })
})

const write = (text: string) =>
  engine.transaction('note', async ({ db }) => db.write(sql`insert into note (text) values (${text})`))
const count = async () => (await engine.one<{ count: number }>(sql`select count(*) as count from note`))?.count

/** File descriptors used only to sync: SQLite opens its own for writing. */
function syncedFiles(): number[] {
  const log = join(folder, 'test.db-wal')
  const isReadOnly = (entry: string) => /^flags:\s+0[0-7]*0$/m.test(readFileSync(`/proc/self/fdinfo/${entry}`, 'utf8'))
  return readdirSync('/proc/self/fd')
    .filter((entry) => targetOf(entry) === log && isReadOnly(entry))
    .map(Number)
}

function targetOf(entry: string): string {
  try {
    return readlinkSync(`/proc/self/fd/${entry}`)
  } catch {
    return ''
  }
}

/** The file that is synced cannot be from now on. */
function breakSync(): void {
  const [file = -1] = syncedFiles()
  closeSync(file)
  expect(openSync('/dev/null', 'r')).toBe(file)
}

describe('a commit that the disk does not confirm', () => {
  test('is not acknowledged, whether of a transaction or of jobs, but its link is told that it is visible', async () => {
    await write('on the disk')
    breakSync()
    for (const text of ['lost?', 'lost again?'])
      expect(await settle(write(text))).toMatchObject({ ok: false, error: expect.any(Failure) })
    const trace = newTrace()
    const plans: string[] = []
    const jobOf = (text: string) => ({
      ...itemJob(text, { trace }),
      plan: (_read: undefined, _desk: Desk, db: Db) => {
        plans.push(text)
        db.write(sql`insert into note (text) values (${text})`)
        return { result: text, note: text }
      },
    })
    const outcomes = await Promise.all(['one', 'two'].map((text) => settle(engine.commit('note', jobOf(text)))))
    for (const outcome of outcomes) expect(outcome).toMatchObject({ ok: false, error: { code: 'unavailable' } })
    // Their commit may be durable: nothing is repeated.
    expect(plans).toEqual(['one', 'two'])
    expect(trace.told).toEqual(['committed one two', 'settled one two'])
    expect(await count()).toBe(5)
  })

  test('is moved from the log into the file before the next transaction', async () => {
    await write('on the disk')
    breakSync()
    expect(await settle(write('lost?'))).toMatchObject({ ok: false, error: { code: 'unavailable' } })
    await settle(write('next'))
    const copy = join(folder, 'without-log.db')
    await copyFile(join(folder, 'test.db'), copy)
    const file = new DatabaseSync(copy)
    expect(file.prepare('select text from note').all()).toEqual([{ text: 'on the disk' }, { text: 'lost?' }])
    file.close()
  })
})

test('several commits share a wait for the disk, and a failed one is an error for each of them', async () => {
  await write('first')
  const writer = new DatabaseSync(join(folder, 'test.db'))
  const wal = openWal(join(folder, 'test.db'), writer)
  const others = syncedFiles()
  let isDone = false
  const hardened = wal.harden().then(() => {
    isDone = true
  })
  // A commit after the start of a wait needs another one, which later commits share.
  const next = wal.harden()
  expect(wal.harden()).toBe(next)
  // Without a turn of the event loop, only synchronous work is done.
  for (let step = 0; step < 100; step++) await Promise.resolve()
  expect(isDone).toBe(false)
  await Promise.all([hardened, next])
  const file = syncedFiles().find((one) => !others.includes(one)) ?? -1
  closeSync(file)
  expect(openSync('/dev/null', 'r')).toBe(file)
  const failing = [wal.harden(), wal.harden(), wal.harden()].map(settle)
  for (const outcome of await Promise.all(failing))
    expect(outcome).toMatchObject({ ok: false, error: { code: 'unavailable' } })
  await wal.close()
  writer.close()
})

test('a commit during a wait that fails is not acknowledged, even if the next wait succeeds', async () => {
  await write('first')
  const writer = new DatabaseSync(join(folder, 'test.db'))
  const wal = openWal(join(folder, 'test.db'), writer)
  const others = syncedFiles()
  await wal.harden()
  const file = syncedFiles().find((one) => !others.includes(one)) ?? -1
  closeSync(file)
  expect(openSync('/dev/null', 'r')).toBe(file)
  const failing = settle(
    wal.harden().catch((error: unknown) => {
      // The system reports a lost page once: from here on, the file can be synced again.
      closeSync(file)
      expect(openSync(join(folder, 'test.db-wal'), 'r')).toBe(file)
      throw error
    }),
  )
  const next = settle(wal.harden())
  for (const outcome of [await failing, await next])
    expect(outcome).toMatchObject({ ok: false, error: { code: 'unavailable' } })
  await wal.prepare()
  expect(await settle(wal.harden())).toEqual({ ok: true })
  await wal.close()
  writer.close()
})

test('the WAL restarts under constant writes, and every commit reaches the database file', async () => {
  const text = 'x'.repeat(3_000)
  const megabyte = 1024 * 1024
  const sizes: number[] = []
  for (let round = 0; round < 200; round++) {
    await Promise.all(Array.from({ length: 100 }, () => write(text)))
    sizes.push(statSync(join(folder, 'test.db-wal')).size)
  }
  expect(await count()).toBe(20_000)
  expect(Math.max(...sizes)).toBeLessThan(24 * megabyte)
  expect(statSync(join(folder, 'test.db')).size).toBeGreaterThan(40 * megabyte)
  await engine.close()
  const file = new DatabaseSync(join(folder, 'test.db'), { readOnly: true })
  expect(file.prepare('select count(*) as count from note').get()).toEqual({ count: 20_000 })
  file.close()
  engine = openSqlite(join(folder, 'test.db'))
  expect(await count()).toBe(20_000)
})

test('the thread of checkpoints ends when nothing is written, and the next checkpoint starts another', async () => {
  const path = join(folder, 'other.db')
  const writer = new DatabaseSync(path)
  writer.exec('pragma journal_mode = wal; pragma wal_autocheckpoint = 0; create table note (text text)')
  const checkpointer = createCheckpointer(path, writer, 0)
  const threads: Worker[] = []
  const note = (worker: Worker) => void threads.push(worker)
  process.on('worker', note)
  try {
    for (const count of [1, 2]) {
      writer.exec(`insert into note values ('${'x'.repeat(500_000)}')`)
      await checkpointer.run()
      expect(threads).toHaveLength(count)
      for (const thread of threads) if (thread.threadId !== -1) await once(thread, 'exit')
      expect(writer.prepare('pragma wal_checkpoint(noop)').get()).toMatchObject({ busy: 0 })
    }
  } finally {
    process.off('worker', note)
    await checkpointer.close()
    writer.close()
  }
  expect(existsSync(`${path}-wal`)).toBe(false)
})

/** 36 MB. */
async function writeMuch(): Promise<void> {
  const text = 'x'.repeat(3_000)
  for (let round = 0; round < 120; round++) await Promise.all(Array.from({ length: 100 }, () => write(text)))
}

function failToStart(): never {
  throw new Error('too many threads')
}

test('the WAL stays short when no thread can be started', async () => {
  const starts = vi.spyOn(process.getBuiltinModule('node:worker_threads'), 'Worker').mockImplementation(failToStart)
  try {
    await writeMuch()
    expect(starts).toHaveBeenCalled()
  } finally {
    starts.mockRestore()
  }
  expect(await count()).toBe(12_000)
  expect(statSync(join(folder, 'test.db-wal')).size).toBeLessThan(24 * 1024 * 1024)
})

test('the WAL stays short when no thread can open the file', async () => {
  await write('first')
  // Open connections keep the moved file.
  await rename(join(folder, 'test.db'), join(folder, 'moved.db'))
  await mkdir(join(folder, 'test.db'))
  await writeMuch()
  expect(await count()).toBe(12_001)
  expect(statSync(join(folder, 'test.db-wal')).size).toBeLessThan(24 * 1024 * 1024)
  expect(statSync(join(folder, 'moved.db')).size).toBeGreaterThan(20 * 1024 * 1024)
})
