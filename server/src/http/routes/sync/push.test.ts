/** A push: which changes cause one, what the audit trail says about it, and what follows when the vendor refuses it. */
import type { AuditEntry } from '@coffer/contract/audit'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import {
  lastRun,
  pushDue,
  readSync,
  resetSyncs,
  type SyncWorld,
  setUpSync,
  startSyncWorld,
  submitStep,
  walk,
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

const development = () => world.project.idOf('development')
const state = () => Object.fromEntries(world.fake.state())
const setUp = (mapping = {}) => setUpSync(world, mapping)

describe('a change', () => {
  test('is pushed after a quiet period, in one call with all others of that period', async () => {
    const id = await setUp()
    await pushDue(world)
    world.running.forget()
    await world.project.set('development', { ALPHA: 'a1' })
    await world.project.set('development', { BETA: 'b1' })
    expect(await pushDue(world, debounceMs - 2_000)).toBe(0)
    await world.project.set('development', { ALPHA: 'a2' })
    expect(await pushDue(world, debounceMs - 2_000)).toBe(0)
    expect(await pushDue(world, 4_000)).toBe(1)
    expect(state()).toEqual({ ALPHA: 'a2', BETA: 'b1', GAMMA: 'three' })
    // One read and one write for both changes.
    expect(world.running.requests.map(({ method }) => method)).toEqual(['GET', 'PATCH'])
    expect(await lastRun(world, id)).toMatchObject({ trigger: 'change', counts: { updated: 2, unchanged: 1 } })
  })

  test('is pushed within two minutes although others follow', async () => {
    await setUp()
    await pushDue(world)
    let waitedMs = 0
    for (let index = 0; state().ALPHA !== undefined && index < 40; index++) {
      await world.project.set('development', { ALPHA: `value ${index}` })
      if ((await pushDue(world, 10_000)) > 0) break
      waitedMs += 10_000
    }
    expect(waitedMs).toBeGreaterThanOrEqual(100_000)
    expect(waitedMs).toBeLessThanOrEqual(120_000)
  })

  test('outside the mapping sends no request to the vendor', async () => {
    await setUp({ include: 'ALPHA' })
    await pushDue(world)
    world.running.forget()
    await world.project.set('development', { BETA: 'other' })
    await pushDue(world, debounceMs)
    expect(world.running.requests).toEqual([])
  })

  test('to a referenced value is pushed too', async () => {
    const { project } = world
    await project.set('staging', { HOST: 'first.example.com' })
    await project.set('development', { ALPHA: `https://\${staging.HOST}/` })
    await setUp()
    await pushDue(world)
    expect(state().ALPHA).toBe('https://first.example.com/')
    await project.set('staging', { HOST: 'second.example.com' })
    await pushDue(world, debounceMs)
    expect(state().ALPHA).toBe('https://second.example.com/')
  })

  test('with an unresolvable reference blocks the sync and names the key, and fixing it unblocks the sync', async () => {
    const { project } = world
    const id = await setUp()
    await pushDue(world)
    await project.set('development', { ALPHA: `\${staging.NOWHERE}`, BETA: 'new' })
    await pushDue(world, debounceMs)
    expect(await readSync(world, id)).toMatchObject({
      state: 'blocked',
      lastError: expect.stringMatching(/^ALPHA: refers to/),
    })
    expect(state()).toEqual({ ALPHA: 'one', BETA: 'two', GAMMA: 'three' })
    await project.set('development', { ALPHA: 'fine' })
    await pushDue(world, debounceMs)
    expect(await readSync(world, id)).toMatchObject({ state: 'active', lastError: null })
    expect(state()).toEqual({ ALPHA: 'fine', BETA: 'new', GAMMA: 'three' })
  })

  test('to a referenced value that was too large unblocks the sync', async () => {
    const id = await setUp()
    await pushDue(world)
    await world.project.set('staging', { LARGE: 'x'.repeat(60_000) })
    await world.project.set('development', { ALPHA: `\${staging.LARGE}\${staging.LARGE}` })
    await pushDue(world, debounceMs)
    expect(await readSync(world, id)).toMatchObject({
      state: 'blocked',
      lastError: expect.stringMatching(/^ALPHA: has/),
    })
    await world.project.set('staging', { LARGE: 'x' })
    await pushDue(world, debounceMs)
    expect(state()).toEqual({ ALPHA: 'xx', BETA: 'two', GAMMA: 'three' })
  })

  test('with an unresolvable reference in an excluded key blocks nothing', async () => {
    const id = await setUp({ exclude: 'LOST, BETA' })
    await pushDue(world)
    await world.project.set('development', { LOST: `\${staging.NOTHING}`, BETA: 'two', ALPHA: `\${BETA}!` })
    await pushDue(world, debounceMs)
    expect(state()).toEqual({ ALPHA: 'two!', GAMMA: 'three' })
    expect(await world.project.must('POST', `/sync/${id}/plan`)).toMatchObject({ unchanged: ['ALPHA', 'GAMMA'] })
    expect(await walk(world, id, 'mapping', { environment: development() })).toContain('done')
  })

  test('by which a secret is deleted deletes its entry', async () => {
    const id = await setUp()
    await pushDue(world)
    await world.project.remove('development', 'BETA')
    await pushDue(world, debounceMs)
    expect(state()).toEqual({ ALPHA: 'one', GAMMA: 'three' })
    expect(await lastRun(world, id)).toMatchObject({ counts: { deleted: 1 } })
  })
})

describe('errors of the vendor', () => {
  test.each([
    ['401', 'needs_reauth', /Heroku answered 401.*enter a new one/],
    ['403', 'needs_reauth', /Heroku answered 403.*grant it those that the auth step lists/],
    ['404', 'blocked', /Heroku answered 404.*target does not exist/],
    ['422', 'blocked', /422.*rejects this name or value/],
    ['500', 'failing', /Heroku answered 500.*retried automatically/],
    ['429', 'failing', /Heroku answered 429.*when the vendor allows it/],
  ])('status %s makes the sync %s, and the message says what to do', async (status, expected, message) => {
    const id = await setUp()
    await pushDue(world)
    const answer = { status: Number(status), body: { id: 'x', message: 'no: its value is secret-canary-1' } }
    running().injectFailure = (request) => (request.method === 'PATCH' ? { kind: 'answer', answer } : undefined)
    await world.project.set('development', { ALPHA: 'secret-canary-1' })
    await pushDue(world, debounceMs)
    const sync = await readSync(world, id)
    expect(sync.state).toBe(expected)
    expect(sync.lastError).toMatch(message)
    const run = await lastRun(world, id)
    expect(JSON.stringify([sync, run])).not.toContain('canary')
    expect(run.state).toBe('failed')
    expect(state().ALPHA).toBe('one')
  })

  const running = () => world.running

  test('a new credential of the same account resumes the sync at once', async () => {
    const id = await setUp()
    await pushDue(world)
    running().injectFailure = () => ({ kind: 'answer', answer: { status: 401 } })
    await world.project.set('development', { ALPHA: 'two' })
    await pushDue(world, debounceMs)
    expect((await readSync(world, id)).state).toBe('needs_reauth')
    running().forget()
    await pushDue(world, hourMs)
    expect(running().requests).toEqual([])
    running().injectFailure = undefined
    const answer = await submitStep(world, id, 'auth', world.fake.credential)
    expect(answer.body.step).toBe('done')
    await pushDue(world)
    expect(state().ALPHA).toBe('two')
    world.service.clock.offsetMs = 0
  })

  test('the sync waits as long as the vendor asks, then pushes everything', async () => {
    const id = await setUp()
    await pushDue(world)
    const answer = { status: 429, headers: { 'retry-after': '120' } }
    running().injectFailure = () => ({ kind: 'answer', answer })
    await world.project.set('development', { ALPHA: 'two' })
    await pushDue(world, debounceMs)
    running().forget()
    running().injectFailure = undefined
    await world.project.set('development', { BETA: 'three' })
    await pushDue(world, 100_000)
    expect(running().requests).toEqual([])
    await pushDue(world, 21_000)
    expect(state()).toMatchObject({ ALPHA: 'two', BETA: 'three' })
    expect(await lastRun(world, id)).toMatchObject({ trigger: 'retry', state: 'succeeded', attempts: 2 })
    world.service.clock.offsetMs = 0
  })

  test.each([
    ['retry-after', '10000000000000'],
    ['retry-after', '9'.repeat(400)],
    ['x-ratelimit-reset', '1790000000000000000'],
  ])('a wait of years in %s is cut to one day', async (header, value) => {
    const id = await setUp()
    await pushDue(world)
    running().injectFailure = () => ({ kind: 'answer', answer: { status: 429, headers: { [header]: value } } })
    await world.project.set('development', { ALPHA: 'two' })
    await pushDue(world, debounceMs)
    const { state, nextRunAt, lastRunAt } = await readSync(world, id)
    expect([state, Date.parse(nextRunAt ?? '') - Date.parse(lastRunAt ?? '')]).toEqual(['failing', 24 * hourMs])
    expect(await world.project.must('GET', '/sync')).toMatchObject([{ id }])
    world.service.clock.offsetMs = 0
  })

  test('one refused name does not block the others', async () => {
    world.fake.refusedNames.add('BETA')
    await world.project.set('development', { BETA: 'value-of-beta' })
    const id = await setUp()
    await pushDue(world)
    expect(state()).toEqual({ ALPHA: 'one', GAMMA: 'three' })
    const run = await lastRun(world, id)
    expect(run.items.find(({ name }) => name === 'BETA')).toMatchObject({ outcome: 'failed' })
    expect(JSON.stringify(run)).toContain('its value is [hidden].')
    expect(JSON.stringify(run)).not.toContain('value-of-beta')
    expect(await readSync(world, id)).toMatchObject({ state: 'blocked', lastError: expect.stringMatching(/^BETA: /) })
  })

  test('a day of failures makes the sync blocked, which is retried once a day', async () => {
    const id = await setUp()
    await pushDue(world)
    running().injectFailure = () => ({ kind: 'answer', answer: { status: 500 } })
    await world.project.set('development', { ALPHA: 'two' })
    await pushDue(world, debounceMs)
    for (let hour = 0; hour < 26; hour++) await pushDue(world, hourMs)
    const { store } = world.service.app.services
    const { dueAt, ...blocked } = (await store.syncs.find(id)) ?? { dueAt: null }
    expect(blocked).toMatchObject({ state: 'blocked', reason: 'exhausted' })
    world.service.clock.offsetMs = 0
    expect(await readSync(world, id)).toMatchObject({ state: 'blocked', nextRunAt: new Date(dueAt ?? 0).toISOString() })
    world.service.clock.offsetMs = 27 * hourMs
    running().injectFailure = undefined
    await pushDue(world, 25 * hourMs)
    expect(await store.syncs.find(id)).toMatchObject({ state: 'active' })
    expect(state().ALPHA).toBe('two')
    world.service.clock.offsetMs = 0
  })
})

test('every push is in the audit trail by name before anything is sent, and the trail verifies', async () => {
  const { service, owner } = world
  const id = await setUp()
  world.running.injectFailure = ({ method }) => (method === 'PATCH' ? { kind: 'drop', after: false } : undefined)
  await pushDue(world)
  expect(state()).toEqual({})
  const asked = { token: owner.session }
  const answer = await service.call<AuditEntry[]>('GET', '/v1/workspace/main/audit?action=PUSH&limit=1', asked)
  expect(answer.body).toMatchObject([
    { actor: { type: 'sync', id }, entity: { type: 'sync', id }, after: { create: ['ALPHA', 'BETA', 'GAMMA'] } },
  ])
  expect((await service.call('GET', '/v1/workspace/main/audit/verify', asked)).body).toMatchObject({ ok: true })
})

test('the audit entry of a push names the values read by reference', async () => {
  const { service, owner, project } = world
  await project.set('staging', { HOST: 'near' })
  await project.set('development', { ALPHA: `https://\${staging.HOST}/` })
  const id = await setUp()
  await pushDue(world)
  const asked = { token: owner.session }
  const answer = await service.call<AuditEntry[]>('GET', '/v1/workspace/main/audit?action=PUSH&limit=1', asked)
  expect(answer.body).toMatchObject([
    { actor: { type: 'sync', id }, after: { referenced: [`${project.slug}.staging.HOST`] } },
  ])
})
