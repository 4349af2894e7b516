/** Scheduled backups: made, verified, stored, kept and removed; by one node of several; and failures that do no harm. */
import { createHash } from 'node:crypto'
import { copyFile, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { tempFolder } from '../../../test/backup-target.ts'
import { runHere } from '../../../test/command.ts'
import {
  createDatabase,
  engine,
  openService,
  registerOwner,
  startService,
  type TestService,
} from '../../../test/harness.ts'
import { startS3 } from '../../../test/s3-server.ts'
import { runBackup } from '../../../test/scheduled-backup.ts'
import { openStaging } from '../domain/backup/staging.ts'
import { readBackupState } from '../domain/backup/state.ts'
import { verifyBackup } from '../domain/backup/verify.ts'
import { inQuietTransaction } from '../domain/transaction.ts'
import type { Store } from '../store/store.ts'
import { backUp } from './backup.ts'

const hour = 3_600_000
const day = 24 * hour
const going = new AbortController().signal

let folder: string
let service: TestService
beforeEach(async () => {
  folder = join(await tempFolder(), 'backups')
})
afterEach(() => service.stop())

async function start(settings: Record<string, string> = {}): Promise<void> {
  service = await startService({ COFFER_BACKUP_TO: folder, ...settings })
}
const quietly = <Result>(work: (store: Store) => Promise<Result> | Result) =>
  inQuietTransaction(service.app.services, 'test', work)
const run = (afterMs = 0, one = service) => runBackup(one, afterMs)
const stored = async () => (await readdir(folder)).toSorted()
const backups = async () => (await stored()).filter((name) => name.endsWith('.backup'))
const logged = (text: string) => service.logs.filter((line) => line.includes(text))
const listFailed = () => {
  const { store, now } = service.app.services
  return store.backups.listFailed(folder, { sinceMs: 0, untilMs: now() }, 100)
}
const staged = async () => readdir((await openStaging(service.app.services.config)).folder)

test('a backup is made at once and then every day, each verified and marked, and nothing stays in the staging folder', async () => {
  await start()
  await registerOwner(service)
  await run()
  await run(23 * hour)
  expect((await backups()).length).toBe(1)
  await run(hour + 1)
  const names = await backups()
  expect(names.length).toBe(2)
  expect(await stored()).toEqual(names.flatMap((name) => [name, `${name}.verified`]))
  const [name = ''] = names
  const marker = JSON.parse(await readFile(join(folder, `${name}.verified`), 'utf8'))
  const sha256 = createHash('sha256')
    .update(await readFile(join(folder, name)))
    .digest('hex')
  expect(marker).toMatchObject({ name, sha256, version: service.app.services.version })
  const scratchFolder = await tempFolder()
  const verdict = await verifyBackup(join(folder, name), async () => service.app.services.keys.master, {
    scratchFolder,
  })
  expect(verdict).toMatchObject({ ok: true, problems: [] })
  expect(await staged()).toEqual([])
  expect(logged('a backup was made').length).toBe(2)
})

test('without COFFER_BACKUP_TO nothing is made', async () => {
  service = await startService()
  await run()
  expect(await service.app.services.store.backups.newestVerified('', Number.MAX_SAFE_INTEGER)).toBeUndefined()
})

test('old backups are removed by the rule, and files of others stay', async () => {
  await start({ COFFER_BACKUP_KEEP: '2 daily' })
  await mkdir(folder)
  const foreign = ['notes.txt', 'coffer-20200101T000000Z-abcdef.backup.old']
  for (const name of foreign) await writeFile(join(folder, name), 'x')
  const unverified = 'coffer-20200101T000000Z-abcdef.backup'
  await writeFile(join(folder, unverified), 'x')
  await quietly(({ backups }) => backups.insert({ id: 'killed', target: folder, name: unverified, startedAt: 1 }))
  for (let count = 0; count < 4; count++) await run(day + 1)
  const names = await backups()
  expect(names.length).toBe(2)
  expect(names).not.toContain(unverified)
  for (const name of foreign) expect(await stored()).toContain(name)
  expect((await stored()).filter((name) => name.endsWith('.verified')).length).toBe(2)
})

test('a verified backup that the command has put there is kept by the rule', async () => {
  service = await startService()
  await mkdir(folder)
  const { code, out, err } = await runHere(['backup', folder], service.settings)
  expect(code, out + err).toBe(0)
  const [name = ''] = await backups()
  const settings = { ...service.settings, COFFER_BACKUP_TO: folder, COFFER_BACKUP_KEEP: '2 daily' }
  const nextDay = await openService(settings, service.dataDir, {}, { offsetMs: day + 1 })
  await run(0, nextDay)
  expect(await backups()).toHaveLength(2)
  expect(await backups()).toContain(name)
  await nextDay.stop()
})

test('a backup that was verified is kept by the rule, even if its marker was removed', async () => {
  await start({ COFFER_BACKUP_KEEP: '2 daily' })
  await run()
  for (const name of await stored()) if (name.endsWith('.verified')) await rm(join(folder, name))
  await run(day + 1)
  expect((await backups()).length).toBe(2)
  await run(day + 1)
  expect((await backups()).length).toBe(2)
})

test('a restored service removes no backup of before the restore for 30 days, not even one of the same day', async () => {
  await start({ COFFER_BACKUP_KEEP: '1 daily' })
  await run()
  const [before = ''] = await backups()
  const target = await createDatabase()
  await copyFile(join(service.dataDir, 'master.key'), join(target.dataDir, 'master.key'))
  const restored = await runHere(['restore', join(folder, before)], target.settings)
  expect(restored.code, restored.out + restored.err).toBe(0)
  const settings = { ...target.settings, COFFER_BACKUP_TO: folder, COFFER_BACKUP_KEEP: '1 daily' }
  const next = await openService(settings, target.dataDir)
  await run(0, next)
  await run(29 * day, next)
  expect((await backups()).length).toBe(2)
  expect(await backups()).toContain(before)
  await run(day + hour, next)
  expect((await backups()).length).toBe(1)
  expect(await backups()).not.toContain(before)
  await next.stop()
  await target.drop()
})

// A SQLite store has one node.
if (engine === 'postgres') {
  test('of two nodes one makes the backup', async () => {
    await start()
    const other = await openService({ ...service.settings, COFFER_BACKUP_TO: folder }, service.dataDir)
    await Promise.all([run(), run(0, other), run(), run(0, other)])
    expect((await backups()).length).toBe(1)
    await run(0, other)
    expect((await backups()).length).toBe(1)
    await other.stop()
  })
}

test('a failed run is logged once, kept with its reason, and repeated after a minute, two, four, up to an hour', async () => {
  await start()
  await rm(folder, { force: true, recursive: true })
  await writeFile(folder, 'no folder')
  const runs = async () => logged('a backup failed').length
  await run()
  expect(await runs()).toBe(1)
  expect(logged('a backup failed')[0]).toContain('cannot be written to (ENOTDIR)')
  for (const minutes of [1, 2, 4, 8, 16, 32, 60, 60, 60]) {
    const before = await runs()
    await run(minutes * 60_000 - 30_000)
    expect(await runs()).toBe(before)
    await run(31_000)
    expect(await runs()).toBe(before + 1)
  }
  const failed = await listFailed()
  expect(failed.length).toBe(10)
  expect(failed[0]?.error).toContain('cannot be written to (ENOTDIR)')
  await rm(folder)
  await run(hour + 1)
  expect((await backups()).length).toBe(1)
  expect((await service.call('GET', '/readyz')).status).toBe(200)
})

test('a backup that could not be stored is not made anew: the next run stores the staged one', async () => {
  const s3 = await startS3()
  service = await startService(
    { COFFER_BACKUP_TO: 's3://backups/prod', ...s3.settings },
    { sleep: async () => undefined },
  )
  s3.fault = ({ operation }) => (operation === 'PutObject' ? 'slowDown' : undefined)
  await run()
  expect(logged('a backup failed')[0]).toContain('answered 503 SlowDown')
  const [name = ''] = await staged()
  s3.fault = () => undefined
  await run(61_000)
  expect([...s3.objects.keys()].toSorted()).toEqual([`prod/${name}`, `prod/${name}.verified`])
  expect(await staged()).toEqual([])
  expect(s3.violations).toEqual([])
  await s3.close()
})

test('a staged backup that is stored hours later is as old as its contents, and the next one is due by that', async () => {
  await writeFile(folder, 'no folder')
  await start()
  service.clock.fixedAt = Date.now()
  await run()
  await rm(folder)
  await run(20 * hour)
  const [name = ''] = await backups()
  expect((await readBackupState(service.app.services))?.failures).toBe(0)
  const { text } = await service.call('GET', '/readyz?verbose')
  expect(text).toContain('The newest verified backup is 20 hours old.')
  await run(3 * hour)
  expect(await backups()).toEqual([name])
  await run(hour + 1)
  expect((await backups()).length).toBe(2)
})

test('a run that is dated in the future hides no failure, and is no reason for another run at every look', async () => {
  await start()
  service.clock.fixedAt = Date.now()
  const { now } = service.app.services
  const startedAt = now() + 30 * day
  await quietly(async ({ backups }) => {
    backups.insert({ id: 'future', target: folder, name: 'future', startedAt })
    await backups.finish('future', { finishedAt: startedAt, verifiedAt: startedAt, bytes: 1, error: null })
  })
  await run()
  expect((await backups()).length).toBe(1)
  await run(61_000)
  await run(61_000)
  expect((await backups()).length).toBe(1)
  await rm(folder, { recursive: true })
  await writeFile(folder, 'no folder')
  await run(day)
  expect(await readBackupState(service.app.services)).toMatchObject({ failures: 1 })
  await run(30_000)
  expect(logged('a backup failed').length).toBe(1)
})

test('runs of one process begin a minute apart, whatever the store says', async () => {
  await start()
  service.clock.fixedAt = Date.now()
  await writeFile(folder, 'no folder')
  const { now } = service.app.services
  const end = { finishedAt: now() + 30 * day, verifiedAt: null, bytes: null, error: 'The clock was wrong.' }
  await quietly(async ({ backups }) => {
    backups.insert({ id: 'odd', target: folder, name: 'odd', startedAt: now() + hour / 2 })
    await backups.finish('odd', end)
  })
  await run()
  await run(59_000)
  expect(logged('a backup failed').length).toBe(1)
  await run(2_000)
  expect(logged('a backup failed').length).toBe(2)
})

test('a run that was killed leaves a lease and files, which the next run ends and removes', async () => {
  await start()
  const { config, now } = service.app.services
  const { folder: stagingFolder } = await openStaging(config)
  const name = 'coffer-20200101T000000Z-abcdef.backup'
  for (const left of [name, `${name}.part`, `${name}.unverified`]) await writeFile(join(stagingFolder, left), 'x')
  await mkdir(join(stagingFolder, 'coffer-verify-0123456789ab'))
  await quietly(async ({ backups, leases }) => {
    await leases.claim('backup', now(), now() + 60_000)
    backups.insert({ id: 'killed', target: folder, name, startedAt: now() - 1 })
  })
  await backUp(service.app.services, going)
  await expect(backups()).rejects.toThrow('ENOENT')
  await run(61_000)
  const [ended] = await listFailed()
  expect(ended).toMatchObject({ id: 'killed', error: 'The run was ended before its end.' })
  expect((await backups()).length).toBe(1)
  expect(await staged()).toEqual([])
})

test('a stop of the service ends a run soon, and the next start makes the backup', async () => {
  await start()
  const stopping = new AbortController()
  const running = backUp(service.app.services, stopping.signal)
  stopping.abort()
  await running
  expect(logged('a backup failed')).toEqual([])
  const [failed] = await listFailed()
  expect(failed?.error).toBe('The service was stopped during the backup.')
  await run(61_000)
  expect((await backups()).length).toBe(1)
})
