/** A full backup disk: a clear error, no half backup under a name, and the service goes on. */
import { execFile } from 'node:child_process'
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { tempFolder } from '../../../test/backup-target.ts'
import { runHere } from '../../../test/command.ts'
import { registerOwner, startService } from '../../../test/harness.ts'
import { runBackup } from '../../../test/scheduled-backup.ts'

const run = promisify(execFile)

/** Full until the ballast is removed. */
async function fullDisk(onTestFinished: (work: () => Promise<void>) => void) {
  const folder = join(await tempFolder(), 'disk')
  await mkdir(folder)
  await run('mount', ['-t', 'tmpfs', '-o', 'size=1m,mode=700', 'coffer-backup-full', folder])
  onTestFinished(async () => void (await run('umount', [folder])))
  const ballast = join(folder, 'ballast')
  await writeFile(ballast, Buffer.alloc(2_000_000)).catch(() => undefined)
  return { folder, ballast }
}

test('a full backup disk is one sentence in the log, and the next run after there is room succeeds', async ({
  onTestFinished,
}) => {
  const { folder, ballast } = await fullDisk(onTestFinished)
  const service = await startService({ COFFER_BACKUP_TO: folder })
  const { session } = await registerOwner(service)
  await runBackup(service)
  const failed = service.logs.filter((line) => line.includes('a backup failed'))
  expect(failed).toEqual([expect.stringContaining('is full (ENOSPC): make room, or keep fewer backups.')])
  expect(await readdir(folder)).toEqual(['ballast'])
  expect((await service.call('GET', '/readyz')).status).toBe(200)
  const write = await service.call('POST', '/v1/workspace/main/team', { token: session, body: { name: 'New' } })
  expect(write.status).toBe(201)
  await rm(ballast)
  await runBackup(service, 61_000)
  const names = (await readdir(folder)).toSorted()
  expect(names).toEqual([expect.stringMatching(/\.backup$/), expect.stringMatching(/\.backup\.verified$/)])
  await service.stop()
})

test('the command names the disk that is full, of the file or of the scratch store, and leaves nothing there', async ({
  onTestFinished,
}) => {
  const { folder } = await fullDisk(onTestFinished)
  const service = await startService()
  const file = join(folder, 'new.backup')
  const written = await runHere(['backup', file], service.settings)
  expect([written.code, written.err]).toEqual([1, expect.stringContaining(`The disk of ${file}`)])
  expect(written.err).toContain('is full (ENOSPC): make room, or choose another place.')
  expect(await readdir(folder)).toEqual(['ballast'])
  const good = join(await tempFolder(), 'good.backup')
  expect((await runHere(['backup', good], service.settings)).code).toBe(0)
  const verified = await runHere(['backup', 'verify', good, '--scratch', folder], service.settings)
  expect([verified.code, verified.out]).toEqual([1, ''])
  expect(verified.err).toBe(`The scratch store in ${folder} cannot be written, since the disk is full: make room.\n`)
  expect(await readdir(folder)).toEqual(['ballast'])
  await service.stop()
})
