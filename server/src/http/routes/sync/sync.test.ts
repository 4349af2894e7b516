/** An active sync: pause, resume, manual runs and removal, and the rights and places on which it depends. */
import type { AuditEntry } from '@coffer/contract/audit'
import type { SyncRun, SyncRunDetail } from '@coffer/contract/sync'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { addUser, createToken } from '../../../../../test/harness.ts'
import { createSecretProject } from '../../../../../test/secret-project.ts'
import {
  emptyTarget,
  lastRun,
  pushDue,
  readSync,
  resetSyncs,
  type SyncWorld,
  setUpSync,
  startSetup,
  startSyncWorld,
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

const workspaceId = async () => {
  const answer = await world.service.call<{ id: string }>('GET', '/v1/workspace/main', { token: world.owner.session })
  return answer.body.id
}

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
    emptyTarget(world)
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
