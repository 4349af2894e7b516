/** kill -9 at every stage of backup, verification and restore: nothing half done is taken for whole. */
import { existsSync } from 'node:fs'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { runHere } from '../../../test/command.ts'
import type { TestService } from '../../../test/harness.ts'
import { createDatabase, createToken, openService, registerOwner, startService } from '../../../test/harness.ts'
import { type Ended, startNode } from '../../../test/program.ts'
import { createSecretProject } from '../../../test/secret-project.ts'
import { openEngine } from '../../../test/store.ts'
import { times } from '../../../test/tier.ts'
import { flushUsage } from '../jobs/usage.ts'
import { restoringStep, steps } from '../store/migrate.ts'

const root = join(import.meta.dirname, '../../..')
const kills = times(4, 8)

let service: TestService
let settings: Record<string, string>
let file: string
let digest: string | undefined

beforeAll(async () => {
  service = await startService()
  const { COFFER_DATABASE_URL: url, COFFER_DATA_DIR: dataDir = '' } = service.settings
  settings = { COFFER_DATA_DIR: dataDir, ...(url === undefined ? {} : { COFFER_DATABASE_URL: url }) }
  const owner = await registerOwner(service)
  await createToken(service, owner.session)
  const project = await createSecretProject(service, owner.session)
  await project.set('development', { ALPHA: 'one', BETA: 'two' })
  await flushUsage(service.app.services)
  file = join(service.dataDir, 'whole.backup')
  const { out } = await runHere(['backup', file], settings)
  digest = /digest ([0-9a-f]{64})/.exec(out)?.[1]
  expect(digest).toBeDefined()
})
afterAll(() => service.stop())

const preload = join(root, 'test/kill-at-call.ts')
const runKilled = (given: Record<string, string>, killAt: number, ...args: string[]): Promise<Ended> =>
  startNode(['--import', preload, join(root, 'server/src/main.ts'), ...args], {
    ...given,
    TMPDIR: service.dataDir,
    ...(killAt > 0 && { KILL_AT: String(killAt) }),
  }).ended

/** Calls at even distances over the whole command, the first and the last included. */
async function stagesOf(given: Record<string, string>, ...args: string[]): Promise<number[]> {
  const { code, err } = await runKilled(given, 0, ...args)
  expect(code, err).toBe(0)
  const calls = Number(/calls: (\d+)/.exec(err)?.[1])
  expect(calls).toBeGreaterThan(kills)
  return Array.from({ length: kills }, (_, index) => 1 + Math.round((index * (calls - 1)) / (kills - 1)))
}

const leftovers = async () =>
  (await readdir(service.dataDir)).filter((name) => /^coffer-(backup|verify)-|\.part$|\.unverified$/.test(name))

test('a killed backup leaves no file that is taken for one, and the next run clears up', async () => {
  const name = (at: number) => join(service.dataDir, `${at}.backup`)
  for (const at of await stagesOf(settings, 'backup', name(0))) {
    const { signal } = await runKilled(settings, at, 'backup', name(at))
    expect(signal, `call ${at}`).toBe('SIGKILL')
    if (existsSync(name(at))) expect((await runHere(['backup', 'verify', name(at)], settings)).code).toBe(0)
    else expect((await runHere(['backup', name(at)], { ...settings, TMPDIR: service.dataDir })).code).toBe(0)
  }
  await runKilled(settings, 0, 'backup', name(-1))
  expect(await leftovers()).toEqual([])
})

test('a killed verification changes nothing, and the next run removes its scratch store', async () => {
  const before = await readFile(file)
  for (const at of await stagesOf(settings, 'backup', 'verify', file)) {
    expect((await runKilled(settings, at, 'backup', 'verify', file)).signal, `call ${at}`).toBe('SIGKILL')
  }
  expect((await runKilled(settings, 0, 'backup', 'verify', file)).code).toBe(0)
  expect(await leftovers()).toEqual([])
  expect((await readFile(file)).equals(before)).toBe(true)
})

test('the service refuses a store whose restore was killed, and the restore starts over', async () => {
  const makeTarget = async () => {
    const target = await createDatabase()
    const key = await readFile(join(service.dataDir, 'master.key'))
    await writeFile(join(target.dataDir, 'master.key'), key, { mode: 0o600 })
    return target
  }
  const whole = await makeTarget()
  const stages = await stagesOf(whole.settings, 'restore', '--move', file)
  await whole.drop()
  const seen = new Set<string>()
  for (const at of stages) {
    const target = await makeTarget()
    const { signal } = await runKilled(target.settings, at, 'restore', '--move', file)
    expect(signal, `call ${at}`).toBe('SIGKILL')
    const state = await stateOf(target.settings)
    seen.add(state)
    if (state === 'interrupted') {
      await expect(openService(target.settings, target.dataDir)).rejects.toThrow(
        'A restore into this store was interrupted',
      )
    }
    const again = await runHere(['restore', '--move', file], target.settings)
    expect(again.code, `call ${at}: ${again.err}`).toBe(state === 'complete' ? 1 : 0)
    if (state === 'complete') expect(again.err).toContain('The store is not empty')
    const copy = join(target.dataDir, 'again.backup')
    expect((await runHere(['backup', '--scratch', tmpdir(), copy], target.settings)).out).toContain(`digest ${digest}`)
    await target.drop()
  }
  expect(seen).toContain('interrupted')
})

async function stateOf(given: Record<string, string>): Promise<'empty' | 'interrupted' | 'complete'> {
  const engine = openEngine(given)
  try {
    const applied = await engine.migratedSteps()
    if (applied === restoringStep) return 'interrupted'
    return applied === steps.length ? 'complete' : 'empty'
  } finally {
    await engine.close()
  }
}
