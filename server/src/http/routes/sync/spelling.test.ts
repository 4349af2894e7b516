/** A vendor that ignores case: two spellings are one entry. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { lastRun, pushDue, type SyncWorld, setUpSync, startSyncWorld } from '../../../../../test/sync.ts'
import { fakeKeyVault } from '../../../../../test/vendor/fake/azure-key-vault.ts'
import { azureKeyVault } from '../../../providers/azure-key-vault.ts'

let world: SyncWorld & { stop(): Promise<void> }
beforeAll(async () => {
  world = await startSyncWorld(azureKeyVault, fakeKeyVault())
})
afterAll(() => world.stop())

const folded = () => [...world.fake.state()].map(([name, value]) => [name.toLowerCase(), value])

test('a key that changes only in case keeps its entry', async () => {
  const { project } = world
  await project.set('development', { db_url: 'one', Other: 'two' })
  const id = await setUpSync(world)
  await pushDue(world)
  await project.rename('db_url', 'DB_URL')
  await pushDue(world, 15_000)
  expect(folded()).toContainEqual(['db-url', 'one'])
  await project.set('development', { DB_URL: 'new' })
  await pushDue(world, 15_000)
  expect(folded()).toContainEqual(['db-url', 'new'])
  expect(await lastRun(world, id)).toMatchObject({ counts: { created: 0, updated: 1, deleted: 0 } })
  await project.remove('development', 'DB_URL')
  await pushDue(world, 15_000)
  expect(folded()).toEqual([['other', 'two']])
})

test('another sync does not adopt the entry under another spelling', async () => {
  const { project } = world
  await project.set('staging', { OTHER: 'of staging' })
  const id = await setUpSync(world, { onExisting: 'adopt' }, 'staging', 'Second')
  await pushDue(world)
  expect(folded()).toEqual([['other', 'two']])
  expect((await lastRun(world, id)).items).toEqual([
    { name: 'OTHER', outcome: 'conflict', message: 'is already written by another sync.' },
  ])
})

test('another sync does not create the entry under another spelling while it is missing', async () => {
  const [name = ''] = [...world.fake.state().keys()]
  world.fake.tamper(name, undefined)
  await project().set('staging', { OTHER: 'of staging again' })
  await pushDue(world, 15_000)
  expect(folded()).toEqual([])
})
const project = () => world.project
