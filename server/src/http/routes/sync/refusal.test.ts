/** Names that a vendor refuses: which of them a sync keeps, and which of them other syncs may use. */
import { afterEach, beforeEach, expect, test } from 'vitest'
import { lastRun, pushDue, readSync, setUpSync, startSyncWorld } from '../../../../../test/sync.ts'
import { fakeSecretsManager } from '../../../../../test/vendor/fake/aws-secrets-manager.ts'
import { awsSecretsManager } from '../../../providers/aws-secrets-manager.ts'

let world: Awaited<ReturnType<typeof startSyncWorld>>
beforeEach(async () => {
  world = await startSyncWorld(awsSecretsManager, fakeSecretsManager())
  await world.project.set('development', { ALPHA: 'one' })
})
afterEach(() => world.stop())

const perKey = { mode: 'per-key', prefix: 'shop/' }

/** The vendor refuses every CreateSecret. */
const refuse = (type: string, status = 400) => {
  world.running.injectFailure = ({ headers }) =>
    headers['x-amz-target'] === 'secretsmanager.CreateSecret'
      ? { kind: 'answer', answer: { status, body: { __type: type, message: 'No.' } } }
      : undefined
}

test.each([
  ['AccessDeniedException', 'needs_reauth'],
  ['ExpiredTokenException', 'needs_reauth'],
  ['LimitExceededException', 'blocked'],
  ['InvalidParameterException', 'blocked'],
  ['ThrottlingException', 'failing'],
])('a create refused with %s leaves the name to another sync', async (type, state) => {
  const first = await setUpSync(world, perKey, 'development', 'first')
  refuse(type)
  await pushDue(world)
  expect((await readSync(world, first)).state).toBe(state)
  await world.project.must('POST', `/sync/${first}/pause`)
  world.running.injectFailure = undefined
  const second = await setUpSync(world, perKey, 'development', 'second')
  await pushDue(world)
  expect(await lastRun(world, second)).toMatchObject({ items: [{ name: 'shop/ALPHA', outcome: 'created' }] })
  expect(world.fake.state()).toEqual(new Map([['shop/ALPHA', 'one']]))
})

test('a create with an unknown outcome reserves the name until the vendor refuses it and the entry is absent', async () => {
  const first = await setUpSync(world, perKey, 'development', 'first')
  refuse('InternalServiceError', 500)
  await pushDue(world)
  const second = await setUpSync(world, perKey, 'development', 'second')
  await pushDue(world)
  expect(await lastRun(world, second)).toMatchObject({ items: [{ name: 'shop/ALPHA', outcome: 'conflict' }] })
  refuse('AccessDeniedException')
  await world.project.must('POST', `/sync/${first}/run`)
  await pushDue(world)
  world.running.injectFailure = undefined
  await world.project.must('POST', `/sync/${second}/run`)
  await pushDue(world)
  expect(await lastRun(world, second)).toMatchObject({ items: [{ name: 'shop/ALPHA', outcome: 'created' }] })
})
