/**
 * A sync pushes in the name of whoever confirmed it. Nobody who writes into its environment borrows their eyes: a reference
 * leads no further than whoever wrote it may read.
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
  // An issuer of identities is reached by the same door.
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

/** The project of before is gone with what was written there; the target is empty. */
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

/** As `name` would see it from outside: the member with another scope, or no member any more. */
const changeScope = (user: TestUser, scope: Scope) =>
  world.service.call('PUT', `/v1/workspace/main/rbac/${user.memberId}`, {
    token: world.owner.session,
    body: { role: 'developer', scope },
  })
async function removeMember(user: TestUser): Promise<void> {
  const path = `/v1/workspace/main/rbac/${user.memberId}`
  expect((await world.service.call('DELETE', path, { token: world.owner.session })).status).toBe(200)
}

/** What refers to it, as a value holds it. */
const refer = (name: string) => `\${${name}}`
const leads = refer('production.DB_PASSWORD')
const remedyFor = (place: string) =>
  `To fix it, someone who can read it must delete and re-create the value of ${place}, or an admin must widen the scope of its author.`
/** What is kept says no more than the value itself does; who asks and reaches where it leads is told that it is there. */
const refusal = `FLAG: refers to production.DB_PASSWORD, which cannot be resolved: it may not exist, or the author of FLAG cannot read it. ${remedyFor('FLAG')}`
const toldRefusal = `FLAG: refers to production.DB_PASSWORD, which the author of FLAG cannot read. ${remedyFor('FLAG')}`

/** A sync of the owner, who reads everything, that has pushed what was there before. */
async function running(): Promise<string> {
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

describe('a reference by somebody who may not read where it leads', () => {
  test('is stored, but pushes nothing: neither in a run, nor in a plan, nor past a review', async () => {
    const { service, owner, project, fake } = world
    const developer = await addDeveloper('development')
    const id = await running()
    const peek = await project.ask('GET', '/secret?environmentId=production', undefined, developer.session)
    expect(peek.status).toBe(404)
    await write('development', { FLAG: leads }, developer.session)
    await expectBlocked(id, refusal)
    expect(state()).toEqual({ ALPHA: 'one' })
    expect(await project.ask('POST', `/sync/${id}/plan`)).toMatchObject({ status: 409, body: { message: toldRefusal } })

    const another = await startSetup(world, 'Another')
    await submitStep(world, another, 'auth', fake.credential)
    await submitStep(world, another, 'target', fake.target)
    await submitStep(world, another, 'mapping', { ...fake.options, environment: project.idOf('development') })
    const review = await service.call('GET', flowPath(world.slug, another, 'review'), { token: owner.session })
    expect(review).toMatchObject({ status: 409, body: { message: toldRefusal } })
    const confirmed = await submitStep(world, another, 'review', { confirm: 'x' })
    expect(confirmed).toMatchObject({ status: 409, body: { message: toldRefusal } })
  })

  test('is pushed once somebody who may has written other words', async () => {
    const developer = await addDeveloper('development')
    const id = await running()
    await write('development', { FLAG: leads }, developer.session)
    await expectBlocked(id, refusal)
    const { results } = await write('development', { FLAG: `db:${leads}` })
    expect(results).toMatchObject([{ status: 'updated', version: 2 }])
    await expectPushed(id, { ALPHA: 'one', FLAG: `db:${password}` })
  })

  test('is pushed in the same words once somebody who may has deleted it and written it anew', async () => {
    const { project } = world
    const developer = await addDeveloper('development')
    const id = await running()
    await write('development', { FLAG: leads }, developer.session)
    await expectBlocked(id, refusal)
    // Equal is unchanged, and stays theirs.
    expect((await write('development', { FLAG: leads })).results).toMatchObject([{ status: 'unchanged', version: 1 }])
    await project.must('POST', `/sync/${id}/run`)
    await expectBlocked(id, refusal)
    await project.must('DELETE', `/secret/FLAG?environmentId=${project.idOf('development')}`)
    expect((await write('development', { FLAG: leads })).results).toMatchObject([{ status: 'created', version: 3 }])
    await expectPushed(id, { ALPHA: 'one', FLAG: password })
  })

  test('in a single write, too; and who writes again what others wrote changes nothing', async () => {
    const { project } = world
    const developer = await addDeveloper('development')
    const id = await running()
    await write('development', { FLAG: 'plain' })
    const put = (value: string, token?: string) => {
      const body = { environmentId: project.idOf('development'), value }
      return project.must<{ version: number }>('PUT', '/secret/FLAG/value', body, token)
    }
    expect(await put(leads, developer.session)).toMatchObject({ version: 2 })
    await expectBlocked(id, refusal)
    expect(await put(leads)).toMatchObject({ version: 2 })
    expect(await put(`db:${leads}`)).toMatchObject({ version: 3 })
    await expectPushed(id, { ALPHA: 'one', FLAG: `db:${password}` })
    expect(await put(`db:${leads}`, developer.session)).toMatchObject({ version: 3 })
    await project.must('POST', `/sync/${id}/run`)
    await expectPushed(id, { ALPHA: 'one', FLAG: `db:${password}` })
  })

  test('is pushed once they may read it, and no longer when they may not', async () => {
    const developer = await addDeveloper('development')
    const id = await running()
    await write('development', { FLAG: leads }, developer.session)
    await expectBlocked(id, refusal)
    expect((await changeScope(developer, scopeOf('development', 'production'))).status).toBe(200)
    await expectPushed(id, { ALPHA: 'one', FLAG: password })
    await changeScope(developer, scopeOf('development'))
    await expectBlockedStill(id)
  })

  test('within its own environment needs no other right', async () => {
    const developer = await addDeveloper('development')
    const id = await running()
    await write('development', { FLAG: `${refer('ALPHA')} ${refer('development.ALPHA')}` }, developer.session)
    await expectPushed(id, { ALPHA: 'one', FLAG: 'one one' })
  })
})

/** What was pushed before stays: only the message tells. */
async function expectBlockedStill(id: string): Promise<void> {
  await pushDue(world, debounceMs)
  expect(await readSync(world, id)).toMatchObject({ state: 'blocked', lastError: refusal })
}

describe('of somebody who has left', () => {
  test('what they wrote goes on being pushed', async () => {
    const developer = await addDeveloper('development', 'production')
    await write('development', { FLAG: leads }, developer.session)
    const id = await running()
    expect(state()).toEqual({ ALPHA: 'one', FLAG: password })
    await removeMember(developer)
    await write('production', { DB_PASSWORD: 'another' })
    await expectPushed(id, { ALPHA: 'one', FLAG: 'another' })
  })

  test('but not what they could not read when they wrote it: by going, nobody gets further', async () => {
    const developer = await addDeveloper('development')
    const id = await running()
    await write('development', { FLAG: leads }, developer.session)
    await expectBlocked(id, refusal)
    await removeMember(developer)
    await expectBlocked(id, refusal)
  })
})

describe('a copy stays a reference of whoever wrote it', () => {
  const other = refer('staging.HOST')

  test('when an admin restores a version or a revision, or takes the secret out of the trash, by itself or by a revision', async () => {
    const { project } = world
    const developer = await addDeveloper('development')
    const id = await running()
    await write('development', { FLAG: leads }, developer.session)
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

  test('when somebody else renames it', async () => {
    const { project } = world
    const developer = await addDeveloper('development')
    const id = await running()
    await write('development', { FLAG: leads }, developer.session)
    const operations = [{ op: 'rename', key: 'FLAG', to: 'SIGN' }]
    await project.must('POST', '/secret/batch', { environmentId: project.idOf('development'), operations })
    await expectBlocked(id, refusal.replaceAll('FLAG', 'SIGN'))
  })

  test('when it is promoted; and whoever copies it must be able to read it, too', async () => {
    const { project } = world
    const developer = await addDeveloper('development', 'staging')
    const id = await setUpSync(world, {}, 'staging')
    await pushDue(world)
    await write('development', { FLAG: leads }, developer.session)
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
    await write('development', { OURS: leads, THEIRS: other })
    await promote('THEIRS', developer.session)
    await expectPushed(id, { HOST: 'staging host', FLAG: 'plain', THEIRS: 'staging host' })
    await promote('OURS', developer.session)
    await expectBlocked(id, refusal.replaceAll('FLAG', 'OURS'))
  })
})

test('whoever changes in the database who wrote it makes it unreadable', async () => {
  const { project, owner } = world
  const developer = await addDeveloper('development')
  const id = await running()
  await write('development', { FLAG: leads }, developer.session)
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

test('whoever writes what, and may read what: nothing is pushed that leads through a place its writer may not read', async () => {
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
  const id = await running()
  let pushed = state()
  const outcomes = { active: 0, blocked: 0 }

  /** Undefined where it leads somewhere that any writer of the steps before may not read, or where nothing is. */
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
    // Keys refer only to those behind them: no circles.
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

describe('the audit trail', () => {
  const lastPush = async () => {
    const path = '/v1/workspace/main/audit?action=PUSH&limit=1'
    const { body } = await world.service.call<AuditEntry[]>('GET', path, { token: world.owner.session })
    return body[0]?.after
  }

  test('names what has left by way of references, with each push that takes it along and no other', async () => {
    const { slug, idOf } = world.project
    await write('staging', { URL: `db:${leads}` })
    const id = await running()
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

  test('also of what goes as one entry, and of what is not pushed by itself', async () => {
    const { slug, idOf } = world.project
    await write('development', { FLAG: leads, LOCAL: 'x', BETA: refer('LOCAL') })
    await setUpSync(world, { mode: 'json', objectName: 'ALL', exclude: 'LOCAL' })
    await pushDue(world)
    expect(await lastPush()).toEqual({
      create: ['ALL'],
      referenced: [`${slug}.development.LOCAL`, `${slug}.production.DB_PASSWORD`],
      environmentIds: [idOf('development'), idOf('production')],
    })
  })
})

test('nor does a share, which keeps such a reference as it stands', async () => {
  const developer = await addDeveloper('development')
  await write('development', { OWN: `is ${leads}` })
  const texts = { FLAG: `see ${leads}`, HOME: `at ${refer('ALPHA')}`, WAY: `by ${refer('OWN')}` }
  await write('development', texts, developer.session)
  const environmentId = world.project.idOf('development')
  const listed = await world.project.must<{ id: string; name: string }[]>('GET', '/secret?environmentId=development')
  const wanted = ['FLAG', 'HOME', 'OWN', 'WAY'].map((key) => listed.find(({ name }) => name === key)?.id)
  const secrets = wanted.map((id) => ({ id, environmentId }))
  const { token } = await world.project.must<{ token: string }>('POST', '/secret-share', { secrets, expiresIn: 300 })
  const opened = await world.service.call('POST', `/v1/share/${token}/view`, { body: {} })
  expect(opened.body).toMatchObject({
    secrets: [
      { name: 'FLAG', value: `see ${leads}` },
      { name: 'HOME', value: 'at one' },
      { name: 'OWN', value: `is ${password}` },
      { name: 'WAY', value: texts.WAY },
    ],
  })
})
