/** Scheduled backups, `backup verify` and `restore` on a bucket that means harm: the service goes on, and says what fails. */
import { copyFile, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import { runHere } from '../../../test/command.ts'
import { createDatabase, startService, type TestService } from '../../../test/harness.ts'
import { endless, endlessList, gigabytes, unendedList } from '../../../test/hostile-bucket.ts'
import { type S3Answer, type S3Server, startS3 } from '../../../test/s3-server.ts'
import { runBackup } from '../../../test/scheduled-backup.ts'
import { backupFindings } from '../domain/backup/finding.ts'
import { readBackupState } from '../domain/backup/state.ts'
import { inQuietTransaction } from '../domain/transaction.ts'
import type { Store } from '../store/store.ts'

const quietly = <Result>(work: (store: Store) => Promise<Result> | Result) =>
  inQuietTransaction(service.app.services, 'test', work)
const day = 86_400_000
const mebibyte = 1024 * 1024

let s3: S3Server
let service: TestService
let before: NodeJS.CpuUsage
beforeAll(async () => {
  before = process.cpuUsage()
  s3 = await startS3()
  const settings = { COFFER_BACKUP_TO: 's3://backups/prod', COFFER_METRICS_TOKEN: 'metrics', ...s3.settings }
  service = await startService(settings, { sleep: async () => undefined })
  s3.now = service.app.services.now
})
afterAll(async () => {
  await service.stop()
  await s3.close()
  const { user, system } = process.cpuUsage(before)
  expect((user + system) / 1_000_000).toBeLessThan(60)
})
beforeEach(() => {
  s3.now = service.app.services.now
  s3.twist = (_seen, honest) => honest
})

type Twist = (honest: S3Answer) => S3Answer
function twist(answers: Readonly<Record<string, Twist>>): void {
  s3.twist = (seen, honest) => answers[seen.operation]?.(honest) ?? honest
}

const claim =
  (bytes: number): Twist =>
  (honest) => ({ ...honest, headers: { ...honest.headers, 'content-length': String(bytes) } })
const listing =
  (bytes: number): Twist =>
  (honest) => ({ ...honest, body: String(honest.body).replaceAll(/<Size>\d+</g, `<Size>${bytes}<`) })

const backups = () => [...s3.objects.keys()].filter((name) => name.endsWith('.backup'))
const countLogged = (text: string) => service.logs.filter((line) => line.includes(text)).length
const unpruned = 'old backups could not be removed'

const lists: [what: string, answer: () => Twist][] = [
  ['a list of a mebibyte without ends', () => () => unendedList('Contents')],
  ['a list without end', () => endlessList('ListBucketResult')],
  ['a list that repeats itself', () => endlessList('ListBucketResult', 'same')],
  ['a list larger than any', () => endless],
]
test.each(lists)('%s ends a run, and the next backup comes', async (_what, answer) => {
  for (let runs = 0; runs < 2; runs++) {
    const [made, logged] = [backups().length, countLogged(unpruned)]
    twist({ ListObjectsV2: answer() })
    await runBackup(service, day + 1)
    expect(backups().length).toBe(made + 1)
    expect(countLogged(unpruned)).toBe(logged + 1)
  }
  expect(await readBackupState(service.app.services)).toMatchObject({ failures: 0, isLate: false })
})

test('a marker of 200 bytes that says it has 40 GB, and never ends, reaches neither disk nor memory', async () => {
  let isListed = false
  s3.twist = ({ operation, key }, honest) => {
    isListed ||= operation === 'ListObjectsV2'
    if (!isListed || !key.endsWith('.verified')) return honest
    return operation === 'HeadObject' ? claim(40 * gigabytes)(honest) : endless()
  }
  const sent = endless.sent
  await runBackup(service, day + 1)
  expect(endless.sent).toBeGreaterThan(sent)
  // Refused at its first bytes: what is counted was on its way.
  expect(endless.sent - sent).toBeLessThan(8 * mebibyte)
  expect((await readdir(service.dataDir)).filter((name) => name.includes('staging'))).toEqual([])
})

test('a run that lost its lease lists and removes no more', async () => {
  const { now } = service.app.services
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  try {
    let isListing = false
    s3.fault = ({ operation }) => {
      isListing ||= operation === 'ListObjectsV2'
      return operation === 'ListObjectsV2' ? 'hang' : undefined
    }
    const logged = countLogged(unpruned)
    service.clock.offsetMs += day + 1
    const running = runBackup(service)
    while (!isListing) await turn()
    const later = now() + 600_000
    const fence = await quietly(({ leases }) => leases.claim('backup', later, later + 60_000))
    // Renews, and finds out.
    await vi.advanceTimersByTimeAsync(20_000)
    await quietly(({ leases }) => leases.release('backup', fence ?? 0))
    await running
    expect(countLogged(unpruned)).toBe(logged)
  } finally {
    s3.fault = () => undefined
    vi.useRealTimers()
  }
})

test('a backup that a bad bucket prevents fails: doctor, readiness (and with it the banner) and metric say so', async () => {
  await runBackup(service, day + 1)
  const metric = async () => {
    const { text } = await service.call('GET', '/metrics', { token: 'metrics' })
    return /^coffer_backup_last_result (\d)$/m.exec(text)?.[1]
  }
  expect(await metric()).toBe('1')
  twist({ HeadObject: claim(40 * gigabytes) })
  await runBackup(service, day + 1)
  const [finding] = await backupFindings(service.app.services)
  expect(finding).toMatchObject({ level: 'wrong', what: expect.stringContaining('did not store the whole backup') })
  const { text } = await service.call('GET', '/readyz?verbose')
  expect(text).toContain('and the last run failed.')
  expect(await metric()).toBe('0')
  twist({})
  await runBackup(service, 61_000)
  expect(await metric()).toBe('1')
})

const files: [what: string, answers: Readonly<Record<string, Twist>>, message: RegExp][] = [
  ['a list without ends', { ListObjectsV2: () => unendedList('Contents') }, /a list that is cut off/],
  ['a list without end', { ListObjectsV2: endlessList('ListBucketResult', 'same') }, /a list that repeats itself/],
  ['a HEAD of 40 GB', { HeadObject: claim(40 * gigabytes) }, /lists another size than it sends/],
  [
    'a list and a HEAD of more than any disk',
    { ListObjectsV2: listing(2 ** 50), HeadObject: claim(2 ** 50), GetObject: endless },
    /MiB free, and the backup needs \d+ MiB/,
  ],
  ['a body without end', { GetObject: endless }, /is larger than \d+ bytes|sends more than it lists|sent nothing/],
  [
    'another file of the same size',
    { GetObject: (honest) => ({ ...honest, body: Buffer.alloc(Buffer.from(String(honest.body)).length) }) },
    /not a backup|sent nothing|larger than|damaged|cut off too often/,
  ],
]
test.each(files)('backup verify and restore refuse %s, and leave nothing behind', async (_what, answers, message) => {
  if (backups().length === 0) await runBackup(service)
  const [key = ''] = backups()
  const place = `s3://backups/${key}`
  const empty = await createDatabase()
  await copyFile(join(service.dataDir, 'master.key'), join(empty.dataDir, 'master.key'))
  const settings = { ...empty.settings, ...s3.settings, TMPDIR: empty.dataDir }
  const sent = endless.sent
  s3.now = Date.now
  for (const command of [
    ['backup', 'verify', place],
    ['restore', place],
  ]) {
    twist(answers)
    const { code, out, err } = await runHere(command, settings)
    expect(code, out + err).toBe(1)
    expect(out + err).toMatch(message)
    expect(await readdir(empty.dataDir)).toEqual(['master.key'])
  }
  expect(endless.sent - sent).toBeLessThan(64 * mebibyte)
  twist({})
  const { code, out, err } = await runHere(['restore', place], settings)
  expect(code, out + err).toBe(0)
  await empty.drop()
})
