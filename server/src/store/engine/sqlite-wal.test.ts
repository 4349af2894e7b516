import { once } from 'node:events'
import { closeSync, existsSync, openSync, readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs'
import { mkdir, mkdtemp, rename, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { Worker } from 'node:worker_threads'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { Failure } from '../../failure.ts'
import { type Engine, sql } from './sql.ts'
import { openSqlite } from './sqlite.ts'
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
  engine.transaction('note', async (transaction) => {
    transaction.afterCommit.push(() => notified.push(text))
    await transaction.db.run(sql`insert into note (text) values (${text})`)
  })
const notified: string[] = []
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

test('a commit that the disk does not confirm is not acknowledged, but its afterCommit callbacks run', async () => {
  await write('on the disk')
  const [file = -1] = syncedFiles()
  closeSync(file)
  // A file that cannot be synced takes over its descriptor.
  expect(openSync('/dev/null', 'r')).toBe(file)
  for (const text of ['lost?', 'lost again?']) {
    const refused = await write(text).catch((error: unknown) => error)
    expect(refused).toBeInstanceOf(Failure)
    expect(refused).toMatchObject({ code: 'unavailable' })
  }
  expect(notified).toEqual(['on the disk', 'lost?', 'lost again?'])
  expect(await count()).toBe(3)
})

test.each([
  ['a fast disk is synced synchronously', 1_000, false],
  ['a slow disk is synced off the event loop', 0, true],
])('%s, and a failed sync is an error', async (_what, quickEnoughMs, isAsynchronous) => {
  await write('first')
  const writer = new DatabaseSync(join(folder, 'test.db'))
  const wal = openWal(join(folder, 'test.db'), writer, quickEnoughMs)
  const others = syncedFiles()
  await wal.harden()
  let isDone = false
  const hardened = wal.harden().then(() => {
    isDone = true
  })
  // Without a turn of the event loop, only synchronous work is done.
  for (let step = 0; step < 100; step++) await Promise.resolve()
  expect(isDone).toBe(!isAsynchronous)
  await hardened
  const file = syncedFiles().find((one) => !others.includes(one)) ?? -1
  closeSync(file)
  expect(openSync('/dev/null', 'r')).toBe(file)
  await expect(wal.harden()).rejects.toMatchObject({ code: 'unavailable' })
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
  const wal = openWal(path, writer, undefined, 0)
  const threads: Worker[] = []
  const note = (worker: Worker) => void threads.push(worker)
  process.on('worker', note)
  try {
    for (const count of [1, 2]) {
      while (threads.length < count) {
        await wal.prepare()
        writer.exec(`insert into note values ('${'x'.repeat(500_000)}')`)
        await wal.harden()
      }
      for (const thread of threads) if (thread.threadId !== -1) await once(thread, 'exit')
    }
  } finally {
    process.off('worker', note)
    await wal.close()
    writer.close()
  }
  expect(threads).toHaveLength(2)
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
