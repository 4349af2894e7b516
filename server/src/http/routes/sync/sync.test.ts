/** A sync from its first step to its removal, against a fake vendor over TLS. */
import type { AuditEntry } from '@coffer/contract/audit'
import type { SyncDetail, SyncPlan, SyncProvider, SyncRun, SyncRunDetail } from '@coffer/contract/sync'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { addUser, createToken } from '../../../../../test/harness.ts'
import { createSecretProject } from '../../../../../test/secret-project.ts'
import {
  flowPath,
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

const development = () => world.project.idOf('development')
const state = () => Object.fromEntries(world.fake.state())
const clear = () => {
  for (const name of world.fake.state().keys()) world.fake.tamper(name, undefined)
}

/** Each test starts with an empty target, three secrets and no sync. */
beforeEach(async () => {
  world.running.injectFailure = undefined
  world.fake.setTarget(true)
  world.fake.refusedNames.clear()
  clear()
  const { project } = world
  for (const { id } of await project.must<{ id: string }[]>('GET', '/sync')) await project.must('DELETE', `/sync/${id}`)
  for (const key of Object.keys(await project.state('development')))
    await project.must('DELETE', `/secret/${key}?purge=true`)
  await project.set('development', { ALPHA: 'one', BETA: 'two', GAMMA: 'three' })
  world.running.forget()
})

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

describe('an entry that the sync has not created', () => {
  test('is reported and left unchanged, under a pushed name or any other', async () => {
    world.fake.tamper('BETA', 'foreign')
    world.fake.tamper('OTHER', 'foreign too')
    const id = await setUp()
    await pushDue(world)
    expect(state()).toEqual({ ALPHA: 'one', BETA: 'foreign', GAMMA: 'three', OTHER: 'foreign too' })
    expect(await readSync(world, id)).toMatchObject({
      state: 'active',
      lastError: expect.stringMatching(/^Not changed at the target.*BETA/),
    })
    expect(await lastRun(world, id)).toMatchObject({ state: 'partial', counts: { created: 2, conflicts: 1 } })
    await world.project.remove('development', 'BETA')
    await world.project.remove('development', 'ALPHA')
    await pushDue(world, debounceMs)
    expect(state()).toEqual({ BETA: 'foreign', GAMMA: 'three', OTHER: 'foreign too' })
  })

  test('is adopted with onExisting=adopt, and stays when the sync releases it', async () => {
    world.fake.tamper('BETA', 'foreign')
    const id = await setUp({ onExisting: 'adopt' })
    await pushDue(world)
    expect(state()).toEqual({ ALPHA: 'one', BETA: 'two', GAMMA: 'three' })
    expect((await lastRun(world, id)).items).toContainEqual({ name: 'BETA', outcome: 'adopted', message: null })
    await world.project.remove('development', 'BETA')
    await pushDue(world, debounceMs)
    expect(state()).toEqual({ ALPHA: 'one', BETA: 'two', GAMMA: 'three' })
    await world.project.must('DELETE', `/sync/${id}?remove=true`)
    await pushDue(world)
    expect(state()).toEqual({ BETA: 'two' })
  })

  test('belongs to the sync once someone deleted it and the sync re-created it', async () => {
    world.fake.tamper('BETA', 'foreign')
    const id = await setUp({ onExisting: 'adopt', drift: 'repair' })
    await pushDue(world)
    world.fake.tamper('BETA', undefined)
    await world.project.must('POST', `/sync/${id}/run`)
    await pushDue(world)
    expect(state().BETA).toBe('two')
    await world.project.must('DELETE', `/sync/${id}?remove=true`)
    await pushDue(world)
    expect(state()).toEqual({})
  })

  test('is skipped with onExisting=skip', async () => {
    world.fake.tamper('BETA', 'foreign')
    const id = await setUp({ onExisting: 'skip' })
    await pushDue(world)
    expect(state().BETA).toBe('foreign')
    expect(await lastRun(world, id)).toMatchObject({ state: 'succeeded' })
  })

  test('is never adopted from another sync', async () => {
    await setUpSync(world, { include: 'ALPHA' }, 'development', 'First')
    await pushDue(world)
    await world.project.set('staging', { ALPHA: 'of staging' })
    const second = await setUpSync(world, { include: 'ALPHA', onExisting: 'adopt' }, 'staging', 'Second')
    await pushDue(world)
    expect(state()).toEqual({ ALPHA: 'one' })
    expect((await lastRun(world, second)).items).toEqual([
      { name: 'ALPHA', outcome: 'conflict', message: 'is already written by another sync.' },
    ])
  })
})

describe('drift', () => {
  const scan = () => pushDue(world, 8 * hourMs)
  /** Sessions expire before the clock gets this far. */
  const resetClock = async () => {
    world.service.clock.offsetMs = 0
  }

  test('is found by a scan and reported; a manual run resets it', async () => {
    const id = await setUp()
    await pushDue(world)
    world.fake.tamper('ALPHA', 'tampered')
    world.fake.tamper('BETA', undefined)
    await scan()
    expect(state()).toEqual({ ALPHA: 'tampered', GAMMA: 'three' })
    expect(await lastRun(world, id)).toMatchObject({
      trigger: 'drift',
      items: [
        { name: 'ALPHA', outcome: 'drifted' },
        { name: 'BETA', outcome: 'drifted' },
      ],
    })
    await world.project.must('POST', `/sync/${id}/run`)
    await pushDue(world)
    expect(state()).toEqual({ ALPHA: 'one', BETA: 'two', GAMMA: 'three' })
    await resetClock()
  })

  test('is reset automatically with drift=repair', async () => {
    await setUp({ drift: 'repair' })
    await pushDue(world)
    world.fake.tamper('ALPHA', 'tampered')
    await scan()
    expect(state().ALPHA).toBe('one')
    await resetClock()
  })

  test('keeps an entry that someone else changed from being deleted with its secret', async () => {
    await setUp()
    await pushDue(world)
    world.fake.tamper('ALPHA', 'now theirs')
    await world.project.remove('development', 'ALPHA')
    await pushDue(world, debounceMs)
    expect(state().ALPHA).toBe('now theirs')
  })
})

describe('many deletes at once', () => {
  test('wait until a person resumes the sync; a manual run is not enough', async () => {
    const values = Object.fromEntries(Array.from({ length: 12 }, (_, index) => [`KEY_${index}`, 'x']))
    await world.project.set('development', values)
    const id = await setUp()
    await pushDue(world)
    expect(Object.keys(state())).toHaveLength(15)
    for (const key of Object.keys(values)) await world.project.remove('development', key)
    await pushDue(world, debounceMs)
    expect(Object.keys(state())).toHaveLength(15)
    expect(await readSync(world, id)).toMatchObject({
      state: 'blocked',
      lastError: expect.stringMatching(/^This run would delete 12 of 15 entries at the target, so nothing was done\./),
    })
    const plan = await world.project.must<SyncPlan>('POST', `/sync/${id}/plan`)
    expect([plan.delete.length, plan.unchanged.length]).toEqual([12, 3])
    await world.project.must('POST', `/sync/${id}/run`)
    await pushDue(world)
    expect(Object.keys(state())).toHaveLength(15)
    await world.project.must('POST', `/sync/${id}/resume`)
    await pushDue(world)
    expect(state()).toEqual({ ALPHA: 'one', BETA: 'two', GAMMA: 'three' })
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
    const id = await setUp()
    await pushDue(world)
    expect(state()).toEqual({ ALPHA: 'one', GAMMA: 'three' })
    const run = await lastRun(world, id)
    expect(run.items.find(({ name }) => name === 'BETA')).toMatchObject({ outcome: 'failed' })
    expect(JSON.stringify(run)).not.toContain('is two')
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

describe('pause, resume, run and removal', () => {
  test('a paused sync pushes nothing; once resumed, it pushes everything', async () => {
    const id = await setUp()
    await pushDue(world)
    await world.project.must('POST', `/sync/${id}/pause`)
    await world.project.set('development', { ALPHA: 'later' })
    await pushDue(world, hourMs)
    expect(state().ALPHA).toBe('one')
    expect(await readSync(world, id)).toMatchObject({ state: 'paused', nextRunAt: null })
    await world.project.must('POST', `/sync/${id}/resume`)
    await pushDue(world)
    expect(state().ALPHA).toBe('later')
    world.service.clock.offsetMs = 0
  })

  test.each([
    ['pause', 'draft'],
    ['resume', 'draft'],
    ['run', 'draft'],
    ['plan', 'draft'],
    ['resume', 'active'],
    ['run', 'paused'],
    ['pause', 'paused'],
    ['plan', 'removing'],
    ['run', 'removing'],
    ['pause', 'removing'],
    ['resume', 'removing'],
  ])('%s of a sync that is %s is 409', async (what, from) => {
    const id = from === 'draft' ? await startSetup(world) : await setUp()
    if (from === 'paused') await world.project.must('POST', `/sync/${id}/pause`)
    if (from === 'removing') await world.project.must('DELETE', `/sync/${id}?remove=true`)
    expect((await world.project.ask('POST', `/sync/${id}/${what}`)).status).toBe(409)
  })

  test('deleting a sync keeps its entries; remove=true deletes those that it created, and no others', async () => {
    world.fake.tamper('OTHER', 'foreign')
    const first = await setUp()
    await pushDue(world)
    await world.project.must('DELETE', `/sync/${first}`)
    await pushDue(world)
    expect(Object.keys(state())).toHaveLength(4)
    expect((await world.project.ask('GET', `/sync/${first}`)).status).toBe(404)
    clear()
    world.fake.tamper('OTHER', 'foreign')
    const second = await setUp()
    await pushDue(world)
    await world.project.must('DELETE', `/sync/${second}?remove=true`)
    expect(await readSync(world, second)).toMatchObject({ state: 'removing' })
    await pushDue(world)
    expect(state()).toEqual({ OTHER: 'foreign' })
    expect((await world.project.ask('GET', `/sync/${second}`)).status).toBe(404)
  })

  test('with remove=true, the sync stays until all entries that it created are deleted', async () => {
    const id = await setUp()
    await pushDue(world)
    world.fake.refusedNames.add('BETA')
    await world.project.must('DELETE', `/sync/${id}?remove=true`)
    await pushDue(world)
    expect(state()).toEqual({ BETA: 'two' })
    expect(await readSync(world, id)).toMatchObject({
      state: 'removing',
      lastError: expect.stringMatching(/^BETA: .*delete the sync again without remove\.$/),
    })
    expect(await lastRun(world, id)).toMatchObject({ trigger: 'remove', state: 'partial', counts: { failed: 1 } })
    await pushDue(world, 25 * hourMs)
    world.fake.refusedNames.clear()
    await pushDue(world, 25 * hourMs)
    expect(state()).toEqual({})
    world.service.clock.offsetMs = 0
    expect((await world.project.ask('GET', `/sync/${id}`)).status).toBe(404)
  })

  test('a refused credential during a removal is retried, and deleting without remove still works', async () => {
    const id = await setUp()
    await pushDue(world)
    world.running.injectFailure = () => ({ kind: 'answer', answer: { status: 401 } })
    await world.project.must('DELETE', `/sync/${id}?remove=true`)
    await pushDue(world)
    expect(await readSync(world, id)).toMatchObject({
      state: 'removing',
      lastError: expect.stringMatching(
        /^Heroku answered 401\. It will be retried automatically\. .* without remove\.$/,
      ),
    })
    await world.project.must('DELETE', `/sync/${id}`)
    expect((await world.project.ask('GET', `/sync/${id}`)).status).toBe(404)
  })

  test('runs are listed newest first, page by page', async () => {
    const id = await setUp()
    await pushDue(world)
    for (let index = 0; index < 5; index++) {
      await world.project.set('development', { ALPHA: `value ${index}` })
      await pushDue(world, debounceMs)
    }
    const seen: string[] = []
    let cursor = ''
    do {
      const page = await world.project.ask<SyncRun[]>('GET', `/sync/${id}/run?limit=2${cursor}`)
      expect(page.body.length).toBeLessThanOrEqual(2)
      seen.push(...page.body.map((run) => run.id))
      const next = page.headers.get('x-next-cursor')
      cursor = next === null ? '' : `&cursor=${next}`
    } while (cursor !== '')
    expect(seen).toHaveLength(6)
    expect(seen).toEqual(seen.toSorted().reverse())
    expect((await world.project.ask('GET', `/sync/${id}/run?cursor=abc`)).status).toBe(400)
  })

  test('the list of runs does not load the items of each run', async () => {
    const id = await setUp()
    await pushDue(world)
    const [run] = await world.service.app.services.store.syncRuns.list(id, 'z', 1)
    expect(run).toMatchObject({ syncId: id, state: 'succeeded' })
    expect(run).not.toHaveProperty('items')
    const { items } = await world.project.must<SyncRunDetail>('GET', `/sync/${id}/run/${run?.id}`)
    expect(items).toContainEqual({ name: 'ALPHA', outcome: 'created', message: null })
  })
})

describe('permissions', () => {
  test('a sync is blocked, with a message, once its creator can no longer read the environment', async () => {
    const { service, owner, project } = world
    const workspace = await workspaceId()
    const maker = await addUser(service, `maker-${Date.now()}@example.com`, { workspaceId: workspace, role: 'admin' })
    const theirs = { ...world, owner: maker }
    const id = await setUpSync(theirs)
    await pushDue(world)
    expect(state().ALPHA).toBe('one')
    const scope = { all: false, environments: [project.idOf('staging')] }
    const options = { token: owner.session, body: { role: 'admin', scope } }
    const changed = await service.call('PUT', `/v1/workspace/main/rbac/${maker.memberId}`, options)
    expect(changed.status).toBe(200)
    await project.set('development', { ALPHA: 'not for them' })
    await pushDue(world, debounceMs)
    expect(state().ALPHA).toBe('one')
    expect(await readSync(world, id)).toMatchObject({
      state: 'blocked',
      lastError: expect.stringMatching(/can no longer read its environment/),
    })
  })

  test('a sync created by a token reaches no further than the token, also through references', async () => {
    const { service, owner, project } = world
    await project.set('staging', { HIDDEN: 'not for the token' })
    const scope = { all: false, environments: [development()] }
    const { token } = await createToken(service, owner.session, { scope })
    const theirs = { ...world, owner: { ...owner, session: token } }
    const id = await setUpSync(theirs)
    await pushDue(world)
    await project.set('development', { ALPHA: `\${staging.HIDDEN}` })
    await pushDue(world, debounceMs)
    expect(await readSync(world, id)).toMatchObject({ state: 'blocked' })
    expect(JSON.stringify(state())).not.toContain('not for the token')
  })

  test('deleting an environment deletes its syncs, and nothing at the target', async () => {
    const { project } = world
    const created = await project.must<{ id: string }>('POST', '/environment', { name: 'doomed' })
    await project.set('doomed', { ALPHA: 'x' })
    const id = await startSetup(world)
    await walk(world, id, 'auth', { environment: created.id })
    await pushDue(world)
    expect(state()).toEqual({ ALPHA: 'x' })
    const kept = await setUp({ include: 'BETA' })
    await project.must('DELETE', `/environment/${created.id}`)
    expect((await project.ask('GET', `/sync/${id}`)).status).toBe(404)
    expect(await project.must('GET', '/sync')).toMatchObject([{ id: kept }])
    await pushDue(world, hourMs)
    expect(state()).toEqual({ ALPHA: 'x', BETA: 'two' })
    const asked = { token: world.owner.session }
    const path = `/v1/workspace/main/audit?action=DELETE&entity=sync&limit=1`
    expect((await world.service.call<AuditEntry[]>('GET', path, asked)).body).toMatchObject([{ entity: { id } }])
    world.service.clock.offsetMs = 0
  })

  test('deleting a project deletes its syncs, each with an entry in the audit trail', async () => {
    const { service, owner } = world
    const asked = { token: owner.session }
    const doomed = await createSecretProject(service, owner.session)
    const theirs = { ...world, project: doomed }
    await doomed.set('development', { ALPHA: 'x' })
    const id = await startSetup(theirs)
    await walk(theirs, id, 'auth', { environment: doomed.idOf('development') })
    await doomed.must('DELETE', '')
    const path = `/v1/workspace/main/audit?action=DELETE&entity=sync&limit=1`
    const { body } = await service.call<AuditEntry[]>('GET', path, asked)
    expect(body).toMatchObject([{ entity: { id }, projectId: doomed.id, environmentId: doomed.idOf('development') }])
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
