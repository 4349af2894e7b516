/** The lease of a sync: one node runs it at a time, and neither a dead node nor a wrong clock stops it for good. */
import { spawnSync } from 'node:child_process'
import type { SyncRun } from '@coffer/contract/sync'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { engine } from '../../../../../test/harness.ts'
import { pushDue, readSync, resetSyncs, type SyncWorld, setUpSync, startSyncWorld } from '../../../../../test/sync.ts'
import { fakeHeroku } from '../../../../../test/vendor/fake/heroku.ts'
import { claimSync, runSync } from '../../../domain/sync/run/run.ts'
import { heroku } from '../../../providers/heroku.ts'
import { sql } from '../../../store/engine/sql.ts'

const debounceMs = 15_000
const leaseMs = 60_000

let world: SyncWorld & { stop(): Promise<void> }

beforeAll(async () => {
  world = await startSyncWorld(heroku, fakeHeroku())
})
afterAll(() => world.stop())
beforeEach(async () => {
  world.service.clock.offsetMs = 0
  await resetSyncs(world, { ALPHA: 'one', BETA: 'two' })
})

const state = () => Object.fromEntries(world.fake.state())
const runsOf = (id: string) => world.project.must<SyncRun[]>('GET', `/sync/${id}/run`)

test('a sync of a dead node waits for its lease to expire, even if a run is requested', async () => {
  const id = await setUpSync(world)
  const { services } = world.service.app
  const startedAt = services.now()
  expect(await claimSync(services)).toMatchObject({ id })
  await world.project.must('POST', `/sync/${id}/run`)
  expect(await pushDue(world, leaseMs - 5_000)).toBe(0)
  expect(await pushDue(world, 6_000)).toBe(1)
  expect(state()).toEqual({ ALPHA: 'one', BETA: 'two' })
  const [next, dead] = await runsOf(id)
  expect(next).toMatchObject({ trigger: 'manual', state: 'succeeded' })
  expect(dead).toMatchObject({
    state: 'interrupted',
    startedAt: new Date(startedAt).toISOString(),
    error: expect.stringMatching(/^The process that ran it ended without notice\./),
  })
})

test('a run that died shows as interrupted although its sync is paused', async () => {
  const id = await setUpSync(world)
  await claimSync(world.service.app.services)
  await world.project.must('POST', `/sync/${id}/pause`)
  expect(await pushDue(world, leaseMs + 1_000)).toBe(0)
  expect(await runsOf(id)).toMatchObject([{ state: 'interrupted' }])
})

test.each([
  ['of the same host', {}],
  ['in a container of another name', { host: 'the container before' }],
])('a restarted node does not wait for the lease of its predecessor %s', async (_title, changed) => {
  const id = await setUpSync(world)
  const { services } = world.service.app
  const died = await claimSync(services)
  if (!died) throw new Error('the sync is not due')
  // The claim of a process that has ended.
  const { pid } = spawnSync(process.execPath, ['--version'])
  const run = JSON.stringify({ ...died.run, pid, since: 0, ...changed })
  await services.engine.transaction('test', ({ db }) => db.count(sql`update sync set run = ${run} where id = ${id}`))
  const isHere = !('host' in changed) || engine === 'sqlite'
  const restarted = { ...services, startedAt: services.now() + 1 }
  expect((await claimSync(services))?.id).toBeUndefined()
  const next = await claimSync(restarted)
  expect(next?.id).toBe(isHere ? id : undefined)
  if (next) await runSync(restarted, next, new AbortController().signal)
  expect((await runsOf(id)).map((one) => one.state)).toEqual(isHere ? ['succeeded', 'interrupted'] : [])
  if (!isHere) expect(await pushDue(world, leaseMs + 1_000)).toBe(1)
})

test.each([
  ['fails', async () => void (await pushDue(world)), { status: 503, body: {} }],
  ['succeeds', async () => void (await pushDue(world)), undefined],
  ['is interrupted', async () => void (await claimSync(world.service.app.services)), undefined],
])('a run that %s while the clock is weeks ahead delays no run once the clock is right', async (_how, run, refusal) => {
  const id = await setUpSync(world)
  if (refusal) world.running.injectFailure = () => ({ kind: 'answer', answer: refusal })
  // Shorter than a session lasts: the cleanup uses the same clock and would delete the owner's session.
  world.service.clock.offsetMs = 20 * 24 * 60 * 60 * 1_000
  await run()
  world.service.clock.offsetMs = 0
  world.running.injectFailure = undefined
  expect(await pushDue(world)).toBe(1)
  expect(await readSync(world, id)).toMatchObject({ state: 'active' })
  expect(state()).toEqual({ ALPHA: 'one', BETA: 'two' })
  await world.project.set('development', { ALPHA: 'three' })
  expect(await pushDue(world, debounceMs)).toBe(1)
  expect(state()).toEqual({ ALPHA: 'three', BETA: 'two' })
})

test('a node whose lease has expired sends no request, and does not release the lease of its successor', async () => {
  const id = await setUpSync(world)
  const { services } = world.service.app
  const late = await claimSync(services)
  world.service.clock.offsetMs += leaseMs + 1_000
  const current = await claimSync(services)
  if (!late || !current) throw new Error('the sync is not due')
  world.running.forget()
  await runSync(services, late, new AbortController().signal)
  expect(world.running.requests).toEqual([])
  await world.project.must('POST', `/sync/${id}/run`)
  expect(await claimSync(services)).toBeUndefined()
  await runSync(services, current, new AbortController().signal)
  expect(await pushDue(world)).toBe(1)
  expect((await runsOf(id)).map(({ trigger, state }) => [trigger, state])).toEqual([
    ['manual', 'succeeded'],
    ['first', 'interrupted'],
    ['first', 'interrupted'],
  ])
})

test('a sync that is paused while it is being claimed is not run', async () => {
  const id = await setUpSync(world)
  const { services } = world.service.app
  const { claim } = await services.engine.transaction('test', async ({ db }) => {
    await db.count(sql`update sync set state = 'paused', due_at = null where id = ${id}`)
    const claim = claimSync(services)
    // Long enough for the claim to wait at the row.
    await new Promise((resolve) => setTimeout(resolve, 200))
    return { claim }
  })
  expect(await claim).toBeUndefined()
})

test('one of many concurrent claims of one sync succeeds', async () => {
  await setUpSync(world)
  const { services } = world.service.app
  const claims = await Promise.all(Array.from({ length: 10 }, () => claimSync(services)))
  expect(claims.filter((claim) => claim !== undefined)).toHaveLength(1)
})
