/** A Parameter Store that ignores the filter by tag: foreign parameters look like ours in lists. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import {
  lastRun,
  pushDue,
  readSync,
  resetSyncs,
  type SyncWorld,
  setUpSync,
  startSyncWorld,
} from '../../../../../test/sync.ts'
import { fakeSsm } from '../../../../../test/vendor/fake/aws-ssm.ts'
import { awsSsm } from '../../../providers/aws-ssm.ts'

const quietMs = 4_000

let world: SyncWorld & { stop(): Promise<void> }
beforeAll(async () => {
  world = await startSyncWorld(awsSsm, fakeSsm({ filtersTags: false }))
})
afterAll(() => world.stop())
beforeEach(() => resetSyncs(world))

const state = () => Object.fromEntries(world.fake.state())

/** A parameter as Coffer writes it, but without tags. */
function plant(name: string): void {
  const fake = world.fake as ReturnType<typeof fakeSsm>
  fake.tamper(name, 'foreign')
  const parameter = fake.parameter(`/shop/production/${name}`)
  if (parameter) Object.assign(parameter, { type: 'SecureString', tags: [] })
}

test('a foreign parameter with a wanted name is reported and stays', async () => {
  plant('BETA')
  const id = await setUpSync(world)
  await pushDue(world)
  expect(state()).toEqual({ ALPHA: 'one', BETA: 'foreign', GAMMA: 'three' })
  expect((await lastRun(world, id)).items).toContainEqual({
    name: 'BETA',
    outcome: 'failed',
    message: expect.stringMatching(/A parameter with this name already exists and does not belong to this sync\./),
  })
  expect((await readSync(world, id)).lastError).toMatch(/^BETA: /)
})

test('a foreign parameter in place of ours is not deleted, neither with its secret nor with the sync', async () => {
  const id = await setUpSync(world)
  await pushDue(world)
  for (const name of ['ALPHA', 'BETA']) {
    world.fake.tamper(name, undefined)
    plant(name)
  }
  await world.project.remove('development', 'ALPHA')
  await pushDue(world, quietMs)
  expect((await lastRun(world, id)).items).toContainEqual(
    expect.objectContaining({ name: 'ALPHA', outcome: 'released', message: 'The parameter stays: it lacks our tags.' }),
  )
  expect(state()).toMatchObject({ ALPHA: 'foreign' })
  await world.project.must('DELETE', `/sync/${id}?remove=true`)
  await pushDue(world)
  expect(state()).toEqual({ ALPHA: 'foreign', BETA: 'foreign' })
})

test('one call finds that someone deleted a parameter that did not change', async () => {
  const id = await setUpSync(world)
  await pushDue(world)
  world.fake.tamper('BETA', undefined)
  await world.project.set('development', { ALPHA: 'changed' })
  await pushDue(world, quietMs)
  expect((await lastRun(world, id)).items).toContainEqual({
    name: 'BETA',
    outcome: 'drifted',
    message: 'was deleted at the target by someone else.',
  })
})
