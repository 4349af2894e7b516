/** Scheduled backups of a real process: made in a process of its own, and after a kill in the middle, made anew. */
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { tempFolder } from '../../../test/backup-target.ts'
import { createDatabase, registerOwner } from '../../../test/harness.ts'
import { serve } from '../../../test/process.ts'
import { runProgram } from '../../../test/start-server.ts'
import { tamper } from '../../../test/store.ts'
import { until } from '../../../test/wait.ts'
import { sql } from '../store/engine/sql.ts'

const listed = (folder: string) => readdir(folder).catch(() => [])

test('the service makes a verified backup beside its work, and again after a kill', async ({ onTestFinished }) => {
  const database = await createDatabase()
  onTestFinished(() => database.drop())
  const root = await tempFolder()
  const folder = join(root, 'backups')
  const settings = { ...database.settings, COFFER_BACKUP_TO: folder, TMPDIR: root }
  const first = await serve(settings)
  const isStaging = async () => {
    const places = [join(database.dataDir, 'backup-staging'), ...(await listed(root)).map((name) => join(root, name))]
    for (const place of places) if ((await listed(place)).some((name) => name.startsWith('coffer-2'))) return true
    return undefined
  }
  await until(isStaging, 120_000, 'the backup has begun')
  await first.destroy()
  const second = await serve(settings)
  onTestFinished(async () => {
    await second.stop()
  })
  const verified = async () => (await listed(folder)).find((name) => name.endsWith('.verified'))
  // The lease of the killed service ends after a minute.
  const marker = await until(verified, 400_000, 'a backup is verified and stored')
  const file = join(folder, marker.replace('.verified', ''))
  const { code, out } = await runProgram(['backup', 'verify', file], database.settings)
  expect([code, out]).toEqual([0, expect.stringContaining('  ok     ')])
  expect((await second.call('GET', '/readyz')).status).toBe(200)
})

test('the service logs why a backup could not be verified, and stores nothing', async ({ onTestFinished }) => {
  const database = await createDatabase()
  onTestFinished(() => database.drop())
  const first = await serve(database.settings)
  await registerOwner(first)
  await first.stop()
  await tamper(database.settings, (db) => db.count(sql`update member set role = 'viewer'`))
  const root = await tempFolder()
  const folder = join(root, 'backups')
  const second = await serve({ ...database.settings, COFFER_BACKUP_TO: folder, TMPDIR: root })
  onTestFinished(async () => {
    await second.stop()
  })
  const failed = () => second.messages().find((message) => message.startsWith('a backup failed'))
  expect(await until(failed, 400_000, 'a backup fails')).toMatch(
    /^a backup failed: The backup could not be verified, so it was not stored: Changed outside of Coffer: 1 memberships\./,
  )
  expect(await listed(folder)).toEqual([])
})
