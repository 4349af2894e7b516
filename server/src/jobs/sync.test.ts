import { afterAll, beforeAll, expect, test } from 'vitest'
import { createProject } from '../../../test/harness.ts'
import { holdOnce } from '../../../test/hold.ts'
import { type SyncWorld, setUpSync, startSyncWorld } from '../../../test/sync.ts'
import { fakeHeroku } from '../../../test/vendor/fake/heroku.ts'
import { until } from '../../../test/wait.ts'
import { heroku } from '../providers/heroku.ts'
import { sql } from '../store/engine/sql.ts'
import { pushSyncs } from './sync.ts'

let world: SyncWorld & { stop(): Promise<void> }
/** Requests that the vendor has received and answers only after `release`. */
let held = 0
let isSlow = false
let release = (): void => undefined

beforeAll(async () => {
  const fake = fakeHeroku()
  const answer = fake.answer
  const released = new Promise<void>((resolve) => {
    release = resolve
  })
  fake.answer = async (request) => {
    if (isSlow) {
      held++
      await released
    }
    return answer(request)
  }
  world = await startSyncWorld(heroku, fake)
})
afterAll(() => world.stop())

test('slow targets of one workspace leave slots to the syncs of another', async () => {
  const { service, owner, project } = world
  const { services } = service.app
  const { engine } = services
  await project.set('development', { KEY: 'value' })
  for (let at = 0; at < 6; at++) await setUpSync(world, { prefix: `P${at}_` })
  const body = { name: 'Second', slug: 'second' }
  expect((await service.call('POST', '/v1/workspace', { token: owner.session, body })).status).toBe(201)
  const other = await createProject(service, owner.session, 'other', { workspace: 'second' })
  const [environment] = other.environments
  const idOf = () => environment?.id ?? ''
  await setUpSync({ ...world, project: { ...project, id: other.id, idOf } }, { prefix: 'Q_' })
  // Every sync as if it had its own credential; the one of the other workspace comes last.
  await engine.transaction('test', ({ db }) => db.count(sql`update sync set concurrency = 10, due_at = 1`))
  isSlow = true
  const stop = new AbortController()
  const pushing = pushSyncs({ ...services, config: { ...services.config, sync: true } }, stop.signal)
  await until(() => held === 5 || undefined, 120_000, 'four runs of one workspace and one of the other')
  const running = await engine.all<{ workspaceId: string }>(sql`
    select workspace_id as "workspaceId" from sync where lease_until is not null`)
  const counts = [...Map.groupBy(running, ({ workspaceId }) => workspaceId).values()].map(({ length }) => length)
  expect(counts.toSorted()).toEqual([1, 4])
  // All runs end during a claim that leaves out the first workspace because its runs are at their limit.
  const claim = holdOnce(services.store.syncs, 'hasDue')
  await claim.isDone
  release()
  isSlow = false
  const readLeases = () => engine.all(sql`select id from sync where lease_until is not null`)
  await until(async () => (await readLeases()).length === 0 || undefined, 120_000, 'the end of the five runs')
  claim.release()
  await pushing
  const left = await engine.all(sql`select id from sync where last_ok_at is null`)
  expect(left).toEqual([])
})
