/**
 * A sync pushes on behalf of the person who confirmed it. People who write into its environment must not gain that
 * access: a reference reaches no further than its author can read.
 */
import type { AuditEntry } from '@coffer/contract/audit'
import type { Scope } from '@coffer/contract/field'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { createDice, pick } from '../../../../../test/dice.ts'
import { addUser, type TestUser } from '../../../../../test/harness.ts'
import { loopbackAllowed } from '../../../../../test/issuer.ts'
import {
  flowPath,
  pushDue,
  readSync,
  type SyncWorld,
  setUpSync,
  startSetup,
  startSyncWorld,
  submitStep,
} from '../../../../../test/sync.ts'
import { fakeHeroku } from '../../../../../test/vendor/fake/heroku.ts'
import { heroku } from '../../../providers/heroku.ts'
import { sql } from '../../../store/engine/sql.ts'

const debounceMs = 15_000
const password = 'only for production'

let world: SyncWorld & { stop(): Promise<void> }
let workspaceId: string
beforeAll(async () => {
  const fake = fakeHeroku()
  // The identity issuer is reached through the same outbound.
  Object.assign(fake, { hosts: [...fake.hosts, '127.0.0.1'] })
  world = await startSyncWorld(heroku, fake, loopbackAllowed)
  const { service, owner } = world
  const workspace = await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: owner.session })
  workspaceId = workspace.body.id
})
afterAll(() => world.stop())

const state = () => Object.fromEntries(world.fake.state())
const clear = () => {
  for (const name of world.fake.state().keys()) world.fake.tamper(name, undefined)
}

/** No sync and no secret of an earlier test is left, and the target is empty. */
beforeEach(async () => {
  const { project } = world
  for (const { id } of await project.must<{ id: string }[]>('GET', '/sync')) await project.must('DELETE', `/sync/${id}`)
  for (const environment of ['development', 'staging', 'production']) {
    for (const key of Object.keys(await project.state(environment)))
      await project.must('DELETE', `/secret/${key}?purge=true`)
  }
  await project.set('production', { DB_PASSWORD: password })
  await project.set('staging', { HOST: 'staging host' })
  await project.set('development', { ALPHA: 'one' })
  clear()
})

const scopeOf = (...environments: string[]): Scope => ({
  all: false,
  teams: [],
  projects: [],
  environments: environments.map((name) => world.project.idOf(name)),
})

let people = 0
const addDeveloper = (...environments: string[]) =>
  addUser(world.service, `developer-${++people}@example.com`, {
    workspaceId,
    role: 'developer',
    scope: scopeOf(...environments),
  })

const write = (environment: string, values: Record<string, string>, token = world.owner.session) =>
  world.project.must<{ results: { status: string; version: number }[] }>(
    'POST',
    '/secret',
    {
      environments: [environment],
      mode: 'upsert',
      secrets: Object.entries(values).map(([key, value]) => ({ key, value })),
    },
    token,
  )

const changeScope = (user: TestUser, scope: Scope) =>
  world.service.call('PUT', `/v1/workspace/main/rbac/${user.memberId}`, {
    token: world.owner.session,
    body: { role: 'developer', scope },
  })
async function removeMember(user: TestUser): Promise<void> {
  const path = `/v1/workspace/main/rbac/${user.memberId}`
  expect((await world.service.call('DELETE', path, { token: world.owner.session })).status).toBe(200)
}

/** A reference as it is written in a value. */
const refer = (name: string) => `\${${name}}`
const passwordReference = refer('production.DB_PASSWORD')
const remedyFor = (place: string) =>
  `To fix it, someone who can read it must delete and re-create the value of ${place}, or an admin must widen the scope of its author.`
/**
 * The stored error reveals no more than the value itself; a plan says more to people who can read the referenced place.
 */
const refusal = `FLAG: refers to production.DB_PASSWORD, which cannot be resolved: it may not exist, or the author of FLAG cannot read it. ${remedyFor('FLAG')}`
const planRefusal = `FLAG: refers to production.DB_PASSWORD, which the author of FLAG cannot read. ${remedyFor('FLAG')}`

/** A sync of the owner, who can read everything, after its first push. */
async function startSync(): Promise<string> {
  const id = await setUpSync(world)
  await pushDue(world)
  expect(await readSync(world, id)).toMatchObject({ state: 'active' })
  return id
}

async function expectBlocked(id: string, message: string): Promise<void> {
  await pushDue(world, debounceMs)
  expect(await readSync(world, id)).toMatchObject({ state: 'blocked', lastError: message })
  expect(JSON.stringify(state())).not.toContain(password)
}

async function expectPushed(id: string, pushed: Record<string, string>): Promise<void> {
  await pushDue(world, debounceMs)
  expect(await readSync(world, id)).toMatchObject({ state: 'active', lastError: null })
  expect(state()).toEqual(pushed)
}

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

/** Entries pushed earlier stay at the target, so only the error is checked. */
async function expectBlockedStill(id: string): Promise<void> {
  await pushDue(world, debounceMs)
  expect(await readSync(world, id)).toMatchObject({ state: 'blocked', lastError: refusal })
}

describe('after its author has left', () => {
  test('a reference is still pushed', async () => {
    const developer = await addDeveloper('development', 'production')
    await write('development', { FLAG: passwordReference }, developer.session)
    const id = await startSync()
    expect(state()).toEqual({ ALPHA: 'one', FLAG: password })
    await removeMember(developer)
    await write('production', { DB_PASSWORD: 'another' })
    await expectPushed(id, { ALPHA: 'one', FLAG: 'another' })
  })

  test('a reference that its author could not read stays blocked', async () => {
    const developer = await addDeveloper('development')
    const id = await startSync()
    await write('development', { FLAG: passwordReference }, developer.session)
    await expectBlocked(id, refusal)
    await removeMember(developer)
    await expectBlocked(id, refusal)
  })
})

describe('a copied reference keeps its author', () => {
  const other = refer('staging.HOST')

  test('when an admin restores a version, a revision, or a secret from the trash, by itself or with a revision', async () => {
    const { project } = world
    const developer = await addDeveloper('development')
    const id = await startSync()
    await write('development', { FLAG: passwordReference }, developer.session)
    const [{ revision = 0 } = {}] = await project.revisions('development')
    await write('development', { FLAG: 'plain' })
    await expectPushed(id, { ALPHA: 'one', FLAG: 'plain' })
    const environmentId = project.idOf('development')
    await project.must('POST', '/secret/FLAG/version/1/restore', { environmentId })
    await expectBlockedStill(id)
    await write('development', { FLAG: 'plain' })
    await project.must('POST', `/environment/${environmentId}/revision/${revision}/restore`, {})
    await expectBlockedStill(id)
    await project.must('DELETE', '/secret/FLAG')
    await expectPushed(id, { ALPHA: 'one' })
    await project.must('POST', '/secret/FLAG/restore')
    await expectBlockedStill(id)
    await project.must('DELETE', '/secret/FLAG')
    await expectPushed(id, { ALPHA: 'one' })
    await project.must('POST', `/environment/${environmentId}/revision/${revision}/restore`, {})
    await expectBlockedStill(id)
    expect(JSON.stringify(state())).not.toContain(password)
  })

  test('when someone else renames it', async () => {
    const { project } = world
    const developer = await addDeveloper('development')
    const id = await startSync()
    await write('development', { FLAG: passwordReference }, developer.session)
    const operations = [{ op: 'rename', key: 'FLAG', to: 'SIGN' }]
    await project.must('POST', '/secret/batch', { environmentId: project.idOf('development'), operations })
    await expectBlocked(id, refusal.replaceAll('FLAG', 'SIGN'))
  })

  test('when it is promoted, and the person who promotes it must be able to read its target too', async () => {
    const { project } = world
    const developer = await addDeveloper('development', 'staging')
    const id = await setUpSync(world, {}, 'staging')
    await pushDue(world)
    await write('development', { FLAG: passwordReference }, developer.session)
    const promote = (key: string, token?: string) =>
      project.must(
        'POST',
        `/environment/${project.idOf('staging')}/promote`,
        { from: 'development', keys: [key] },
        token,
      )
    await promote('FLAG')
    await expectBlocked(id, refusal)
    await write('staging', { FLAG: 'plain' })
    await write('development', { OURS: passwordReference, THEIRS: other })
    await promote('THEIRS', developer.session)
    await expectPushed(id, { HOST: 'staging host', FLAG: 'plain', THEIRS: 'staging host' })
    await promote('OURS', developer.session)
    await expectBlocked(id, refusal.replaceAll('FLAG', 'OURS'))
  })
})

test('changing an author in the database makes the value unreadable', async () => {
  const { project, owner } = world
  const developer = await addDeveloper('development')
  const id = await startSync()
  await write('development', { FLAG: passwordReference }, developer.session)
  const put = (authors: string) =>
    run(sql`
      update secret_value set authors = ${authors}
      where environment_id = ${project.idOf('development')} and sealed is not null
        and secret_id in (select id from secret where name = 'FLAG')`)
  for (const authors of ['', `user:${owner.id}`, `user:${developer.id}`]) {
    await put(authors)
    await project.must('POST', `/sync/${id}/run`)
    await pushDue(world, debounceMs)
    expect((await readSync(world, id)).state).not.toBe('active')
    expect(state()).toEqual({ ALPHA: 'one' })
    expect((await project.ask('GET', '/secret?environmentId=development')).status).toBe(500)
  }
  await put(`user:${developer.id}!`)
  await project.must('POST', `/sync/${id}/run`)
  await expectBlocked(id, refusal)
})

const run = (query: ReturnType<typeof sql>) =>
  world.service.app.services.engine.transaction('test', ({ db }) => db.run(query))

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
}, 120_000)

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
