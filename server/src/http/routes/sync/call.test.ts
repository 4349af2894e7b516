/** Requests of a run to a vendor that reads before it writes: retries are limited, and none follow a pause. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { lastRun, pushDue, readSync, type SyncWorld, setUpSync, startSyncWorld } from '../../../../../test/sync.ts'
import { fakeVault } from '../../../../../test/vendor/fake/vault-kv.ts'
import { vaultKv } from '../../../providers/vault-kv.ts'

const debounceMs = 3_000
const tries = 5

/** Runs just before the vendor handles a write. */
let beforeWrite: (() => Promise<unknown>) | undefined
let world: SyncWorld & { stop(): Promise<void> }

beforeAll(async () => {
  const fake = fakeVault()
  const answer = fake.answer
  fake.answer = async (request) => {
    if (request.method !== 'GET') await beforeWrite?.()
    return answer(request)
  }
  world = await startSyncWorld(vaultKv, fake)
})
afterAll(() => world.stop())

beforeEach(async () => {
  const { project, running, fake, service } = world
  service.clock.offsetMs = 0
  beforeWrite = undefined
  running.injectFailure = undefined
  for (const { id } of await project.must<{ id: string }[]>('GET', '/sync')) await project.must('DELETE', `/sync/${id}`)
  for (const name of fake.state().keys()) fake.tamper(name, undefined)
  await project.set('development', { ALPHA: 'one' })
})

const methods = () => world.running.requests.map(({ method }) => method)
const refuseAll = (method: string, headers = {}) => {
  world.running.forget()
  world.running.injectFailure = (request) =>
    request.method === method ? { kind: 'answer', answer: { status: 500, headers } } : undefined
}

/** The read before an update; the provider reads once more for the version that it writes. */
const look = 'GET'

test('reading the target is retried a few times in a run, then in a later run', async () => {
  const id = await setUpSync(world)
  refuseAll('GET')
  expect(await pushDue(world)).toBe(1)
  expect(methods()).toEqual(Array(tries).fill('GET'))
  expect(await readSync(world, id)).toMatchObject({ state: 'failing', nextRunAt: expect.any(String) })
})

test.each([
  ['without Retry-After', {}],
  ['with a short Retry-After', { 'retry-after': '3' }],
])('a read before a write that fails %s has the same retry limit', async (_title, headers) => {
  const id = await setUpSync(world)
  await pushDue(world)
  await world.project.set('development', { ALPHA: 'two' })
  refuseAll('GET', headers)
  expect(await pushDue(world, debounceMs)).toBe(1)
  expect(methods()).toEqual(Array(tries).fill('GET'))
  expect(await readSync(world, id)).toMatchObject({ state: 'failing' })
})

test('a write has the same retry limit, with a fresh read before each attempt', async () => {
  const id = await setUpSync(world)
  await pushDue(world)
  await world.project.set('development', { ALPHA: 'two' })
  refuseAll('POST')
  expect(await pushDue(world, debounceMs)).toBe(1)
  expect(methods()).toEqual([look, ...Array(tries).fill(['GET', 'POST']).flat()])
  expect(await readSync(world, id)).toMatchObject({ state: 'failing' })
})

test('a run succeeds if its read succeeds within the retry limit', async () => {
  const id = await setUpSync(world)
  await pushDue(world)
  await world.project.set('development', { ALPHA: 'two' })
  world.running.forget()
  world.running.injectFailure = () =>
    world.running.requests.length < tries ? { kind: 'answer', answer: { status: 500 } } : undefined
  await pushDue(world, debounceMs)
  expect(methods()).toEqual([...Array(tries).fill(look), 'GET', 'POST'])
  expect(await lastRun(world, id)).toMatchObject({ trigger: 'change', state: 'succeeded' })
})

test('a run that keeps losing to other writers stops at the retry limit and continues in a later run', async () => {
  const id = await setUpSync(world)
  await pushDue(world)
  await world.project.set('development', { ALPHA: 'two' })
  world.running.forget()
  let changes = 0
  beforeWrite = async () => world.fake.tamper('OTHER', `value ${++changes}`)
  await pushDue(world, debounceMs)
  expect(methods()).toEqual([look, ...Array(tries).fill(['GET', 'POST']).flat()])
  expect(await readSync(world, id)).toMatchObject({ state: 'failing' })
})

test('a sync that is paused during a write conflict does not write again', async () => {
  const id = await setUpSync(world)
  await pushDue(world)
  await world.project.set('development', { ALPHA: 'two' })
  world.running.forget()
  beforeWrite = async () => {
    beforeWrite = undefined
    world.fake.tamper('OTHER', 'theirs')
    await world.project.must('POST', `/sync/${id}/pause`)
  }
  await pushDue(world, debounceMs)
  expect(methods()).toEqual([look, 'GET', 'POST'])
  expect(Object.fromEntries(world.fake.state())).toEqual({ ALPHA: 'one', OTHER: 'theirs' })
  expect(await readSync(world, id)).toMatchObject({ state: 'paused', lastError: null })
})
