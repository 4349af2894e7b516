import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { heroku } from '../../../../server/src/providers/heroku.ts'
import { openShell } from '../../../../test/cli.ts'
import { createDatabase, createToken, type Database, openService, registerOwner } from '../../../../test/harness.ts'
import { createSecretProject } from '../../../../test/secret-project.ts'
import { lastRun, readSync, resetSyncs, type SyncWorld, setUpSync } from '../../../../test/sync.ts'
import { fakeHeroku } from '../../../../test/vendor/fake/heroku.ts'
import { startFake } from '../../../../test/vendor/fake.ts'
import { until } from '../../../../test/wait.ts'

const canary = 'c4n4ry-v4lue'
let world: SyncWorld
let database: Database

/** The service pushes by itself, as in production, to a fake of the vendor. */
beforeAll(async () => {
  database = await createDatabase()
  const fake = fakeHeroku()
  const running = await startFake(fake)
  const replacements = { outbound: running.outbound, sleep: async () => undefined }
  const service = await openService(database.settings, database.dataDir, replacements)
  const owner = await registerOwner(service)
  const project = await createSecretProject(service, owner.session)
  world = { service, owner, project, running, fake, provider: heroku, slug: 'heroku' }
})
afterAll(async () => {
  await world.service.stop()
  await world.running.close()
  await database.drop()
})
beforeEach(() => resetSyncs(world, { ALPHA: canary, BETA: 'two' }))

const shellOf = (more: Record<string, string> = {}) =>
  openShell({
    COFFER_URL: world.service.url,
    COFFER_TOKEN: world.owner.session,
    COFFER_WORKSPACE: 'main',
    COFFER_PROJECT: world.project.slug,
    ...more,
  })

/** A sync whose first run has ended. */
async function setUp(name = 'shop'): Promise<string> {
  const id = await setUpSync(world, {}, 'development', name)
  await until(async () => (await readSync(world, id)).lastRunAt ?? undefined, 120_000, 'the first run has ended')
  return id
}

test('shows syncs, and the runs of one', async () => {
  const shell = shellOf()
  expect(await shell.coffer(['sync', 'status'])).toMatchObject({ code: 0, out: '', err: '' })
  const id = await setUp()
  const { out } = await shell.coffer(['sync', 'status'])
  expect(out).toMatch(/^shop\theroku\tdevelopment\t[^\t]*shop-production[^\t]*\tactive\t\d{4}-\S+Z\t\n$/)
  const runs = await shell.coffer(['sync', 'status', 'shop'])
  expect(runs.out).toMatch(/^\d{4}-\S+Z\tfirst\tsucceeded\t2\t0\t0\t0\t0\t\n$/)
  expect(runs.err).toMatch(/^shop → .*shop-production.*, active\n$/)
  const json = JSON.parse((await shell.coffer(['sync', 'status', id, '--json'])).out)
  expect(json).toMatchObject({ id, state: 'active', runs: [{ trigger: 'first', state: 'succeeded' }] })
  expect(JSON.parse((await shell.coffer(['sync', 'status', '--json'])).out)).toMatchObject([{ id, name: 'shop' }])
})

test('plans by name, runs to the end, and changes nothing but what the plan says', async () => {
  await setUp()
  world.fake.tamper('ALPHA', 'changed by hand')
  world.fake.tamper('BETA', undefined)
  const shell = shellOf()
  const planned = await shell.coffer(['sync', 'plan', 'shop'])
  expect(planned.code).toBe(0)
  expect(planned.out.split('\n').toSorted()).toEqual(['', 'ALPHA\tupdate\t', 'BETA\tcreate\t'])
  expect(planned.err).toBe('0 unchanged.\n')
  expect(world.fake.state().get('ALPHA')).toBe('changed by hand')
  const run = await shell.coffer(['sync', 'run', 'shop'])
  expect(run).toMatchObject({ code: 0, err: 'shop: succeeded; 1 created, 1 updated.\n' })
  expect(run.out.split('\n').toSorted()).toEqual([
    '',
    'ALPHA\tupdated\twas changed at the target by someone else.',
    'BETA\tcreated\twas deleted at the target by someone else.',
  ])
  expect(Object.fromEntries(world.fake.state())).toEqual({ ALPHA: canary, BETA: 'two' })
  const again = await shell.coffer(['sync', 'run', 'shop', '--json', '-q'])
  expect(again).toMatchObject({ code: 0, err: '' })
  expect(JSON.parse(again.out)).toMatchObject({ trigger: 'manual', state: 'succeeded', items: [] })
  expect([planned.out, planned.err, run.out, run.err, again.out].join()).not.toContain(canary)
})

test('a run that fails ends with 1 and the reason', async () => {
  const id = await setUp()
  await world.project.set('development', { BETA: 'later' })
  world.running.injectFailure = () => ({ kind: 'answer', answer: { status: 500, body: { message: canary } } })
  const { code, err } = await shellOf().coffer(['sync', 'run', 'shop'])
  const { error } = await lastRun(world, id)
  expect(code).toBe(1)
  expect(err).toMatch(/^shop: failed/)
  expect(error).not.toBeNull()
  expect(err).toContain(`${error}\n`)
  expect(err).not.toContain(canary)
  const { out } = await shellOf().coffer(['sync', 'status'])
  expect(out).toContain('\tfailing\t')
  expect(out).toContain(error ?? '')
})

test('a run that does not end in time goes on without the command', async () => {
  await setUp()
  world.running.injectFailure = () => ({ kind: 'stall' })
  const { code, err } = await shellOf().coffer(['sync', 'run', 'shop', '--timeout', '1s'])
  expect(code).toBe(1)
  expect(err).toContain('The run has not ended within 1 s. It goes on without this command.')
})

test('pauses and resumes', async () => {
  const id = await setUp()
  const shell = shellOf()
  expect(await shell.coffer(['sync', 'pause', 'shop'])).toMatchObject({ code: 0, out: 'shop\tpaused\n' })
  expect((await readSync(world, id)).state).toBe('paused')
  expect((await shell.coffer(['sync', 'run', 'shop'])).code).toBe(6)
  expect(await shell.coffer(['sync', 'resume', 'shop', '--json'])).toMatchObject({ code: 0 })
  expect((await readSync(world, id)).state).toBe('active')
})

test('--watch prints each change, and ends quietly with Ctrl-C', async () => {
  const id = await setUp()
  const watching = shellOf().start(['sync', 'status', '--watch'])
  await until(() => watching.out().includes('\tactive\t') || undefined, 120_000, 'the first state is printed')
  await world.project.must('POST', `/sync/${id}/pause`)
  await until(() => watching.out().includes('\tpaused\t') || undefined, 120_000, 'the change is printed')
  watching.child.kill('SIGINT')
  const { signal, code, out, err } = await watching.ended
  expect(signal === 'SIGINT' || code === 130).toBe(true)
  expect(err).toBe('')
  expect(out.trimEnd().split('\n')).toHaveLength(2)
})

describe('refuses', () => {
  test.each([
    [['status', 'absent'], 5, 'There is no sync absent in the project'],
    [['plan'], 2, 'An argument is missing.'],
    [['plan', 'absent'], 5, 'There is no sync absent'],
    [['run', 'absent'], 5, 'There is no sync absent'],
    [['run', 'absent', '--timeout', '5'], 2, '--timeout must be a number with a unit'],
    [['pause', 'absent'], 5, 'There is no sync absent'],
    [['resume', 'absent'], 5, 'There is no sync absent'],
    [['status', '-p', 'nowhere'], 5, 'There is no project nowhere'],
  ])('sync %j', async (args, code, message) => {
    const outcome = await shellOf().coffer(['sync', ...args])
    expect(outcome).toMatchObject({ code, out: '' })
    expect(outcome.err).toContain(message)
  })

  test('a token that may not write', async () => {
    await setUp()
    const { token } = await createToken(world.service, world.owner.session, { permission: 'read' })
    expect((await shellOf({ COFFER_TOKEN: token }).coffer(['sync', 'run', 'shop'])).code).toBe(4)
  })
})
