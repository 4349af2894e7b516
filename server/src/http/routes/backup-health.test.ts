/** The age of the newest verified backup, for monitoring: metrics, readiness and doctor. No path, name or reason is told. */
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { tempFolder } from '../../../../test/backup-target.ts'
import { startService, type TestService } from '../../../../test/harness.ts'
import { holdBackups, runBackup } from '../../../../test/scheduled-backup.ts'
import { backupFindings } from '../../domain/backup/finding.ts'

type Verbose = { status: string; checks: { name: string; ok: boolean; message: string }[] }
const hour = 3_600_000

async function readMetric(service: TestService, name: string): Promise<string | undefined> {
  const { text } = await service.call('GET', '/metrics', { token: 'metrics' })
  return new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1]
}

async function readCheck(service: TestService, folder: string) {
  const { status, body, text } = await service.call<Verbose>('GET', '/readyz?verbose')
  expect([status, body.status]).toEqual([200, 'ready'])
  expect(text).not.toContain(folder)
  return body.checks.find(({ name }) => name === 'backup')
}

test('the age of the newest verified backup and the last result are shown, and so is a failed run', async () => {
  const folder = join(await tempFolder(), 'backups')
  const service = await startService({ COFFER_BACKUP_TO: folder, COFFER_METRICS_TOKEN: 'metrics' })
  const { services } = service.app
  const release = await holdBackups(service)
  const metric = (name: string) => readMetric(service, name)
  const check = () => readCheck(service, folder)
  expect(await metric('coffer_backup_age_seconds')).toBeUndefined()
  expect(await check()).toEqual({ name: 'backup', ok: true, message: 'There is no verified backup yet.' })

  await release()
  await runBackup(service)
  expect(Number(await metric('coffer_backup_age_seconds'))).toBeLessThan(600)
  expect(await metric('coffer_backup_last_result')).toBe('1')
  expect(await check()).toMatchObject({ ok: true, message: expect.stringMatching(/is \d+ minutes? old\.$/) })
  expect(await backupFindings(services)).toMatchObject([{ level: 'ok' }])

  await rm(folder, { recursive: true })
  await writeFile(folder, 'no folder')
  await runBackup(service, 25 * hour)
  expect(await metric('coffer_backup_last_result')).toBe('0')
  expect(Number(await metric('coffer_backup_age_seconds'))).toBeGreaterThan(86_400)
  expect(await check()).toMatchObject({
    ok: false,
    message: expect.stringMatching(/hours old, and the last run failed\.$/),
  })
  const [finding] = await backupFindings(services)
  expect(finding).toMatchObject({ level: 'wrong', what: expect.stringContaining('ENOTDIR') })
  await service.stop()
})

test('a backup is late once it is older than twice the interval, although no run has failed', async () => {
  const folder = join(await tempFolder(), 'backups')
  const service = await startService({ COFFER_BACKUP_TO: folder, COFFER_METRICS_TOKEN: 'metrics' })
  const { services } = service.app
  service.clock.fixedAt = Date.now()
  await runBackup(service)
  const release = await holdBackups(service)
  const age = async () => Number(await readMetric(service, 'coffer_backup_age_seconds'))
  service.clock.offsetMs += 48 * hour
  expect(await readCheck(service, folder)).toEqual({
    name: 'backup',
    ok: true,
    message: 'The newest verified backup is 2 days old.',
  })
  expect(await age()).toBe(172_800)

  service.clock.offsetMs += 1_000
  const message = 'The newest verified backup is 2 days old, which is too old.'
  expect(await readCheck(service, folder)).toEqual({ name: 'backup', ok: false, message })
  expect(await age()).toBe(172_801)
  expect(await readMetric(service, 'coffer_backup_last_result')).toBe('1')
  expect(await backupFindings(services)).toMatchObject([{ level: 'wrong', what: message }])

  await release()
  await runBackup(service)
  expect(await readCheck(service, folder)).toMatchObject({ ok: true })
  expect(await age()).toBe(0)
  await service.stop()
})

test('without scheduled backups, readiness and metrics do not speak of them, and doctor says that there are none', async () => {
  const service = await startService({ COFFER_METRICS_TOKEN: 'metrics' })
  expect((await service.call('GET', '/readyz')).body).toEqual({ status: 'ready' })
  const { body } = await service.call<Verbose>('GET', '/readyz?verbose')
  expect(body.checks).toEqual([{ name: 'store', ok: true, message: 'The store answers and accepts writes.' }])
  expect((await service.call('GET', '/metrics', { token: 'metrics' })).text).not.toContain('coffer_backup')
  const [finding, ...others] = await backupFindings(service.app.services)
  expect(finding).toMatchObject({ level: 'note', what: 'no backups are scheduled' })
  expect(others).toEqual([])
  await service.stop()
})

test('a master key in the folder of the backups, or inside it, is a finding', async () => {
  const root = await tempFolder()
  for (const place of ['backups', 'backups/keys']) {
    const key = join(root, place, 'master.key')
    const service = await startService({ COFFER_BACKUP_TO: join(root, 'backups'), COFFER_MASTER_KEY_FILE: key })
    const findings = await backupFindings(service.app.services)
    expect(findings.map(({ what }) => what)).toContain('the master key lies beside the backups')
    await service.stop()
  }
})
