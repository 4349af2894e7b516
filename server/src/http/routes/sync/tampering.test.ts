/** An attacker who can write to the database, but has no keys. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { addUser } from '../../../../../test/harness.ts'
import { openRaw } from '../../../../../test/raw-database.ts'
import { pushDue, readSync, type SyncWorld, setUpSync, startSyncWorld, submitStep } from '../../../../../test/sync.ts'
import { fakeHeroku } from '../../../../../test/vendor/fake/heroku.ts'
import { asOperator } from '../../../domain/context.ts'
import { acceptRows } from '../../../domain/workspace/row-set.ts'
import { cleanUp } from '../../../jobs/cleanup.ts'
import { heroku } from '../../../providers/heroku.ts'
import { sql } from '../../../store/engine/sql.ts'
import { countTampered } from '../../../store/integrity.ts'

const debounceMs = 15_000
let world: SyncWorld & { stop(): Promise<void> }
beforeAll(async () => {
  world = await startSyncWorld(heroku, fakeHeroku())
})
afterAll(() => world.stop())

beforeEach(async () => {
  for (const name of world.fake.state().keys()) world.fake.tamper(name, undefined)
  const { project } = world
  for (const { id } of await project.must<{ id: string }[]>('GET', '/sync')) await project.must('DELETE', `/sync/${id}`)
  await project.set('development', { ALPHA: 'one', BETA: 'two' })
})

const state = () => Object.fromEntries(world.fake.state())
const run = (query: ReturnType<typeof sql>) =>
  world.service.app.services.engine.transaction('test', ({ db }) => db.count(query))

test.each(['new', 'pending', 'synced'])(
  'an inserted ledger row (%s) neither deletes nor overwrites an entry',
  async (status) => {
    world.fake.tamper('FOREIGN', 'theirs')
    world.fake.tamper('GAMMA', 'theirs, too')
    const id = await setUpSync(world)
    await pushDue(world)
    for (const name of ['FOREIGN', 'GAMMA']) {
      await run(sql`
      insert into sync_ledger (sync_id, name, remote_id, value_mac, mark, origin, status, updated_at)
      select sync_id, ${name}, remote_id, value_mac, mark, origin, ${status}, updated_at
      from sync_ledger where sync_id = ${id} and name = 'ALPHA'`)
    }
    await world.project.set('development', { GAMMA: 'ours' })
    await pushDue(world, debounceMs)
    await world.project.must('POST', `/sync/${id}/run`)
    await pushDue(world)
    expect(state()).toEqual({ ALPHA: 'one', BETA: 'two', FOREIGN: 'theirs', GAMMA: 'theirs, too' })
    await world.project.must('DELETE', `/secret/GAMMA?purge=true`)
    await world.project.must('DELETE', `/sync/${id}?remove=true`)
    await pushDue(world)
    expect(state()).toEqual({ FOREIGN: 'theirs', GAMMA: 'theirs, too' })
  },
)

test('a ledger row is invalid if its MAC has the right length, but multi-byte characters', async () => {
  const id = await setUpSync(world)
  await pushDue(world)
  await run(sql`update sync_ledger set value_mac = ${`x.${'é'.repeat(43)}`} where sync_id = ${id} and name = 'BETA'`)
  await world.project.set('development', { ALPHA: 'new', BETA: 'new' })
  await pushDue(world, debounceMs)
  expect(state()).toEqual({ ALPHA: 'new', BETA: 'two' })
  expect(await readSync(world, id)).toMatchObject({ lastError: expect.stringContaining('BETA') })
})

test('a sync that cannot be decrypted stops neither other syncs nor the cleanup', async () => {
  const { service, project } = world
  const broken = await setUpSync(world, { include: 'ALPHA' }, 'development', 'Broken')
  await pushDue(world)
  const whole = await setUpSync(world, { include: 'BETA' }, 'development', 'Whole')
  await submitStep(world, broken, 'mapping', { environment: project.idOf('development') })
  await submitStep(world, whole, 'mapping', { environment: project.idOf('development') })
  const { store } = service.app.services
  const sealed = Buffer.from((await store.syncs.find(broken))?.sealed ?? '')
  sealed.writeUInt8(sealed.readUInt8(sealed.length - 1) ^ 1, sealed.length - 1)
  await run(sql`update sync set sealed = ${sealed}, draft_until = 1 where id = ${broken}`)
  await run(sql`update sync set draft_until = 1 where id = ${whole}`)
  await project.set('development', { ALPHA: 'new', BETA: 'new' })
  await pushDue(world, debounceMs)
  expect(state()).toEqual({ ALPHA: 'one', BETA: 'new' })
  expect(await readSync(world, whole)).toMatchObject({ state: 'active' })
  await cleanUp(service.app.services)
  const row = await store.syncs.find(whole)
  expect(row && (await store.syncs.open(row)).draft).toBeNull()
  await cleanUp(service.app.services)
  const { engine, keys } = service.app.services
  expect(await countTampered(engine, keys)).toEqual(['1 syncs'])
  // It can still be listed and deleted.
  expect(await project.must('GET', '/sync')).toContainEqual(expect.objectContaining({ id: broken, state: 'failing' }))
  await project.must('DELETE', `/sync/${broken}`)
})

test('a grant that is put back gives its owner no push: syncs of a closed workspace wait until it is opened', async () => {
  const { service, owner, project } = world
  const { body } = await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: owner.session })
  const demoted = await addUser(service, 'demoted@example.com', { workspaceId: body.id, role: 'admin' })
  const theirs = await setUpSync({ ...world, owner: demoted }, { include: 'ALPHA' }, 'development', 'Theirs')
  const ours = await setUpSync(world, { include: 'BETA' }, 'development', 'Ours')
  await pushDue(world)
  const raw = await openRaw(service)
  const [before = {}] = await raw.query('select * from member where user_id = ?', [demoted.id])
  const scope = { environments: [project.idOf('staging')] }
  const path = `/v1/workspace/main/rbac/${demoted.memberId}`
  await service.call('PUT', path, { token: owner.session, body: { role: 'admin', scope } })
  await project.set('development', { ALPHA: 'new', BETA: 'new' })
  await raw.restoring(['member'], async () => {
    await raw.query('delete from member where id = ?', [before.id ?? ''])
    const columns = Object.keys(before)
    await raw.query(`insert into member (${columns}) values (${columns.map(() => '?')})`, Object.values(before))
    service.app.services.snapshots.clear()
    await pushDue(world, debounceMs)
    expect(state()).toEqual({ ALPHA: 'one', BETA: 'two' })
  })
  await raw.close()
  service.app.services.snapshots.clear()
  expect(await readSync(world, ours)).toMatchObject({
    state: 'blocked',
    lastError: expect.stringMatching(/^Members, service accounts or the policy of this workspace were changed/),
  })
  await acceptRows(asOperator(service.app.services), 'main')
  await pushDue(world)
  expect(state()).toEqual({ ALPHA: 'one', BETA: 'new' })
  expect(await readSync(world, ours)).toMatchObject({ state: 'active', lastError: null })
  expect(await readSync(world, theirs)).toMatchObject({ state: 'blocked' })
})
