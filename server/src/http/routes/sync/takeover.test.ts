/** Adopting entries at AWS, under exactly the policies that the wizard prints. */
import type { FlowStep } from '@coffer/contract/sync'
import { afterEach, beforeEach, expect, test } from 'vitest'
import {
  lastRun,
  pushDue,
  readStep,
  readSync,
  setUpSync,
  startSetup,
  startSyncWorld,
  submitStep,
  walk,
} from '../../../../../test/sync.ts'
import { fakeSecretsManager } from '../../../../../test/vendor/fake/aws-secrets-manager.ts'
import { awsSecretsManager } from '../../../providers/aws-secrets-manager.ts'

const fake = () => world.fake as ReturnType<typeof fakeSecretsManager>
let world: Awaited<ReturnType<typeof startSyncWorld>>
beforeEach(async () => {
  world = await startSyncWorld(awsSecretsManager, fakeSecretsManager())
  await world.project.set('development', { ALPHA: 'one' })
  fake().tamper('shop/ALPHA', 'theirs')
})
afterEach(() => world.stop())

const mapping = { mode: 'per-key', prefix: 'shop/', onExisting: 'adopt' }

function policyIn({ fields }: FlowStep) {
  const field = fields.find(({ id }) => id === 'policy')
  return field?.type === 'copy' ? { ...field, policy: JSON.parse(field.data.value) } : undefined
}

/** Completes all steps before the review. */
async function setUpToReview(more = {}): Promise<string> {
  const id = await startSetup(world)
  const answers = { auth: world.fake.credential, target: world.fake.target, mapping: { ...mapping, ...more } }
  for (const [step, values] of Object.entries(answers)) {
    const environment = step === 'mapping' ? { environment: world.project.idOf('development') } : {}
    const answer = await submitStep(world, id, step, { ...values, ...environment })
    expect(answer.status, answer.text).toBe(200)
  }
  return id
}

test('the review shows the policy that adopting needs, and this policy is sufficient', async () => {
  const id = await setUpToReview()
  const review = await readStep(world, id, 'review')
  const shown = policyIn(review)
  expect(shown?.data.description).toMatch(/takes over existing entries/)
  // The auth step now shows the same policy.
  expect(policyIn(await readStep(world, id, 'auth'))?.policy).toEqual(shown?.policy)
  fake().enforce(shown?.policy)
  await walk(world, id, 'review', {})
  await pushDue(world)
  expect(await lastRun(world, id)).toMatchObject({ items: [{ name: 'shop/ALPHA', outcome: 'adopted' }] })
  await world.project.set('development', { ALPHA: 'two' })
  await pushDue(world, 4_000)
  expect([world.fake.state().get('shop/ALPHA'), (await readSync(world, id)).lastError]).toEqual(['two', null])
})

test('without adopting, the review shows the policy for the target, and this one prevents overwriting', async () => {
  const start = await startSetup(world)
  const resourcesOf = (policy: { Statement: { Resource: unknown }[] }) =>
    policy.Statement.map(({ Resource }) => Resource)
  const before = policyIn(await readStep(world, start, 'auth'))?.policy
  expect(resourcesOf(before)).toContainEqual(['arn:aws:secretsmanager:REGION:ACCOUNT:secret:PREFIX*'])
  const id = await setUpToReview({ onExisting: 'fail' })
  const shown = policyIn(await readStep(world, id, 'review'))
  expect(shown?.data.description).not.toMatch(/takes over/)
  const narrow = shown?.policy
  expect(resourcesOf(narrow)).toContainEqual(['arn:aws:secretsmanager:eu-central-1:111122223333:secret:shop/*'])
  const other = await setUpSync(world, mapping, 'development', 'other')
  fake().enforce(narrow)
  await pushDue(world)
  expect((await readSync(world, other)).state).toBe('needs_reauth')
  expect(world.fake.state().get('shop/ALPHA')).toBe('theirs')
})
