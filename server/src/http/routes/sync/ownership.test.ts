/** A sync changes and deletes only its own entries at the target, and waits for a person before it deletes many. */
import type { SyncPlan } from '@coffer/contract/sync'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import {
  lastRun,
  pushDue,
  readSync,
  resetSyncs,
  type SyncWorld,
  setUpSync,
  startSyncWorld,
} from '../../../../../test/sync.ts'
import { fakeHeroku } from '../../../../../test/vendor/fake/heroku.ts'
import { heroku } from '../../../providers/heroku.ts'

const hourMs = 3_600_000
const debounceMs = 15_000

let world: SyncWorld & { stop(): Promise<void> }
beforeAll(async () => {
  world = await startSyncWorld(heroku, fakeHeroku())
})
afterAll(() => world.stop())
beforeEach(() => resetSyncs(world))

const state = () => Object.fromEntries(world.fake.state())
const setUp = (mapping = {}) => setUpSync(world, mapping)

describe('an entry that the sync has not created', () => {
  test('is reported and left unchanged, under a pushed name or any other', async () => {
    world.fake.tamper('BETA', 'foreign')
    world.fake.tamper('OTHER', 'foreign too')
    const id = await setUp()
    await pushDue(world)
    expect(state()).toEqual({ ALPHA: 'one', BETA: 'foreign', GAMMA: 'three', OTHER: 'foreign too' })
    expect(await readSync(world, id)).toMatchObject({
      state: 'active',
      lastError: expect.stringMatching(/^Not changed at the target.*BETA/),
    })
    expect(await lastRun(world, id)).toMatchObject({ state: 'partial', counts: { created: 2, conflicts: 1 } })
    await world.project.remove('development', 'BETA')
    await world.project.remove('development', 'ALPHA')
    await pushDue(world, debounceMs)
    expect(state()).toEqual({ BETA: 'foreign', GAMMA: 'three', OTHER: 'foreign too' })
  })

  test('is adopted with onExisting=adopt, and stays when the sync releases it', async () => {
    world.fake.tamper('BETA', 'foreign')
    const id = await setUp({ onExisting: 'adopt' })
    await pushDue(world)
    expect(state()).toEqual({ ALPHA: 'one', BETA: 'two', GAMMA: 'three' })
    expect((await lastRun(world, id)).items).toContainEqual({ name: 'BETA', outcome: 'adopted', message: null })
    await world.project.remove('development', 'BETA')
    await pushDue(world, debounceMs)
    expect(state()).toEqual({ ALPHA: 'one', BETA: 'two', GAMMA: 'three' })
    await world.project.must('DELETE', `/sync/${id}?remove=true`)
    await pushDue(world)
    expect(state()).toEqual({ BETA: 'two' })
  })

  test('belongs to the sync once someone deleted it and the sync re-created it', async () => {
    world.fake.tamper('BETA', 'foreign')
    const id = await setUp({ onExisting: 'adopt', drift: 'repair' })
    await pushDue(world)
    world.fake.tamper('BETA', undefined)
    await world.project.must('POST', `/sync/${id}/run`)
    await pushDue(world)
    expect(state().BETA).toBe('two')
    await world.project.must('DELETE', `/sync/${id}?remove=true`)
    await pushDue(world)
    expect(state()).toEqual({})
  })

  test('is skipped with onExisting=skip', async () => {
    world.fake.tamper('BETA', 'foreign')
    const id = await setUp({ onExisting: 'skip' })
    await pushDue(world)
    expect(state().BETA).toBe('foreign')
    expect(await lastRun(world, id)).toMatchObject({ state: 'succeeded' })
  })

  test('is never adopted from another sync', async () => {
    await setUpSync(world, { include: 'ALPHA' }, 'development', 'First')
    await pushDue(world)
    await world.project.set('staging', { ALPHA: 'of staging' })
    const second = await setUpSync(world, { include: 'ALPHA', onExisting: 'adopt' }, 'staging', 'Second')
    await pushDue(world)
    expect(state()).toEqual({ ALPHA: 'one' })
    expect((await lastRun(world, second)).items).toEqual([
      { name: 'ALPHA', outcome: 'conflict', message: 'is already written by another sync.' },
    ])
  })
})

describe('drift', () => {
  const scan = () => pushDue(world, 8 * hourMs)
  /** Sessions expire before the clock gets this far. */
  const resetClock = async () => {
    world.service.clock.offsetMs = 0
  }

  test('is found by a scan and reported; a manual run resets it', async () => {
    const id = await setUp()
    await pushDue(world)
    world.fake.tamper('ALPHA', 'tampered')
    world.fake.tamper('BETA', undefined)
    await scan()
    expect(state()).toEqual({ ALPHA: 'tampered', GAMMA: 'three' })
    expect(await lastRun(world, id)).toMatchObject({
      trigger: 'drift',
      items: [
        { name: 'ALPHA', outcome: 'drifted' },
        { name: 'BETA', outcome: 'drifted' },
      ],
    })
    await world.project.must('POST', `/sync/${id}/run`)
    await pushDue(world)
    expect(state()).toEqual({ ALPHA: 'one', BETA: 'two', GAMMA: 'three' })
    await resetClock()
  })

  test('is reset automatically with drift=repair', async () => {
    await setUp({ drift: 'repair' })
    await pushDue(world)
    world.fake.tamper('ALPHA', 'tampered')
    await scan()
    expect(state().ALPHA).toBe('one')
    await resetClock()
  })

  test('keeps an entry that someone else changed from being deleted with its secret', async () => {
    await setUp()
    await pushDue(world)
    world.fake.tamper('ALPHA', 'now theirs')
    await world.project.remove('development', 'ALPHA')
    await pushDue(world, debounceMs)
    expect(state().ALPHA).toBe('now theirs')
  })
})

describe('many deletes at once', () => {
  test('wait until a person resumes the sync; a manual run is not enough', async () => {
    const values = Object.fromEntries(Array.from({ length: 12 }, (_, index) => [`KEY_${index}`, 'x']))
    await world.project.set('development', values)
    const id = await setUp()
    await pushDue(world)
    expect(Object.keys(state())).toHaveLength(15)
    for (const key of Object.keys(values)) await world.project.remove('development', key)
    await pushDue(world, debounceMs)
    expect(Object.keys(state())).toHaveLength(15)
    expect(await readSync(world, id)).toMatchObject({
      state: 'blocked',
      lastError: expect.stringMatching(/^This run would delete 12 of 15 entries at the target, so nothing was done\./),
    })
    const plan = await world.project.must<SyncPlan>('POST', `/sync/${id}/plan`)
    expect([plan.delete.length, plan.unchanged.length]).toEqual([12, 3])
    await world.project.must('POST', `/sync/${id}/run`)
    await pushDue(world)
    expect(Object.keys(state())).toHaveLength(15)
    await world.project.must('POST', `/sync/${id}/resume`)
    await pushDue(world)
    expect(state()).toEqual({ ALPHA: 'one', BETA: 'two', GAMMA: 'three' })
  })

  test.each(['fail', 'skip'])('wait too if only a foreign name is still wanted (onExisting=%s)', async (onExisting) => {
    const id = await setUp({ onExisting })
    await pushDue(world)
    world.fake.tamper('OTHER', 'foreign')
    await world.project.set('development', { OTHER: 'ours' })
    for (const key of ['ALPHA', 'BETA', 'GAMMA']) await world.project.remove('development', key)
    await pushDue(world, debounceMs)
    const before = { ALPHA: 'one', BETA: 'two', GAMMA: 'three', OTHER: 'foreign' }
    expect(state()).toEqual(before)
    expect(await readSync(world, id)).toMatchObject({
      state: 'blocked',
      lastError: expect.stringMatching(/^This run would delete 3 of 3 entries at the target, so nothing was done\./),
    })
    await world.project.must('POST', `/sync/${id}/resume`)
    await pushDue(world)
    expect(state()).toEqual({ OTHER: 'foreign' })
  })
})
