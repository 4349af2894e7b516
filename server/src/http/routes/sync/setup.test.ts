/** The setup of a sync: the list of providers, and a wizard that checks each step and applies changes with the last. */
import type { SyncDetail, SyncProvider } from '@coffer/contract/sync'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { addUser } from '../../../../../test/harness.ts'
import {
  flowPath,
  lastRun,
  pushDue,
  readStep,
  readSync,
  resetSyncs,
  type SyncWorld,
  setUpSync,
  startSetup,
  startSyncWorld,
  submitStep,
  walk,
} from '../../../../../test/sync.ts'
import { fakeHeroku } from '../../../../../test/vendor/fake/heroku.ts'
import { cleanUp } from '../../../jobs/cleanup.ts'
import { heroku } from '../../../providers/heroku.ts'
import { announced, providers } from '../../../providers/registry.ts'

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

describe('the list of providers', () => {
  test('shows each provider once, with a logo served by Coffer', async () => {
    const { service, owner } = world
    const { body } = await service.call<SyncProvider[]>('GET', '/v1/sync/', { token: owner.session })
    expect(body).toHaveLength(providers.length + announced.length)
    expect(new Set(body.map(({ slug }) => slug)).size).toBe(body.length)
    for (const { slug, logo, soon } of body) {
      expect(soon).toBe(announced.some((provider) => provider.slug === slug))
      const response = await fetch(service.url + new URL(logo).pathname)
      expect([response.status, response.headers.get('content-type')]).toEqual([200, 'image/svg+xml'])
      expect(await response.text()).toMatch(/^<svg xmlns="http:\/\/www\.w3\.org\/2000\/svg" .*<\/svg>\n$/s)
    }
    for (const file of ['nothing.svg', 'heroku.png', '..%2fheroku.svg', 'heroku']) {
      expect((await fetch(`${service.url}/logo/${file}`)).status).toBe(404)
    }
  })
})

describe('the wizard', () => {
  test('leads from auth to done, and the first push creates everything', async () => {
    const id = await startSetup(world)
    expect(await readSync(world, id)).toMatchObject({
      state: 'draft',
      provider: 'heroku',
      name: 'Heroku',
      target: null,
    })
    expect(await walk(world, id, 'auth', { environment: development() })).toEqual([
      'auth',
      'target',
      'mapping',
      'review',
      'done',
    ])
    expect(await readSync(world, id)).toMatchObject({
      state: 'active',
      environmentId: development(),
      target: 'shop-production',
      lastError: null,
    })
    await pushDue(world)
    expect(state()).toEqual({ ALPHA: 'one', BETA: 'two', GAMMA: 'three' })
    expect(await lastRun(world, id)).toMatchObject({
      trigger: 'first',
      state: 'succeeded',
      attempts: 1,
      error: null,
      counts: { created: 3, updated: 0, deleted: 0, unchanged: 0, conflicts: 0, failed: 0 },
      items: ['ALPHA', 'BETA', 'GAMMA'].map((name) => ({ name, outcome: 'created', message: null })),
    })
  })

  test('never shows a credential again, in any step or response', async () => {
    const id = await setUp()
    const token = world.fake.credential.token ?? ''
    const texts = [
      ...(await Promise.all(['auth', 'target', 'mapping', 'review'].map((step) => readStep(world, id, step)))),
      await world.project.must<SyncDetail>('GET', `/sync/${id}`),
      await world.project.must('GET', '/sync'),
    ].map((body) => JSON.stringify(body))
    for (const text of texts) expect(text).not.toContain(token)
    expect((await world.project.must<SyncDetail>('GET', `/sync/${id}`)).account).toBe('ops@example.com')
  })

  test('offers the options of the vendor, and remembers the chosen one', async () => {
    const id = await startSetup(world)
    await submitStep(world, id, 'auth', world.fake.credential)
    world.fake.pageSize = 1
    const { fields } = await readStep(world, id, 'target')
    world.fake.pageSize = undefined
    expect(fields).toMatchObject([
      { id: 'app', type: 'select', data: { options: [{ value: 'shop-production' }, { value: 'shop-staging' }] } },
    ])
    await submitStep(world, id, 'target', { app: 'shop-production' })
    expect((await readStep(world, id, 'target')).fields).toMatchObject([{ data: { defaultValue: 'shop-production' } }])
  })

  const nobody = { app: 'nobodys' }
  test.each([
    [
      'a token that the vendor refuses',
      'auth',
      { token: 'HRKU-wrong' },
      /^token: Heroku answered 401: Invalid credentials/,
    ],
    ['no token', 'auth', {}, /^token: is required\./],
    ['an empty token', 'auth', { token: '  ' }, /^token: is required\./],
    ['an unknown field', 'auth', { token: 'x', colour: 'red' }, /^colour: is not a field of this step\./],
    ['a control character', 'auth', { token: 'a\u0001b' }, /^token: contains a control character\./],
    ['an unknown target', 'target', nobody, /^app: Heroku answered 404: Couldn't find that app\./],
    ['no target', 'target', {}, /^app: is required\./],
    ['no environment', 'mapping', {}, /^environment: is required\./],
    ['an unknown environment', 'mapping', { environment: 'x' }, /^environment: is not one of /],
    ['an option that is not offered', 'mapping', { mode: 'xml' }, /^mode: is not one of per-key, json, dotenv\./],
    ['malformed pairs', 'mapping', { rename: 'A=B=C' }, /^rename: must be a list of KEY=NAME pairs/],
    ['too many patterns', 'mapping', { include: 'A*,'.repeat(201) }, /^include: has 201 patterns; 200 are/],
    [
      'a pattern that is too long',
      'mapping',
      { exclude: 'A*'.repeat(200) },
      /^exclude: has a pattern of more than 256/,
    ],
    ['a prefix that is too long', 'mapping', { prefix: 'A'.repeat(129) }, /^prefix: is longer than 128 characters\./],
    ['a combined entry without a name', 'mapping', { mode: 'json' }, /^objectName: is required/],
    ['no confirmation', 'review', {}, /^confirm: is required\./],
    ['a wrong confirmation', 'review', { confirm: 'yes' }, /^confirm: does not match the current plan/],
  ])('refuses %s with the name of the field, and changes nothing', async (_title, step, values, message) => {
    const id = await startSetup(world)
    const before = ['auth', 'target', 'mapping', 'review'].indexOf(step)
    const { credential, target } = world.fake
    if (before > 0) await submitStep(world, id, 'auth', credential)
    if (before > 1) await submitStep(world, id, 'target', target)
    if (before > 2) await submitStep(world, id, 'mapping', { environment: development() })
    const filled =
      step === 'mapping' && !_title.includes('environment') ? { environment: development(), ...values } : values
    const [row] = await rowsOf(id)
    const answer = await submitStep(world, id, step, filled as Record<string, string>)
    expect(answer.status).toBe(400)
    expect(answer.body.message).toMatch(message)
    expect(answer.text).not.toContain('HRKU-wrong')
    expect(await rowsOf(id)).toEqual([row])
  })

  const rowsOf = async (id: string) => {
    const { createdAt: _at, ...sync } = await readSync(world, id)
    const { store } = world.service.app.services
    const row = await store.syncs.find(id)
    return [{ sync, content: row && (await store.syncs.open(row)) }]
  }

  test('does not let a step be skipped', async () => {
    const id = await startSetup(world)
    const { service, owner } = world
    for (const [step, first] of [
      ['target', 'auth'],
      ['mapping', 'auth'],
      ['review', 'auth'],
    ] as const) {
      const asked = await service.call<{ message: string }>('GET', flowPath('heroku', id, step), {
        token: owner.session,
      })
      expect([asked.status, asked.body.message]).toEqual([409, `step: ${first} comes before ${step}.`])
      expect((await submitStep(world, id, step, {})).status).toBe(409)
    }
  })

  test('shows the planned changes and the problems of the target in the review, by name', async () => {
    await world.project.set('development', { HEROKU_X: 'bad' })
    world.fake.tamper('BETA', 'somebody else’s')
    const id = await startSetup(world)
    await submitStep(world, id, 'auth', world.fake.credential)
    await submitStep(world, id, 'target', world.fake.target)
    await submitStep(world, id, 'mapping', { environment: development() })
    const { fields, description } = await readStep(world, id, 'review')
    const shown = fields.find((field) => field.id === 'plan')
    if (shown?.type !== 'copy') throw new Error('the plan is not a copy field')
    expect(JSON.parse(shown.data.value)).toMatchObject({
      create: ['ALPHA', 'GAMMA'],
      conflict: ['BETA'],
      delete: [],
      problems: [{ name: 'HEROKU_X' }],
    })
    expect(description).toContain('Fix the listed problems')
    const word = fields.find((field) => field.id === 'confirm')
    const confirm = word?.type === 'input' ? (word.data.defaultValue ?? '') : ''
    const refused = await submitStep(world, id, 'review', { confirm })
    expect([refused.status, refused.body.message]).toEqual([
      400,
      expect.stringMatching(/^confirm: HEROKU_X becomes "HEROKU_X", which/),
    ])
    expect(await readSync(world, id)).toMatchObject({ state: 'draft' })
  })

  test('asks for a new confirmation when the plan has changed since it was shown', async () => {
    const id = await startSetup(world)
    await submitStep(world, id, 'auth', world.fake.credential)
    await submitStep(world, id, 'target', world.fake.target)
    await submitStep(world, id, 'mapping', { environment: development() })
    const { fields } = await readStep(world, id, 'review')
    const word = fields.find((field) => field.id === 'confirm')
    const confirm = word?.type === 'input' ? (word.data.defaultValue ?? '') : ''
    await world.project.set('development', { DELTA: 'four' })
    expect((await submitStep(world, id, 'review', { confirm })).status).toBe(400)
    await walk(world, id, 'review', {})
    expect((await readSync(world, id)).state).toBe('active')
  })

  test('deletes an abandoned setup after a day; an active sync loses only its unconfirmed changes', async () => {
    const { service } = world
    const draft = await startSetup(world)
    await submitStep(world, draft, 'auth', world.fake.credential)
    const live = await setUp()
    await submitStep(world, live, 'mapping', { environment: development(), prefix: 'X_' })
    service.clock.offsetMs += 24 * hourMs - 60_000
    const again = await service.call<{ accessToken: string }>('POST', '/v1/auth/login', {
      body: { email: world.owner.email, password: 'correct horse battery staple' },
    })
    const token = again.body.accessToken
    await cleanUp(service.app.services)
    expect((await world.project.ask('GET', `/sync/${draft}`, undefined, token)).status).toBe(200)
    service.clock.offsetMs += 120_000
    await cleanUp(service.app.services)
    expect((await world.project.ask('GET', `/sync/${draft}`, undefined, token)).status).toBe(404)
    const { store } = service.app.services
    const row = await store.syncs.find(live)
    expect(row && (await store.syncs.open(row)).draft).toBeNull()
    expect((await world.project.ask('GET', `/sync/${live}`, undefined, token)).body).toMatchObject({ state: 'active' })
    service.clock.offsetMs = 0
  })

  test('applies changes to an active sync only with the last step', async () => {
    const id = await setUp()
    await pushDue(world)
    await submitStep(world, id, 'mapping', { environment: development(), prefix: 'X_' })
    await world.project.set('development', { ALPHA: 'new' })
    await pushDue(world, debounceMs)
    expect(state()).toEqual({ ALPHA: 'new', BETA: 'two', GAMMA: 'three' })
    await walk(world, id, 'review', {})
    await pushDue(world)
    expect(state()).toEqual({ X_ALPHA: 'new', X_BETA: 'two', X_GAMMA: 'three' })
  })

  test('keeps the existing entries when the target is chosen again', async () => {
    const id = await setUp({ include: 'ALPHA' })
    await pushDue(world)
    const old = state()
    await walk(world, id, 'target', { include: 'ALPHA', environment: development() })
    await pushDue(world)
    expect(state()).toEqual(old)
  })

  test('is hidden from people who cannot read the environment, and from other tenants', async () => {
    const { service, project } = world
    const id = await setUp()
    const stranger = await addUser(service, `stranger-${id}@example.com`)
    for (const step of ['auth', 'target', 'mapping', 'review']) {
      expect((await service.call('GET', flowPath('heroku', id, step), { token: stranger.session })).status).toBe(404)
      expect((await submitStep(world, id, step, {}, stranger.session)).status).toBe(404)
    }
    const scope = { all: false, teams: [], projects: [], environments: [project.idOf('staging')] }
    const snapshot = await service.app.services.snapshots.get(await workspaceId())
    expect(snapshot?.environments.has(project.idOf('staging'))).toBe(true)
    const narrow = await addUser(service, `narrow-${id}@example.com`, {
      workspaceId: await workspaceId(),
      role: 'admin',
      scope,
    })
    expect((await project.ask<unknown[]>('GET', '/sync', undefined, narrow.session)).body).toEqual([])
    expect((await submitStep(world, id, 'mapping', { environment: development() }, narrow.session)).status).toBe(404)
  })
})

const workspaceId = async () => {
  const answer = await world.service.call<{ id: string }>('GET', '/v1/workspace/main', { token: world.owner.session })
  return answer.body.id
}
