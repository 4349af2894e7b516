/** A key that is deleted in Coffer disappears from the target too, even if the run cannot see its entry at once. */
import { afterEach, expect, test } from 'vitest'
import { lastRun, pushDue, readSync, setUpSync, startSyncWorld } from '../../../../../test/sync.ts'
import { fakeSecretsManager } from '../../../../../test/vendor/fake/aws-secrets-manager.ts'
import { fakeGitLab } from '../../../../../test/vendor/fake/gitlab-ci.ts'
import { awsSecretsManager } from '../../../providers/aws-secrets-manager.ts'
import { gitlabCi } from '../../../providers/gitlab-ci.ts'

let stop: () => Promise<void>
afterEach(() => stop())

test('a key deleted before the first complete push is deleted at the target after it', async () => {
  const fake = fakeGitLab()
  const world = await startSyncWorld(gitlabCi, fake)
  stop = world.stop
  const { project } = world
  await project.set('development', { ALPHA: 'one', BETA: 'two', GAMMA: 'three' })
  fake.refusedNames.add('GAMMA')
  const id = await setUpSync(world)
  await pushDue(world)
  expect((await readSync(world, id)).state).toBe('blocked')

  // Only ALPHA is to be written now, so the run looks up nothing else.
  await project.remove('development', 'GAMMA')
  await project.remove('development', 'BETA')
  await project.set('development', { ALPHA: 'changed' })
  await pushDue(world, 15_000)
  expect(await readSync(world, id)).toMatchObject({ state: 'active', lastError: null })
  await project.must('POST', `/sync/${id}/run`)
  await pushDue(world)
  expect(Object.fromEntries(fake.state())).toEqual({ ALPHA: 'changed' })
})

const perKey = { mode: 'per-key', prefix: 'shop/' }

async function startAws(secrets: Record<string, string>) {
  const fake = fakeSecretsManager()
  const world = await startSyncWorld(awsSecretsManager, fake)
  stop = world.stop
  await world.project.set('development', secrets)
  return { fake, world, project: world.project, id: await setUpSync(world, perKey) }
}

test('AWS: a list that lacks a new secret neither hides it from deletion nor makes it look changed', async () => {
  const { fake, world, project, id } = await startAws({ ALPHA: 'one', BETA: 'two', GAMMA: 'three' })
  fake.freezeList()
  await pushDue(world)
  await project.remove('development', 'BETA')
  await project.set('development', { DELTA: 'four' })
  await pushDue(world, 15_000)
  expect(Object.fromEntries(fake.state())).toEqual({ 'shop/ALPHA': 'one', 'shop/GAMMA': 'three', 'shop/DELTA': 'four' })
  expect(await lastRun(world, id)).toMatchObject({
    state: 'succeeded',
    counts: { created: 1, deleted: 1, unchanged: 2 },
  })
})

test('AWS: a list with the version before our last write does not keep the secret from deletion', async () => {
  const { fake, world, project } = await startAws({ ALPHA: 'one', BETA: 'two' })
  await pushDue(world)
  fake.freezeList()
  await project.set('development', { BETA: 'changed' })
  await pushDue(world, 15_000)
  await project.remove('development', 'BETA')
  await pushDue(world, 15_000)
  expect(Object.fromEntries(fake.state())).toEqual({ 'shop/ALPHA': 'one' })
})

test('AWS: a sync that is removed minutes after its first push leaves nothing behind', async () => {
  const { fake, world, project, id } = await startAws({ ALPHA: 'one', BETA: 'two' })
  fake.freezeList()
  await pushDue(world)
  await project.must('DELETE', `/sync/${id}?remove=true`)
  await pushDue(world)
  expect((await project.ask('GET', `/sync/${id}`)).status).toBe(404)
  expect(fake.state()).toEqual(new Map())
})
