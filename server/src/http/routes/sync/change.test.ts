/** Changed settings of an active sync that affect more than the values of its entries. */
import type { SyncPlan } from '@coffer/contract/sync'
import { afterEach, expect, test } from 'vitest'
import {
  lastRun,
  pushDue,
  readStep,
  type SyncWorld,
  setUpSync,
  startSyncWorld,
  walk,
} from '../../../../../test/sync.ts'
import { fakeGitHub } from '../../../../../test/vendor/fake/github-actions.ts'
import { fakeGitLab } from '../../../../../test/vendor/fake/gitlab-ci.ts'
import { fakeTerraform } from '../../../../../test/vendor/fake/terraform-cloud.ts'
import { githubActions } from '../../../providers/github-actions.ts'
import { gitlabCi } from '../../../providers/gitlab-ci.ts'
import { terraformCloud } from '../../../providers/terraform-cloud.ts'

let stop: () => Promise<void>
afterEach(() => stop())

async function plannedFor(world: SyncWorld, id: string): Promise<SyncPlan> {
  const plan = (await readStep(world, id, 'review')).fields.find((field) => field.id === 'plan')
  return plan?.type === 'copy' && JSON.parse(plan.data.value)
}

async function startGitLab() {
  const fake = fakeGitLab()
  const world = await startSyncWorld(gitlabCi, fake)
  stop = world.stop
  await world.project.set('development', { ALPHA: 'one', BETA: 'two' })
  const id = await setUpSync(world)
  await pushDue(world)
  const change = (answers: Record<string, string>) =>
    walk(world, id, 'mapping', { environment: world.project.idOf('development'), ...answers })
  const protection = () => fake.variables.map((variable) => variable.protected)
  return { world, id, change, protection }
}

test('changed settings reach existing entries, as the review says', async () => {
  const { world, id, change, protection } = await startGitLab()
  await change({ protected: 'yes' })
  expect((await world.project.must<SyncPlan>('POST', `/sync/${id}/plan`)).update).toEqual(['ALPHA', 'BETA'])
  await pushDue(world)
  expect(protection()).toEqual([true, true])
  expect((await plannedFor(world, id)).unchanged).toEqual(['ALPHA', 'BETA'])
})

test('changed settings reach existing entries also after a failed run', async () => {
  const { world, id, change, protection } = await startGitLab()
  await change({ protected: 'yes' })
  const answer = { status: 404, body: { message: '404 Project Not Found' } }
  world.running.injectFailure = () => ({ kind: 'answer', answer })
  await pushDue(world)
  world.running.injectFailure = undefined
  await world.project.must('POST', `/sync/${id}/resume`)
  await pushDue(world)
  expect(protection()).toEqual([true, true])
})

test('excluding an entry that someone else changed does not delete it', async () => {
  const { world, change } = await startGitLab()
  world.fake.tamper('BETA', 'of another')
  await change({ protected: 'yes', exclude: 'BETA' })
  await pushDue(world)
  expect(Object.fromEntries(world.fake.state())).toEqual({ ALPHA: 'one', BETA: 'of another' })
})

test('another variable category is another target, beside the first', async () => {
  const fake = fakeTerraform()
  const world = await startSyncWorld(terraformCloud, fake)
  stop = world.stop
  await world.project.set('development', { alpha: 'one' })
  await setUpSync(world, {}, 'development', 'For the environment')
  const other = { ...fake, target: { ...fake.target, category: 'terraform' } }
  const id = await setUpSync({ ...world, fake: other }, {}, 'development', 'For Terraform')
  await pushDue(world)
  expect(await lastRun(world, id)).toMatchObject({ counts: { created: 1, conflicts: 0 } })
})

test('a changed visibility of organization secrets takes effect with the next push', async () => {
  const fake = fakeGitHub('organization')
  const world = await startSyncWorld(githubActions, fake)
  stop = world.stop
  await world.project.set('development', { ALPHA: 'one' })
  const own = { environment: world.project.idOf('development') }
  const id = await setUpSync({ ...world, fake: { ...fake, target: { ...fake.target, visibility: 'all' } } })
  await pushDue(world)
  expect(fake.secrets('/orgs/acme/actions').get('ALPHA')).toMatchObject({ visibility: 'all' })
  await walk(world, id, 'target', own)
  await pushDue(world)
  expect(await lastRun(world, id)).toMatchObject({ counts: { updated: 1 } })
  expect(fake.secrets('/orgs/acme/actions').get('ALPHA')).toMatchObject({ visibility: 'selected' })
})
