/** Several installations with one target, or one staging folder: each counts, removes and stores its own backups alone. */

import { copyFile, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { tempFolder } from '../../../test/backup-target.ts'
import { startService, type TestService } from '../../../test/harness.ts'
import { holdBackups, runBackup } from '../../../test/scheduled-backup.ts'
import { signRow } from '../crypto/row-mac.ts'
import { openStaging } from '../domain/backup/staging.ts'
import { newBackupName } from '../domain/backup/target/name.ts'

const day = 24 * 3_600_000

let folder: string
let service: TestService
let seen: Set<string>
beforeEach(async () => {
  seen = new Set()
  folder = join(await tempFolder(), 'backups')
  service = await startService({ COFFER_BACKUP_TO: folder, COFFER_BACKUP_KEEP: '1 daily' })
})
afterEach(() => service.stop())

const stored = async () => (await readdir(folder)).toSorted()
const markerPath = (name: string) => join(folder, `${name}.verified`)

/** The name of the new backup. The service may have made it by itself just before. */
async function run(afterMs = 0, one = service): Promise<string> {
  await runBackup(one, afterMs)
  const [name = '', ...others] = (await stored()).filter((file) => !seen.has(file) && file.endsWith('.backup'))
  expect([name, others]).toEqual([expect.stringMatching(/^coffer-/), []])
  seen.add(name)
  return name
}

async function changeMarker(name: string, change: Record<string, unknown>): Promise<void> {
  const marker = JSON.parse(await readFile(markerPath(name), 'utf8'))
  await writeFile(markerPath(name), JSON.stringify({ ...marker, ...change }))
}

test('two installations with one target do not remove the backups of each other', async () => {
  const own = await run()
  const other = await startService({ COFFER_BACKUP_TO: folder, COFFER_BACKUP_KEEP: '1 daily' })
  const foreign = await run(day, other)
  expect(await stored()).toEqual([own, foreign].toSorted().flatMap((name) => [name, `${name}.verified`]))
  const next = await run(2 * day)
  expect(await stored()).toEqual([foreign, next].toSorted().flatMap((name) => [name, `${name}.verified`]))
  await other.stop()
})

test.each([
  ['a changed time', { verifiedAt: 1 }],
  ['another digest', { sha256: '00' }],
  ['no digest any more', { sha256: null }],
  ['another size', { bytes: 1 }],
  ['a MAC of another length', { mac: '00' }],
  ['no MAC', { mac: null }],
])('a backup whose marker has %s stays, and is not counted', async (_what, change) => {
  const own = await run()
  if ('bytes' in change) await writeFile(join(folder, own), 'x')
  else await changeMarker(own, change)
  const next = await run(day + 1)
  expect(await stored()).toEqual([own, `${own}.verified`, next, `${next}.verified`])
})

test('a marker that was copied to another name, and a text that is no marker, count for nothing', async () => {
  const first = await run()
  const later = newBackupName(service.app.services.now() + 3 * day)
  await copyFile(join(folder, first), join(folder, later))
  await copyFile(markerPath(first), markerPath(later))
  const unmarked = newBackupName(0)
  const wrong = newBackupName(1_000)
  for (const name of [later, unmarked, wrong]) seen.add(name)
  for (const name of [unmarked, wrong, `${wrong}.verified`]) await writeFile(join(folder, name), '[')
  const next = await run(day + 1)
  expect(await stored()).toEqual(
    [next, `${next}.verified`, later, `${later}.verified`, unmarked, wrong, `${wrong}.verified`].toSorted(),
  )
})

test('a marker of 0.1.0, which signs no digest, still counts', async () => {
  const own = await run()
  const { bytes, verifiedAt } = JSON.parse(await readFile(markerPath(own), 'utf8'))
  const { keyring } = service.app.services.keys
  const { mac } = signRow(keyring.active, 'backup-marker', [own, bytes, verifiedAt])
  await changeMarker(own, { sha256: undefined, mac: Buffer.from(mac).toString('hex') })
  const next = await run(day + 1)
  expect(await stored()).toEqual([next, `${next}.verified`])
})

test('an own backup whose marker was signed by a root key that is retired is removed by the rule', async () => {
  const own = await run()
  await changeMarker(own, { macRootId: 'retired' })
  const next = await run(day + 1)
  expect(await stored()).toEqual([next, `${next}.verified`])
})

test.each(['another master key', 'the same master key'])(
  'a staged backup of an installation with %s is not stored',
  async (kind) => {
    const { config, now } = service.app.services
    const release = await holdBackups(service)
    const target = join(await tempFolder(), 'foreign')
    const key = kind === 'the same master key' ? { COFFER_MASTER_KEY_FILE: join(service.dataDir, 'master.key') } : {}
    const other = await startService({ COFFER_BACKUP_TO: target, ...key })
    await runBackup(other)
    const [made = ''] = await readdir(target)
    const foreign = newBackupName(now())
    await copyFile(join(target, made), (await openStaging(config)).pathOf(foreign))
    await release()
    const own = await run()
    expect(own).not.toBe(foreign)
    expect(await readFile(join(folder, own))).not.toEqual(await readFile(join(target, made)))
    await other.stop()
  },
)
