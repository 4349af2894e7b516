/** A move with an old backup is refused unless it is wished, and each restore says what comes back to life. */
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { runHere } from '../../../test/command.ts'
import { createDatabase, type Database } from '../../../test/harness.ts'
import { openBackupFile } from '../domain/backup/file.ts'

const fixture = join(import.meta.dirname, '../../../test/fixture/backup')
const old = join(fixture, 'old.backup')
let target: Database

beforeEach(async () => {
  target = await createDatabase()
  const { masterKey } = JSON.parse(await readFile(join(fixture, 'old.json'), 'utf8'))
  await writeFile(join(target.dataDir, 'master.key'), masterKey, { mode: 0o600 })
})
afterEach(async () => {
  vi.useRealTimers()
  await target.drop()
})

const restore = (...args: string[]) => runHere(['restore', ...args], target.settings)

async function setAge(minutes: number): Promise<void> {
  const { header, close } = await openBackupFile(old)
  await close()
  vi.useFakeTimers({ toFake: ['Date'], now: header.createdAt + minutes * 60_000 })
}

test('a move with a backup of more than an hour ago is refused before anything is made, and done if it is wished', async () => {
  await setAge(61)
  const refused = await restore('--move', old)
  expect(refused.code).toBe(1)
  expect(refused.err).toMatch(
    /^The backup is 61 minutes old, and --move would bring back sessions, tokens, shares and syncs/,
  )
  expect(await readdir(target.dataDir)).toEqual(['master.key'])
  const { code, out, err } = await restore('--move', '--even-if-old', old)
  expect(code, err).toBe(0)
  expect(out).toContain(
    'The backup is 61 minutes old: sessions, tokens, shares and syncs of then are alive, ended ones too.',
  )
})

test('a move with a newer backup is done, and says its age', async () => {
  await setAge(59)
  const { code, out, err } = await restore('--move', old)
  expect(code, err).toBe(0)
  expect(out).toContain('The backup is 59 minutes old: sessions, tokens, shares and syncs of then are alive')
})

test('a restore says that passwords, second factors and keys are as they were, and what to do after a leak', async () => {
  const { code, out } = await restore(old)
  expect(code).toBe(0)
  expect(out).toContain('Passwords, second factors, and root and signing keys are as they were')
  expect(out).toContain('run "keys rotate-root"')
})

test('--even-if-old without --move is refused', async () => {
  expect(await restore('--even-if-old', old)).toMatchObject({
    code: 1,
    err: expect.stringContaining('"restore" takes'),
  })
})
