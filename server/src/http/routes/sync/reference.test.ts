/**
 * A sync pushes on behalf of the person who confirmed it. People who write into its environment must not gain that
 * access: a reference reaches no further than its author can read.
 */
import type { AuditEntry } from '@coffer/contract/audit'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { createDice, pick } from '../../../../../test/dice.ts'
import {
  debounceMs,
  password,
  passwordReference,
  type ReferenceWorld,
  refer,
  referenceActions,
  refusal,
  remedyFor,
  resetReferences,
  startReferenceWorld,
} from '../../../../../test/reference-world.ts'
import { flowPath, pushDue, readSync, setUpSync, startSetup, submitStep } from '../../../../../test/sync.ts'

let world: ReferenceWorld
beforeAll(async () => {
  world = await startReferenceWorld()
})
afterAll(() => world.stop())
beforeEach(() => resetReferences(world))

const { addDeveloper, changeScope, expectBlocked, expectBlockedStill, expectPushed, scopeOf, startSync, state, write } =
  referenceActions(() => world)
const planRefusal = `FLAG: refers to production.DB_PASSWORD, which the author of FLAG cannot read. ${remedyFor('FLAG')}`

describe('a reference whose author cannot read its target', () => {
  test('is stored but never pushed: not by a run, not by a plan, not by a review', async () => {
    const { service, owner, project, fake } = world
    const developer = await addDeveloper('development')
    const id = await startSync()
    const peek = await project.ask('GET', '/secret?environmentId=production', undefined, developer.session)
    expect(peek.status).toBe(404)
    await write('development', { FLAG: passwordReference }, developer.session)
    await expectBlocked(id, refusal)
    expect(state()).toEqual({ ALPHA: 'one' })
    expect(await project.ask('POST', `/sync/${id}/plan`)).toMatchObject({ status: 409, body: { message: planRefusal } })

    const another = await startSetup(world, 'Another')
    await submitStep(world, another, 'auth', fake.credential)
    await submitStep(world, another, 'target', fake.target)
    await submitStep(world, another, 'mapping', { ...fake.options, environment: project.idOf('development') })
    const review = await service.call('GET', flowPath(world.slug, another, 'review'), { token: owner.session })
    expect(review).toMatchObject({ status: 409, body: { message: planRefusal } })
    const confirmed = await submitStep(world, another, 'review', { confirm: 'x' })
    expect(confirmed).toMatchObject({ status: 409, body: { message: planRefusal } })
  })

  test('is pushed once someone who can read the target writes a different value', async () => {
    const developer = await addDeveloper('development')
    const id = await startSync()
    await write('development', { FLAG: passwordReference }, developer.session)
    await expectBlocked(id, refusal)
    const { results } = await write('development', { FLAG: `db:${passwordReference}` })
    expect(results).toMatchObject([{ status: 'updated', version: 2 }])
    await expectPushed(id, { ALPHA: 'one', FLAG: `db:${password}` })
  })

  test('is pushed unchanged once someone who can read the target deletes and re-creates it', async () => {
    const { project } = world
    const developer = await addDeveloper('development')
    const id = await startSync()
    await write('development', { FLAG: passwordReference }, developer.session)
    await expectBlocked(id, refusal)
    // Writing an equal value changes nothing, not even the author.
    expect((await write('development', { FLAG: passwordReference })).results).toMatchObject([
      { status: 'unchanged', version: 1 },
    ])
    await project.must('POST', `/sync/${id}/run`)
    await expectBlocked(id, refusal)
    await project.must('DELETE', `/secret/FLAG?environmentId=${project.idOf('development')}`)
    expect((await write('development', { FLAG: passwordReference })).results).toMatchObject([
      { status: 'created', version: 3 },
    ])
    await expectPushed(id, { ALPHA: 'one', FLAG: password })
  })

  test('is blocked after a single write too, and writing an equal value keeps its author', async () => {
    const { project } = world
    const developer = await addDeveloper('development')
    const id = await startSync()
    await write('development', { FLAG: 'plain' })
    const put = (value: string, token?: string) => {
      const body = { environmentId: project.idOf('development'), value }
      return project.must<{ version: number }>('PUT', '/secret/FLAG/value', body, token)
    }
    expect(await put(passwordReference, developer.session)).toMatchObject({ version: 2 })
    await expectBlocked(id, refusal)
    expect(await put(passwordReference)).toMatchObject({ version: 2 })
    expect(await put(`db:${passwordReference}`)).toMatchObject({ version: 3 })
    await expectPushed(id, { ALPHA: 'one', FLAG: `db:${password}` })
    expect(await put(`db:${passwordReference}`, developer.session)).toMatchObject({ version: 3 })
    await project.must('POST', `/sync/${id}/run`)
    await expectPushed(id, { ALPHA: 'one', FLAG: `db:${password}` })
  })

  test('is pushed as long as its author can read the target, and blocked again afterwards', async () => {
    const developer = await addDeveloper('development')
    const id = await startSync()
    await write('development', { FLAG: passwordReference }, developer.session)
    await expectBlocked(id, refusal)
    expect((await changeScope(developer, scopeOf('development', 'production'))).status).toBe(200)
    await expectPushed(id, { ALPHA: 'one', FLAG: password })
    await changeScope(developer, scopeOf('development'))
    await expectBlockedStill(id)
  })

  test('needs no further permission within its own environment', async () => {
    const developer = await addDeveloper('development')
    const id = await startSync()
    await write('development', { FLAG: `${refer('ALPHA')} ${refer('development.ALPHA')}` }, developer.session)
    await expectPushed(id, { ALPHA: 'one', FLAG: 'one one' })
  })
})

test('with random authors and scopes, nothing is pushed through a place that an author on the way cannot read', async () => {
  const environments = ['development', 'staging', 'production']
  const writers = [
    { reads: ['development'], user: await addDeveloper('development') },
    { reads: ['development', 'staging'], user: await addDeveloper('development', 'staging') },
    { reads: ['staging', 'production'], user: await addDeveloper('staging', 'production') },
    ...Array.from({ length: 4 }, () => ({ reads: environments, user: world.owner })),
  ]
  type Written = { text: string; refersTo?: string; reads: string[] }
  const values = new Map<string, Written>()
  const dice = createDice(20_261_115)
  const id = await startSync()
  let pushed = state()
  const outcomes = { active: 0, blocked: 0 }

  /** Undefined if an author on the way cannot read a place, or if nothing is there. */
  function follow(environment: string, key: string, readers: readonly string[] = environments): string | undefined {
    const value = values.get(`${environment}.${key}`)
    if (!value?.refersTo) return value?.text
    const [there = '', name = ''] = value.refersTo.split('.')
    const reads = readers.filter((one) => value.reads.includes(one))
    return reads.includes(there) ? follow(there, name, reads) : undefined
  }

  values.set('development.ALPHA', { text: 'one', reads: environments })
  values.set('staging.HOST', { text: 'staging host', reads: environments })
  values.set('production.DB_PASSWORD', { text: password, reads: environments })
  const leaves = [...values.keys()]
  for (let round = 0; round < 40; round++) {
    const { reads, user } = pick(writers, dice)
    const environment = pick(reads, dice)
    // Keys refer only to later keys, so there are no cycles.
    const key = dice(3)
    const behind = environments.flatMap((name) =>
      [0, 1, 2].filter((other) => other > key).map((other) => `${name}.K${other}`),
    )
    const targets = [...leaves, ...behind.filter((name) => values.has(name))]
    const refersTo = pick(targets, dice)
    values.set(`${environment}.K${key}`, { text: '', refersTo, reads })
    await write(environment, { [`K${key}`]: refer(refersTo) }, user.session)
    await pushDue(world, debounceMs)
    const keys = [...values.keys()].flatMap((name) => (name.startsWith('development.') ? [name.slice(12)] : []))
    const wanted = keys.map((name) => [name, follow('development', name)] as const)
    const isWhole = wanted.every(([, value]) => value !== undefined)
    if (isWhole) pushed = Object.fromEntries(wanted.map(([name, value]) => [name, value ?? '']))
    expect(state(), `round ${round}`).toEqual(pushed)
    const { state: now } = await readSync(world, id)
    expect(now, `round ${round}`).toBe(isWhole ? 'active' : 'blocked')
    outcomes[isWhole ? 'active' : 'blocked']++
  }
  expect(Math.min(outcomes.active, outcomes.blocked)).toBeGreaterThan(5)
})

describe('the audit trail of a push', () => {
  const lastPush = async () => {
    const path = '/v1/workspace/main/audit?action=PUSH&limit=1'
    const { body } = await world.service.call<AuditEntry[]>('GET', path, { token: world.owner.session })
    return body[0]?.after
  }

  test('names the values that were included by reference, only in pushes that contain them', async () => {
    const { slug, idOf } = world.project
    await write('staging', { URL: `db:${passwordReference}` })
    const id = await startSync()
    expect(await lastPush()).toEqual({ create: ['ALPHA'] })
    await write('development', { FLAG: refer('staging.URL'), HOST: refer('staging.HOST') })
    await pushDue(world, debounceMs)
    expect(await lastPush()).toEqual({
      create: ['FLAG', 'HOST'],
      referenced: [`${slug}.staging.URL`, `${slug}.staging.HOST`, `${slug}.production.DB_PASSWORD`],
      environmentIds: [idOf('development'), idOf('staging'), idOf('production')],
    })
    await write('staging', { HOST: 'another host' })
    await pushDue(world, debounceMs)
    expect(await lastPush()).toEqual({
      update: ['HOST'],
      referenced: [`${slug}.staging.HOST`],
      environmentIds: [idOf('development'), idOf('staging')],
    })
    await write('development', { ALPHA: 'two' })
    await expectPushed(id, { ALPHA: 'two', FLAG: `db:${password}`, HOST: 'another host' })
    expect(await lastPush()).toEqual({ update: ['ALPHA'] })
  })

  test('names them also for a combined entry and for keys that are not pushed themselves', async () => {
    const { slug, idOf } = world.project
    await write('development', { FLAG: passwordReference, LOCAL: 'x', BETA: refer('LOCAL') })
    await setUpSync(world, { mode: 'json', objectName: 'ALL', exclude: 'LOCAL' })
    await pushDue(world)
    expect(await lastPush()).toEqual({
      create: ['ALL'],
      referenced: [`${slug}.development.LOCAL`, `${slug}.production.DB_PASSWORD`],
      environmentIds: [idOf('development'), idOf('production')],
    })
  })
})

test('a share keeps a reference that its author cannot read as text', async () => {
  const developer = await addDeveloper('development')
  await write('development', { OWN: `is ${passwordReference}` })
  const texts = { FLAG: `see ${passwordReference}`, HOME: `at ${refer('ALPHA')}`, WAY: `by ${refer('OWN')}` }
  await write('development', texts, developer.session)
  const environmentId = world.project.idOf('development')
  const listed = await world.project.must<{ id: string; name: string }[]>('GET', '/secret?environmentId=development')
  const wanted = ['FLAG', 'HOME', 'OWN', 'WAY'].map((key) => listed.find(({ name }) => name === key)?.id)
  const secrets = wanted.map((id) => ({ id, environmentId }))
  const { token } = await world.project.must<{ token: string }>('POST', '/secret-share', { secrets, expiresIn: 300 })
  const opened = await world.service.call('POST', `/v1/share/${token}/view`, { body: {} })
  expect(opened.body).toMatchObject({
    secrets: [
      { name: 'FLAG', value: `see ${passwordReference}` },
      { name: 'HOME', value: 'at one' },
      { name: 'OWN', value: `is ${password}` },
      { name: 'WAY', value: texts.WAY },
    ],
  })
})
