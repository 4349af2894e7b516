import { tmpdir } from 'node:os'
import { dirname } from 'node:path'
import { expect, test } from 'vitest'
import { readConfig } from '../../config.ts'
import { openStaging } from './staging.ts'

async function folderOf(databaseUrl: string, dataDir = '/var/lib/example'): Promise<string> {
  const staging = await openStaging(readConfig({ COFFER_DATA_DIR: dataDir, COFFER_DATABASE_URL: databaseUrl }))
  await staging.remove()
  return staging.folder
}

test('on PostgreSQL each database and each data folder has its own staging folder', async () => {
  const folder = await folderOf('postgres://user:one@db.example.test/coffer')
  expect(dirname(folder)).toBe(tmpdir())
  const others = [
    await folderOf('postgres://user:one@other.example.test/coffer'),
    await folderOf('postgres://user:one@db.example.test:5433/coffer'),
    await folderOf('postgres://user:one@db.example.test/second'),
    await folderOf('postgres://user:one@db.example.test/coffer?host=/run/postgres'),
    await folderOf('postgres://user:one@db.example.test/coffer', '/var/lib/second'),
  ]
  expect(new Set([folder, ...others]).size).toBe(6)
})

test('the folder does not depend on the password, so that it reveals nothing of it', async () => {
  const folder = await folderOf('postgres://user:one@db.example.test/coffer')
  expect(await folderOf('postgres://user:two@db.example.test:5432/coffer')).toBe(folder)
})
