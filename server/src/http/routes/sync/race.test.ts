/** Concurrent edits and runs of one sync: no edit is lost, and no foreign entry is changed. */
import type { SyncRun, SyncRunDetail } from '@coffer/contract/sync'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import {
  flowPath,
  lastRun,
  pushDue,
  readStep,
  readSync,
  resetSyncs,
  type SyncWorld,
  setUpSync,
  startSetup,
  startSyncWorld,
  submitStep,
} from '../../../../../test/sync.ts'
import { fakeHeroku } from '../../../../../test/vendor/fake/heroku.ts'
import type { FakeAnswer, FakeRequest } from '../../../../../test/vendor/fake.ts'
import { claimSync, runSync } from '../../../domain/sync/run/run.ts'
import { heroku } from '../../../providers/heroku.ts'

const debounceMs = 15_000

/** A second app at the vendor, and a hook that runs while the vendor handles a request. */
const staging = new Map<string, string>()
let during: ((request: FakeRequest) => Promise<FakeAnswer | undefined>) | undefined
let world: SyncWorld & { stop(): Promise<void> }

beforeAll(async () => {
  const fake = fakeHeroku()
  const answer = fake.answer
  fake.answer = async (request) => {
    const refusal = await during?.(request)
    if (refusal) return refusal
    if (request.path !== '/apps/shop-staging/config-vars') return answer(request)
    for (const [name, value] of Object.entries((request.json ?? {}) as Record<string, string | null>)) {
      if (value === null) staging.delete(name)
      else staging.set(name, value)
    }
    return { status: 200, body: Object.fromEntries(staging) }
  }
  world = await startSyncWorld(heroku, fake)
})
afterAll(() => world.stop())

const state = () => Object.fromEntries(world.fake.state())
const development = () => world.project.idOf('development')

beforeEach(async () => {
  during = undefined
  staging.clear()
  world.service.clock.offsetMs = 0
  await resetSyncs(world, { ALPHA: 'one', BETA: 'two' })
})

/** Runs `act` once, during the first request of that method, which then gets `refusal` if one is given. */
function onceDuring(method: string, act: () => Promise<unknown>, refusal?: FakeAnswer): void {
  during = async (request) => {
    if (request.method !== method) return undefined
    during = undefined
    await act()
    return refusal
  }
}

const runsOf = (id: string) => world.project.must<SyncRun[]>('GET', `/sync/${id}/run`)
const writes = () => world.running.requests.filter(({ method }) => method === 'PATCH')

async function confirm(id: string): Promise<void> {
  const { fields } = await readStep(world, id, 'review')
  const word = fields.find((field) => field.id === 'confirm')
  const answer = await submitStep(world, id, 'review', {
    confirm: (word?.type === 'input' && word.data.defaultValue) || '',
  })
  expect(answer.status, answer.text).toBe(200)
}

test('a target chosen during a run gets a first push of its own, and foreign entries there are not adopted', async () => {
  staging.set('ALPHA', 'foreign')
  const id = await setUpSync(world)
  onceDuring('PATCH', async () => {
    await submitStep(world, id, 'target', { app: 'shop-staging' })
    await submitStep(world, id, 'mapping', { environment: development() })
    await confirm(id)
  })
  await pushDue(world)
  expect(Object.fromEntries(staging)).toEqual({ ALPHA: 'foreign', BETA: 'two' })
  expect(await readSync(world, id)).toMatchObject({ state: 'active', target: 'shop-staging' })
  expect(await runsOf(id)).toMatchObject([
    { trigger: 'first', state: 'partial', counts: { created: 1, conflicts: 1 } },
    { trigger: 'first', state: 'interrupted', counts: { created: 2 } },
  ])
})

test('a run requested during a run starts right after it, and both are recorded', async () => {
  const id = await setUpSync(world)
  await pushDue(world)
  await world.project.set('development', { ALPHA: 'new' })
  onceDuring('PATCH', async () => {
    world.fake.tamper('BETA', 'tampered')
    await world.project.must('POST', `/sync/${id}/run`)
  })
  expect(await pushDue(world, debounceMs)).toBe(2)
  expect(state()).toEqual({ ALPHA: 'new', BETA: 'two' })
  const [asked, first] = await runsOf(id)
  expect([asked, first]).toMatchObject([
    { trigger: 'manual', state: 'succeeded', error: null },
    { trigger: 'change', state: 'interrupted', error: null, counts: { updated: 1, unchanged: 1 } },
  ])
  const { items } = await world.project.must<SyncRunDetail>('GET', `/sync/${id}/run/${first?.id}`)
  expect(items).toEqual([{ name: 'ALPHA', outcome: 'updated', message: null }])
})

test('a removal requested during a run starts right after it, and deletes only the pushed entries', async () => {
  world.fake.tamper('OTHER', 'foreign')
  const id = await setUpSync(world)
  onceDuring('PATCH', () => world.project.must('DELETE', `/sync/${id}?remove=true`))
  expect(await pushDue(world)).toBe(2)
  expect(state()).toEqual({ OTHER: 'foreign' })
  expect((await world.project.ask('GET', `/sync/${id}`)).status).toBe(404)
})

test('pausing during a run prevents further writes and records the partial run; resuming completes it', async () => {
  const id = await setUpSync(world)
  onceDuring('PATCH', () => world.project.must('POST', `/sync/${id}/pause`), { status: 500 })
  world.running.forget()
  await pushDue(world)
  expect(writes()).toHaveLength(1)
  expect(state()).toEqual({})
  const [run] = await runsOf(id)
  expect(run).toMatchObject({ trigger: 'first', state: 'interrupted', error: null, counts: { created: 0, failed: 2 } })
  const paused = await readSync(world, id)
  expect(paused).toMatchObject({ state: 'paused', lastError: null, lastRunAt: run?.endedAt })
  await world.project.must('POST', `/sync/${id}/resume`)
  expect(await pushDue(world)).toBe(1)
  expect(state()).toEqual({ ALPHA: 'one', BETA: 'two' })
  expect((await runsOf(id)).map(({ trigger }) => trigger)).toEqual(['resume', 'first'])
})

test('deleting a sync during a run prevents further writes, and leaves nothing behind', async () => {
  const id = await setUpSync(world)
  onceDuring('PATCH', () => world.project.must('DELETE', `/sync/${id}`), { status: 500 })
  world.running.forget()
  await pushDue(world)
  expect(writes()).toHaveLength(1)
  expect(state()).toEqual({})
  expect((await world.project.ask('GET', `/sync/${id}`)).status).toBe(404)
})

test('fixing the source during the run that it blocks unblocks the sync', async () => {
  const id = await setUpSync(world)
  await pushDue(world)
  await world.project.set('development', { GAMMA: 'three', HEROKU_X: 'not allowed' })
  onceDuring('GET', () => world.project.remove('development', 'HEROKU_X'))
  await pushDue(world, debounceMs)
  await pushDue(world, debounceMs)
  expect(await readSync(world, id)).toMatchObject({ state: 'active', lastError: null })
  expect(state()).toEqual({ ALPHA: 'one', BETA: 'two', GAMMA: 'three' })
})

test('a new reference is pushed with its current value, although the value changes while the target is read', async () => {
  await setUpSync(world)
  await pushDue(world)
  await world.project.set('staging', { HOST: 'old' })
  await world.project.set('development', { GAMMA: `\${staging.HOST}` })
  onceDuring('GET', () => world.project.set('staging', { HOST: 'new' }))
  await pushDue(world, debounceMs)
  await pushDue(world, debounceMs)
  expect(state()).toEqual({ ALPHA: 'one', BETA: 'two', GAMMA: 'new' })
})

test('renaming a referenced environment during a run is noticed', async () => {
  const { project } = world
  const rename = (name: string) => project.must('PUT', `/environment/${project.idOf('staging')}`, { name })
  await project.set('staging', { HOST: 'near' })
  await project.set('development', { GAMMA: `\${staging.HOST}` })
  const id = await setUpSync(world)
  onceDuring('PATCH', () => rename('elsewhere'))
  await pushDue(world)
  await pushDue(world, debounceMs)
  expect(await readSync(world, id)).toMatchObject({ state: 'blocked' })
  await rename('staging')
  await pushDue(world, debounceMs)
  expect(await readSync(world, id)).toMatchObject({ state: 'active', lastError: null })
})

test('a sync that is paused while its source is faulty stays paused, whatever changes', async () => {
  world.fake.refusedNames.add('BETA')
  const id = await setUpSync(world)
  await pushDue(world)
  expect(await readSync(world, id)).toMatchObject({ state: 'blocked' })
  await world.project.must('POST', `/sync/${id}/pause`)
  await world.project.set('development', { ALPHA: 'later' })
  expect(await pushDue(world, debounceMs)).toBe(0)
  expect(state()).toEqual({ ALPHA: 'one' })
})

test('a change does not cause a retry sooner than the vendor allows', async () => {
  await setUpSync(world)
  await pushDue(world)
  await world.project.set('development', { ALPHA: 'new' })
  let seconds = 150
  world.running.injectFailure = () => ({
    kind: 'answer',
    answer: { status: 429, headers: { 'retry-after': String(seconds) } },
  })
  await pushDue(world, debounceMs)
  seconds = 10
  await pushDue(world, 151_000)
  world.running.injectFailure = undefined
  world.running.forget()
  await world.project.set('development', { BETA: 'new' })
  await pushDue(world, 8_000)
  expect(world.running.requests).toEqual([])
  await pushDue(world, debounceMs)
  expect(state()).toEqual({ ALPHA: 'new', BETA: 'new' })
})

test('a shutdown interrupts a run without an error, and the next run continues it', async () => {
  const id = await setUpSync(world)
  const { services } = world.service.app
  const stopping = new AbortController()
  onceDuring('PATCH', async () => stopping.abort())
  const sync = await claimSync(services)
  if (!sync) throw new Error('the sync is not due')
  await runSync(services, sync, stopping.signal)
  expect(await readSync(world, id)).toMatchObject({ state: 'active', lastError: null })
  expect(await lastRun(world, id)).toMatchObject({ trigger: 'first', state: 'interrupted', error: null })
  await pushDue(world)
  expect(state()).toEqual({ ALPHA: 'one', BETA: 'two' })
  expect(await lastRun(world, id)).toMatchObject({ trigger: 'first', state: 'succeeded', attempts: 1 })
})

test('an endless list of the vendor ends with a clear error', async () => {
  const id = await startSetup(world)
  await submitStep(world, id, 'auth', world.fake.credential)
  const body = [{ id: 'a', name: 'a'.repeat(1_900_000) }]
  const answer = { status: 206, headers: { 'next-range': 'name ]a..; max=1' }, body }
  world.running.injectFailure = () => ({ kind: 'answer', answer })
  const path = flowPath('heroku', id, 'target')
  const asked = await world.service.call<{ message: string }>('GET', path, { token: world.owner.session })
  expect([asked.status, asked.body.message]).toEqual([503, expect.stringMatching(/its lists may be endless/)])
})

test('deletes that were shown in a confirmed review need no second confirmation', async () => {
  const many = Object.fromEntries(Array.from({ length: 12 }, (_, index) => [`KEY_${index}`, 'x']))
  await world.project.set('development', many)
  const id = await setUpSync(world)
  await pushDue(world)
  await submitStep(world, id, 'mapping', { environment: development(), include: 'ALPHA' })
  await confirm(id)
  await pushDue(world)
  expect(state()).toEqual({ ALPHA: 'one' })
  expect(await readSync(world, id)).toMatchObject({ state: 'active' })
})

test('two syncs with one credential run one after the other if the vendor requires it', async () => {
  await setUpSync(world, { include: 'ALPHA' }, 'development', 'First')
  await setUpSync(world, { include: 'BETA' }, 'development', 'Second')
  const { services } = world.service.app
  const first = await claimSync(services)
  if (!first) throw new Error('no sync is due')
  expect(await claimSync(services)).toBeUndefined()
  await runSync(services, first, new AbortController().signal)
  const second = await claimSync(services)
  expect(second?.id).not.toBe(first.id)
  if (second) await runSync(services, second, new AbortController().signal)
  expect(state()).toEqual({ ALPHA: 'one', BETA: 'two' })
})

test('the metrics show how long a change has waited, and how runs ended', async () => {
  const read = async (name: string) => {
    const text = await world.service.app.metrics.render()
    return Number(
      text
        .split('\n')
        .find((line) => line.startsWith(`${name} `))
        ?.split(' ')[1],
    )
  }
  await setUpSync(world)
  await pushDue(world)
  const runs = await read('coffer_sync_runs_total{state="succeeded"}')
  const calls = await read('coffer_sync_calls_total')
  expect(await read('coffer_sync_lag_seconds')).toBe(0)
  await world.project.set('development', { ALPHA: 'two' })
  world.service.clock.offsetMs += 10_000
  expect(Math.floor(await read('coffer_sync_lag_seconds'))).toBe(10)
  await pushDue(world, debounceMs)
  expect(await read('coffer_sync_lag_seconds')).toBe(0)
  expect(await read('coffer_sync_runs_total{state="succeeded"}')).toBe(runs + 1)
  // One read, one write.
  expect(await read('coffer_sync_calls_total')).toBe(calls + 2)
})
