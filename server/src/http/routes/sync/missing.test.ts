/** Entries that someone deleted at the target: the next run that reads them says so. */
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
import { fakeKubernetes } from '../../../../../test/vendor/fake/kubernetes.ts'
import { fakeVault } from '../../../../../test/vendor/fake/vault-kv.ts'
import { kubernetes } from '../../../providers/kubernetes.ts'
import { vaultKv } from '../../../providers/vault-kv.ts'

const quietMs = 15_000
const deletedWords = 'was deleted at the target by someone else.'

describe.each([
  ['vault-kv', vaultKv, fakeVault],
  ['kubernetes', kubernetes, fakeKubernetes],
] as const)('%s', (_slug, provider, makeFake) => {
  let world: SyncWorld & { stop(): Promise<void> }
  beforeAll(async () => {
    world = await startSyncWorld(provider, makeFake())
  })
  afterAll(() => world.stop())
  beforeEach(() => resetSyncs(world))

  const state = () => Object.fromEntries(world.fake.state())

  async function changeAfterDeletion(mapping = {}) {
    const id = await setUpSync(world, mapping)
    await pushDue(world)
    world.fake.tamper('BETA', undefined)
    await world.project.set('development', { ALPHA: 'changed' })
    await pushDue(world, quietMs)
    return { id, run: await lastRun(world, id) }
  }

  test('a change of another key reports the deleted entry, and leaves it away', async () => {
    const { id, run } = await changeAfterDeletion()
    expect(state()).toEqual({ ALPHA: 'changed', GAMMA: 'three' })
    expect(run).toMatchObject({ trigger: 'change', state: 'partial', counts: { updated: 1 } })
    expect(run.items).toContainEqual({ name: 'BETA', outcome: 'drifted', message: deletedWords })
    expect((await readSync(world, id)).lastError).toMatch(/^Not changed at the target.*deleted.*: BETA\.$/)
  })

  test('with drift=repair, a change of another key restores the deleted entry, and says so', async () => {
    const { id, run } = await changeAfterDeletion({ drift: 'repair' })
    expect(state()).toEqual({ ALPHA: 'changed', BETA: 'two', GAMMA: 'three' })
    expect(run.state).toBe('succeeded')
    expect(run.items).toContainEqual({ name: 'BETA', outcome: 'created', message: deletedWords })
    expect((await readSync(world, id)).lastError).toBeNull()
  })

  test('a manual run restores the deleted entry, and says so', async () => {
    const { id } = await changeAfterDeletion()
    await world.project.must('POST', `/sync/${id}/run`)
    await pushDue(world)
    expect(state()).toEqual({ ALPHA: 'changed', BETA: 'two', GAMMA: 'three' })
    expect((await lastRun(world, id)).items).toEqual([{ name: 'BETA', outcome: 'created', message: deletedWords }])
  })

  test('a deleted secret whose entry someone had deleted before is released, and the run says so', async () => {
    const id = await setUpSync(world)
    await pushDue(world)
    world.fake.tamper('BETA', undefined)
    await world.project.remove('development', 'BETA')
    await pushDue(world, quietMs)
    expect((await lastRun(world, id)).items).toEqual([{ name: 'BETA', outcome: 'released', message: deletedWords }])
  })
})
