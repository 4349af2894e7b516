/**
 * A pushing process is killed at any of its calls, before or after the call took effect; the next process completes the
 * push.
 */
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { SyncRun } from '@coffer/contract/sync'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { engine, openService, registerOwner, startService, type TestService } from '../../../../../test/harness.ts'
import { loopbackAllowed } from '../../../../../test/issuer.ts'
import { type Program, startNode } from '../../../../../test/program.ts'
import { createSecretProject } from '../../../../../test/secret-project.ts'
import { pushDue, readSync, type SyncWorld, setUpSync } from '../../../../../test/sync.ts'
import { times } from '../../../../../test/tier.ts'
import { fakeGitLab } from '../../../../../test/vendor/fake/gitlab-ci.ts'
import { type RunningFake, startFake } from '../../../../../test/vendor/fake.ts'
import { until } from '../../../../../test/wait.ts'
import { gitlabCi } from '../../../providers/gitlab-ci.ts'

const leaseMs = 61_000
const foreign = ['SOMEBODY_ELSES', 'untouched'] as const

let service: TestService
let running: RunningFake
let world: SyncWorld
let id: string

beforeAll(async () => {
  running = await startFake(fakeGitLab(), { plain: true })
  service = await startService({ ...loopbackAllowed, COFFER_SYNC: 'off' })
  const owner = await registerOwner(service)
  const project = await createSecretProject(service, owner.session)
  const { fake } = running
  const here = { ...fake, credential: { ...fake.credential, baseUrl: running.url } }
  world = { service, owner, project, running, fake: here, provider: gitlabCi, slug: 'gitlab-ci' }
  fake.tamper(...foreign)
  await project.set('development', { ALPHA: 'first value' })
  id = await setUpSync(world)
  await pushDue(world)
})
afterAll(async () => {
  await service.stop()
  await running.close()
})

/** Starts a process that pushes all due syncs, with its clock moved forward. */
function startPushing(laterMs: number): Program {
  const at = (name: string) => JSON.stringify(pathToFileURL(join(import.meta.dirname, '../../..', name)).href)
  const script = `
    import { createServices } from ${at('app.ts')}
    import { readConfig } from ${at('config.ts')}
    import { createLog } from ${at('log.ts')}
    import { claimSync, runSync } from ${at('domain/sync/run/run.ts')}
    const now = () => Date.now() + ${laterMs}
    const services = await createServices(readConfig(${JSON.stringify(service.settings)}), createLog('silent'), now)
    for (let sync = await claimSync(services); sync; sync = await claimSync(services)) {
      await runSync(services, sync, new AbortController().signal)
    }
    process.exit(0)`
  return startNode(['--input-type=module-typescript', '--eval', script])
}

const state = () => Object.fromEntries(running.fake.state())

test('a node that starts after a kill -9 continues at once, and the killed run shows as interrupted', async () => {
  await world.project.set('development', { ALPHA: 'value before the kill' })
  await world.project.must('POST', `/sync/${id}/run`)
  const program = startPushing(0)
  running.injectFailure = () => {
    program.kill('SIGKILL')
    return { kind: 'drop', after: false }
  }
  await program.ended
  running.injectFailure = undefined
  const restarted = await openService({ ...service.settings }, service.dataDir)
  // PostgreSQL may still hold the locks of the killed process for a moment.
  const push = async () => (await pushDue({ service: restarted })) || undefined
  expect(await until(push, 30_000, 'the sync is claimed anew')).toBe(1)
  await restarted.stop()
  expect(state()).toMatchObject({ ALPHA: 'value before the kill' })
  const runs = await world.project.must<SyncRun[]>('GET', `/sync/${id}/run?limit=2`)
  expect(runs.map((run) => [run.trigger, run.state])).toEqual([
    ['manual', 'succeeded'],
    ['manual', 'interrupted'],
  ])
})

test('kill -9 at any call of a push loses nothing, duplicates nothing and changes no foreign entry', {
  timeout: 900_000,
}, async () => {
  const kills = engine === 'sqlite' ? times(4, 16) : times(3, 8)
  let killed = 0
  let killedAt = 0
  for (let call = 1; call <= kills; call++) {
    const round = Object.fromEntries(Array.from({ length: 4 }, (_, index) => [`KEY_${call}_${index}`, `value ${call}`]))
    await world.project.set('development', { ...round, ALPHA: `value ${call}` })
    if (call > 2) await world.project.remove('development', `KEY_${call - 1}_0`)
    service.clock.offsetMs += leaseMs
    let seen = 0
    const program = startPushing(service.clock.offsetMs)
    running.injectFailure = () => {
      if (++seen !== 1 + (call % 7)) return undefined
      killed++
      killedAt = Date.now()
      program.kill('SIGKILL')
      return { kind: 'drop', after: call % 2 === 0 }
    }
    await program.ended
    running.injectFailure = undefined
    // The sync stays claimed until its lease expires.
    const early = await openService({ ...service.settings }, service.dataDir)
    // However long its start took.
    Object.assign(early.clock, { offsetMs: service.clock.offsetMs, fixedAt: killedAt })
    if (seen > call % 7) expect(await pushDue({ service: early })).toBe(0)
    await early.stop()
  }
  expect(killed).toBeGreaterThan(kills / 2)
  await pushDue(world, leaseMs)
  await pushDue(world, leaseMs)
  const secrets = await world.project.state('development')
  expect(state()).toEqual({ ...secrets, [foreign[0]]: foreign[1] })
  expect(await readSync(world, id)).toMatchObject({ state: 'active', lastError: null })
  expect(running.fake.violations).toEqual([])
})

test('only one of two nodes that push concurrently runs a sync at a time', async () => {
  const other = await openService({ ...service.settings }, service.dataDir)
  try {
    for (let round = 0; round < times(3, 6); round++) {
      await world.project.set('development', { ALPHA: `together ${round}` })
      service.clock.offsetMs += leaseMs
      other.clock.offsetMs = service.clock.offsetMs
      running.forget()
      const runs = await Promise.all([pushDue({ service }), pushDue({ service: other })])
      expect(runs[0] + runs[1]).toBe(1)
      expect(running.requests.filter(({ method }) => method !== 'GET')).toHaveLength(1)
      expect(state().ALPHA).toBe(`together ${round}`)
    }
  } finally {
    await other.stop()
  }
})
