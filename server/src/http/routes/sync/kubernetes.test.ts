/**
 * Keys that existed before a sync, and keys that someone edits in the cluster: who owns them, and how a sync treats
 * them.
 */
import type { SyncPlan } from '@coffer/contract/sync'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import {
  lastRun,
  pushDue,
  readStep,
  readSync,
  type SyncWorld,
  setUpSync,
  startSetup,
  startSyncWorld,
  submitStep,
  walk,
} from '../../../../../test/sync.ts'
import { fakeKubernetes } from '../../../../../test/vendor/fake/kubernetes.ts'
import { kubernetes } from '../../../providers/kubernetes.ts'

let world: SyncWorld & { stop(): Promise<void> }
beforeAll(async () => {
  world = await startSyncWorld(kubernetes, fakeKubernetes())
})
afterAll(() => world.stop())

beforeEach(async () => {
  const { project, fake } = world
  for (const { id } of await project.must<{ id: string }[]>('GET', '/sync')) await project.must('DELETE', `/sync/${id}`)
  for (const name of fake.state().keys()) fake.tamper(name, undefined)
  await project.set('development', { ALPHA: 'one' })
})

const state = () => Object.fromEntries(world.fake.state())
const planOf = (id: string) => world.project.must<SyncPlan>('POST', `/sync/${id}/plan`)

async function runNow(id: string): Promise<void> {
  await world.project.must('POST', `/sync/${id}/run`)
  await pushDue(world)
}

async function change(value: string): Promise<void> {
  await world.project.set('development', { ALPHA: value })
  await pushDue(world, 15_000)
}

async function expectFine(id: string, expected: Record<string, string>): Promise<void> {
  expect(await readSync(world, id)).toMatchObject({ state: 'active', lastError: null })
  expect(state()).toEqual(expected)
}

/** `remove=true` deletes the keys that the sync created, and releases the adopted ones. */
async function remove(id: string): Promise<void> {
  await world.project.must('DELETE', `/sync/${id}?remove=true`)
  await pushDue(world)
  expect((await world.project.ask('GET', `/sync/${id}`)).status).toBe(404)
}

test('an existing key is adopted only with onExisting=adopt, then updated, and never deleted', async () => {
  world.fake.tamper('ALPHA', 'foreign')
  const id = await setUpSync(world, { onExisting: 'adopt' })
  await pushDue(world)
  expect(await lastRun(world, id)).toMatchObject({ items: [{ name: 'ALPHA', outcome: 'adopted' }] })
  await expectFine(id, { ALPHA: 'one' })
  await change('two')
  await expectFine(id, { ALPHA: 'two' })
  await remove(id)
  expect(state()).toEqual({ ALPHA: 'two' })
})

test('an existing key is left unchanged by onConflict=force', async () => {
  world.fake.tamper('ALPHA', 'foreign')
  const id = await setUpSync(world, { onConflict: 'force' })
  await pushDue(world)
  expect(await lastRun(world, id)).toMatchObject({ items: [{ name: 'ALPHA', outcome: 'conflict' }] })
  expect(state()).toEqual({ ALPHA: 'foreign' })
})

describe.each([
  ['onConflict=force', { onConflict: 'force' }],
  ['onExisting=adopt', { onExisting: 'adopt' }],
])('a pushed key that someone edits, with %s', (_title, mapping) => {
  test('is reset, updated, and deleted with the sync', async () => {
    const id = await setUpSync(world, mapping)
    await pushDue(world)
    world.fake.tamper('ALPHA', 'edited')
    expect(await planOf(id)).toMatchObject({ update: ['ALPHA'], conflict: [] })
    await runNow(id)
    await expectFine(id, { ALPHA: 'one' })
    world.fake.tamper('ALPHA', 'edited again')
    await change('two')
    await runNow(id)
    await expectFine(id, { ALPHA: 'two' })
    await remove(id)
    expect(state()).toEqual({})
  })
})

describe('a pushed key that someone edits, by default', () => {
  test('is left unchanged and reported, until changed settings reset it', async () => {
    const id = await setUpSync(world)
    await pushDue(world)
    world.fake.tamper('ALPHA', 'edited')
    await runNow(id)
    expect(await lastRun(world, id)).toMatchObject({ state: 'partial', items: [{ name: 'ALPHA', outcome: 'drifted' }] })
    expect(state()).toEqual({ ALPHA: 'edited' })
    await walk(world, id, 'mapping', { environment: world.project.idOf('development'), onConflict: 'force' })
    await runNow(id)
    await expectFine(id, { ALPHA: 'one' })
    await remove(id)
    expect(state()).toEqual({})
  })

  test('is managed again once its value is restored: updated, and deleted with the sync', async () => {
    const id = await setUpSync(world)
    await pushDue(world)
    world.fake.tamper('ALPHA', 'edited')
    await runNow(id)
    world.fake.tamper('ALPHA', 'one')
    await runNow(id)
    await expectFine(id, { ALPHA: 'one' })
    expect(await planOf(id)).toMatchObject({ unchanged: ['ALPHA'], conflict: [] })
    await change('two')
    await expectFine(id, { ALPHA: 'two' })
    world.fake.tamper('ALPHA', 'edited')
    world.fake.tamper('ALPHA', 'two')
    await remove(id)
    expect(state()).toEqual({})
  })

  test('stays when the sync is removed', async () => {
    const id = await setUpSync(world)
    await pushDue(world)
    world.fake.tamper('ALPHA', 'edited')
    await remove(id)
    expect(state()).toEqual({ ALPHA: 'edited' })
  })
})

describe('a Secret type with required keys', () => {
  async function review(type: string): Promise<{ id: string; plan: SyncPlan }> {
    const { fake, project } = world
    const id = await startSetup(world)
    await submitStep(world, id, 'auth', fake.credential)
    await submitStep(world, id, 'target', { ...fake.target, type })
    await submitStep(world, id, 'mapping', { environment: project.idOf('development') })
    const { fields } = await readStep(world, id, 'review')
    const plan = fields.find((field) => field.id === 'plan')
    return { id, plan: JSON.parse(plan?.type === 'copy' ? plan.data.value : '') }
  }
  const missing = async (type: string) => (await review(type)).plan.problems.map(({ name }) => name)
  const removeSecret = () => {
    world.fake.setTarget(false)
    world.fake.setTarget(true)
  }

  test('is refused by the review until they are pushed, and the problems name them', async () => {
    removeSecret()
    const { id, plan } = await review('kubernetes.io/tls')
    expect(plan.problems.map(({ name }) => name)).toEqual(['tls.crt', 'tls.key'])
    expect(plan.problems[0]?.problem).toMatch(/^is not pushed, but a Secret of type kubernetes\.io\/tls requires it/)
    const { status, body } = await submitStep(world, id, 'review', { confirm: 'x' })
    expect([status, body.message]).toEqual([400, expect.stringMatching(/^confirm: tls\.crt is not pushed/)])
    expect(await missing('kubernetes.io/ssh-auth')).toEqual(['ssh-privatekey'])
    expect(await missing('kubernetes.io/basic-auth')).toEqual(['username'])
  })

  test('is accepted when they are pushed, and is not checked for an existing Secret', async () => {
    removeSecret()
    const { fake, project } = world
    await project.set('development', { CRT: 'c', KEY: 'k' })
    const target = { ...fake.target, type: 'kubernetes.io/tls' }
    const id = await setUpSync({ ...world, fake: { ...fake, target } }, { rename: 'CRT=tls.crt,KEY=tls.key' })
    await pushDue(world)
    await expectFine(id, { ALPHA: 'one', 'tls.crt': 'c', 'tls.key': 'k' })
    await project.remove('development', 'KEY')
    await pushDue(world, 15_000)
    expect(await readSync(world, id)).toMatchObject({
      state: 'blocked',
      lastError: expect.stringMatching(/^tls\.key: /),
    })
    await project.must('DELETE', `/sync/${id}`)
    await project.remove('development', 'CRT')
    removeSecret()
    fake.tamper('THEIRS', 'x')
    expect(await missing('kubernetes.io/tls')).toEqual([])
  })
})
