/** Admins of the whole workspace are told when backups fail or are late; nobody else is, and not while all is well. */
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { tempFolder } from '../../../../test/backup-target.ts'
import { expectAccessible, openPage } from '../../../../test/browser.ts'
import { addUser, registerOwner, startService } from '../../../../test/harness.ts'
import { holdBackups, runBackup } from '../../../../test/scheduled-backup.ts'

const hour = 3_600_000

test('a failed backup is shown to an admin, not to a developer, and not once it has succeeded', async () => {
  const folder = join(await tempFolder(), 'backups')
  const service = await startService({ COFFER_BACKUP_TO: folder, COFFER_BACKUP_EVERY: '1h' })
  const owner = await registerOwner(service)
  const { body } = await service.call<{ id: string }[]>('GET', '/v1/workspace', { token: owner.session })
  const developer = await addUser(service, 'dev@example.com', { workspaceId: body[0]?.id ?? '', role: 'developer' })
  const banner = /The newest verified backup is .* old, and the last run failed\. Tell whoever runs this service\./
  const open = (session: string) => openPage(service, { path: '/main', session })
  await runBackup(service)

  const before = await open(owner.session)
  await before.getByRole('link', { name: 'Settings' }).waitFor()
  await before.waitForLoadState('networkidle')
  expect(await before.getByText('verified backup').count()).toBe(0)

  await rm(folder, { recursive: true })
  await writeFile(folder, 'no folder')
  await runBackup(service, hour + 1)
  const page = await open(owner.session)
  await page.getByText(banner).waitFor()
  expect(await page.getByRole('status').filter({ hasText: banner }).count()).toBe(1)
  await expectAccessible(page)
  const other = await open(developer.session)
  await other.getByRole('link', { name: 'Projects' }).first().waitFor()
  await other.waitForLoadState('networkidle')
  expect(await other.getByText('verified backup').count()).toBe(0)

  await rm(folder)
  await runBackup(service, 61_000)
  const after = await open(owner.session)
  await after.getByRole('link', { name: 'Settings' }).waitFor()
  await after.waitForLoadState('networkidle')
  expect(await after.getByText('verified backup').count()).toBe(0)
  await service.stop()
})

test('a late backup is shown to an admin although no run has failed', async () => {
  const folder = join(await tempFolder(), 'backups')
  const service = await startService({ COFFER_BACKUP_TO: folder, COFFER_BACKUP_EVERY: '1h' })
  const owner = await registerOwner(service)
  await runBackup(service)
  await holdBackups(service)
  service.clock.offsetMs += 2 * hour + 1
  const page = await openPage(service, { path: '/main', session: owner.session })
  const banner = 'The newest verified backup is 2 hours old, which is too old. Tell whoever runs this service.'
  await page.getByRole('status').filter({ hasText: banner }).waitFor()
  await service.stop()
})
