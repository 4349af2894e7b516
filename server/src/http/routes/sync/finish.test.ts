/** The deploy after the last write of a push, and the stored error text of a vendor. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { lastRun, pushDue, readSync, type SyncWorld, setUpSync, startSyncWorld } from '../../../../../test/sync.ts'
import { fakeRender } from '../../../../../test/vendor/fake/render.ts'
import { render } from '../../../providers/render.ts'

let world: SyncWorld & { stop(): Promise<void> }
beforeAll(async () => {
  world = await startSyncWorld(render, fakeRender())
})
afterAll(() => world.stop())

beforeEach(async () => {
  const { project, running, fake } = world
  running.injectFailure = undefined
  running.forget()
  for (const name of fake.state().keys()) fake.tamper(name, undefined)
  for (const { id } of await project.must<{ id: string }[]>('GET', '/sync')) await project.must('DELETE', `/sync/${id}`)
  await project.set('development', { ALPHA: 'one', BETA: 'two' })
})

const deploys = () => world.running.requests.filter(({ path }) => path.endsWith('/deploys'))

test('a failed deploy is retried with the next run, although everything was pushed', async () => {
  const id = await setUpSync(world, { deploy: 'yes' })
  world.running.injectFailure = ({ path }) =>
    path.endsWith('/deploys') ? { kind: 'answer', answer: { status: 500 } } : undefined
  await pushDue(world)
  expect(await readSync(world, id)).toMatchObject({ state: 'failing' })
  expect(await lastRun(world, id)).toMatchObject({ state: 'partial', counts: { created: 2 } })
  world.running.injectFailure = undefined
  world.running.forget()
  await pushDue(world, 60_000)
  expect(deploys()).toHaveLength(1)
  expect(await readSync(world, id)).toMatchObject({ state: 'active', lastError: null })
  world.running.forget()
  await pushDue(world, 60_000)
  expect(deploys()).toEqual([])
})

const failing = (path: string, status: number) => {
  world.running.injectFailure = (request) =>
    request.path.endsWith(path) ? { kind: 'answer', answer: { status } } : undefined
}

test('a failed deploy after a run with only deletes is retried too', async () => {
  await setUpSync(world, { deploy: 'yes' })
  await pushDue(world)
  await world.project.remove('development', 'BETA')
  failing('/deploys', 500)
  await pushDue(world, 15_000)
  world.running.injectFailure = undefined
  world.running.forget()
  await pushDue(world, 60_000)
  expect(deploys()).toHaveLength(1)
})

test('entries pushed before the vendor was full are deployed once the remaining ones are removed', async () => {
  const id = await setUpSync(world, { deploy: 'yes' })
  failing('/env-vars/BETA', 402)
  await pushDue(world)
  expect([(await readSync(world, id)).state, deploys()]).toEqual(['blocked', []])
  await world.project.remove('development', 'BETA')
  await world.project.must('POST', `/sync/${id}/resume`)
  await pushDue(world)
  expect(deploys()).toHaveLength(1)
})

test('control characters in the message of a vendor become spaces before it is stored', async () => {
  const id = await setUpSync(world)
  const answer = { status: 500, body: { message: 'no\u0000 way\u001b[31m' } }
  world.running.injectFailure = () => ({ kind: 'answer', answer })
  await pushDue(world)
  expect(await readSync(world, id)).toMatchObject({
    state: 'failing',
    lastError: expect.stringMatching(/^Render answered 500: no way \[31m\. It will be retried automatically/),
  })
})
