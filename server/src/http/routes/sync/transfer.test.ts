/** A sync of a service account pushes with the rights of the account, whoever set it up or gave it away. */
import type { AuditEntry } from '@coffer/contract/audit'
import type { Removal } from '@coffer/contract/member'
import type { SyncDetail } from '@coffer/contract/sync'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { addUser } from '../../../../../test/harness.ts'
import { createServiceAccount, createServiceToken } from '../../../../../test/service-account.ts'
import {
  pushDue,
  readSync,
  resetSyncs,
  type SyncWorld,
  setUpSync,
  startSetup,
  startSyncWorld,
} from '../../../../../test/sync.ts'
import { fakeHeroku } from '../../../../../test/vendor/fake/heroku.ts'
import { newId } from '../../../crypto/id.ts'
import { heroku } from '../../../providers/heroku.ts'

const debounceMs = 15_000
const main = '/v1/workspace/main'

let world: SyncWorld & { stop(): Promise<void> }
let workspaceId: string
let made = 0

beforeAll(async () => {
  world = await startSyncWorld(heroku, fakeHeroku())
  workspaceId = (await world.service.call<{ id: string }>('GET', main, { token: world.owner.session })).body.id
})
afterAll(() => world.stop())
beforeEach(() => resetSyncs(world))

const state = () => Object.fromEntries(world.fake.state())
const ask = <Body = { message: string }>(method: string, path: string, body?: unknown, token = world.owner.session) =>
  world.service.call<Body>(method, `${main}${path}`, { token, ...(body !== undefined && { body }) })
const only = (environment: string) => ({ environments: [world.project.idOf(environment)] })
const account = (role: 'admin' | 'developer' | 'member', scope: object = { all: true }) =>
  createServiceAccount(world.service, world.owner.session, { name: `account ${++made}`, grants: [{ role, scope }] })
const addAdmin = () => addUser(world.service, `admin-${++made}@example.com`, { workspaceId, role: 'admin' })
const transfer = (id: string, serviceAccountId: string, token?: string) =>
  world.project.ask('POST', `/sync/${id}/transfer`, { serviceAccountId }, token)
const detail = (id: string) => world.project.must<SyncDetail>('GET', `/sync/${id}`)

test('a transferred sync goes on when the person who set it up is removed', async () => {
  const maker = await addAdmin()
  const id = await setUpSync({ ...world, owner: maker })
  await pushDue(world)
  const { id: accountId, name } = await account('member', only('development'))
  const before = await detail(id)
  expect((await transfer(id, accountId)).status).toBe(200)
  expect(await detail(id)).toMatchObject({ ...before, nextRunAt: expect.any(String), createdById: accountId })
  const removed = await ask<Removal>('DELETE', `/rbac/${maker.memberId}`)
  expect(removed.body.syncs).toEqual([])
  await world.project.set('development', { ALPHA: 'changed' })
  await pushDue(world, debounceMs)
  expect(state()).toEqual({ ALPHA: 'changed', BETA: 'two', GAMMA: 'three' })
  expect(await readSync(world, id)).toMatchObject({ state: 'active', lastError: null })
  const { body } = await ask<AuditEntry[]>('GET', `/audit?entity=${id}&action=UPDATE`)
  const entry = { before: { owner: maker.id }, after: { owner: accountId, serviceAccount: name } }
  expect(body.find(({ after }) => after?.serviceAccount === name)).toMatchObject(entry)
})

test('without a transfer the removal names the sync, which then pushes no more; a transfer revives it', async () => {
  const maker = await addAdmin()
  const id = await setUpSync({ ...world, owner: maker })
  await pushDue(world)
  const planned = await ask<Removal>('DELETE', `/rbac/${maker.memberId}?dryRun=true`)
  const removed = await ask<Removal>('DELETE', `/rbac/${maker.memberId}`)
  expect(planned.body.syncs).toMatchObject([{ id, projectId: world.project.id }])
  expect(removed.body).toEqual(planned.body)
  await world.project.set('development', { ALPHA: 'changed' })
  await pushDue(world, debounceMs)
  expect(state().ALPHA).toBe('one')
  expect(await readSync(world, id)).toMatchObject({ state: 'blocked' })
  expect((await transfer(id, (await account('member')).id)).status).toBe(200)
  await pushDue(world)
  expect(state().ALPHA).toBe('changed')
  expect(await readSync(world, id)).toMatchObject({ state: 'active', lastError: null })
})

test('a sync that a service token has set up belongs to the account, and ends with its rights', async () => {
  const admin = await addAdmin()
  const { id: accountId } = await account('admin')
  const { token } = await createServiceToken(world.service, admin.session, accountId)
  const id = await setUpSync({ ...world, owner: { ...admin, session: token } })
  expect(await detail(id)).toMatchObject({ createdById: accountId })
  await ask('DELETE', `/rbac/${admin.memberId}`)
  await pushDue(world)
  expect(state()).toEqual({ ALPHA: 'one', BETA: 'two', GAMMA: 'three' })
  await ask('PUT', `/service-account/${accountId}`, { grants: [{ role: 'admin', scope: only('staging') }] })
  await world.project.set('development', { ALPHA: 'not for it' })
  await pushDue(world, debounceMs)
  expect(state().ALPHA).toBe('one')
  expect(await readSync(world, id)).toMatchObject({ state: 'blocked' })
  const removed = await ask<Removal>('DELETE', `/service-account/${accountId}`)
  expect(removed.body.syncs).toMatchObject([{ id }])
})

test('references reach only what the account, and the account whose token wrote the value, may read', async () => {
  await world.project.set('staging', { HIDDEN: 'of staging' })
  const id = await setUpSync(world)
  await pushDue(world)
  const narrow = await account('developer', only('development'))
  const wide = await account('developer')
  const writer = await createServiceToken(world.service, world.owner.session, wide.id)
  const write = (token: string) =>
    world.project.must(
      'PUT',
      '/secret/ALPHA/value',
      { environmentId: world.project.idOf('development'), value: `\${staging.HIDDEN}` },
      token,
    )
  await write(writer.token)
  await pushDue(world, debounceMs)
  expect(state().ALPHA).toBe('of staging')
  // The rights of the writing account now end before the reference.
  await ask('PUT', `/service-account/${wide.id}`, { grants: [{ role: 'developer', scope: only('development') }] })
  await world.project.set('staging', { HIDDEN: 'new in staging' })
  await pushDue(world, debounceMs)
  expect(state().ALPHA).toBe('of staging')
  expect(await readSync(world, id)).toMatchObject({ state: 'blocked' })
  await ask('PUT', `/service-account/${wide.id}`, { grants: [{ role: 'developer', scope: { all: true } }] })
  await pushDue(world, debounceMs)
  expect(state().ALPHA).toBe('new in staging')
  // An owner that does not reach the referenced environment pushes nothing of it.
  expect((await transfer(id, narrow.id)).status).toBe(200)
  await world.project.set('staging', { HIDDEN: 'newest in staging' })
  await pushDue(world, debounceMs)
  expect(state().ALPHA).toBe('new in staging')
})

test('refused with 409: a sync that is not set up, and an account that cannot read its environment', async () => {
  const draft = await startSetup(world, 'Draft')
  const unset = await transfer(draft, (await account('member')).id)
  const notReady = 'This sync is not set up yet: go through its steps first.'
  expect([unset.status, unset.body.message]).toEqual([409, notReady])
  const id = await setUpSync(world)
  const { id: blind, name } = await account('developer', only('staging'))
  const refused = await transfer(id, blind)
  const message = `The service account ${name} cannot read the environment of this sync: extend its grants first.`
  expect([refused.status, refused.body.message]).toEqual([409, message])
  expect(await detail(id)).toMatchObject({ createdById: world.owner.id })
})

test('refused to an admin of the project alone, who could use the wider rights of the account', async () => {
  const { service, project } = world
  const id = await setUpSync(world)
  const { id: accountId } = await account('admin')
  const scope = { all: false, teams: [], projects: [project.id], environments: [] }
  const narrow = await addUser(service, `narrow-${++made}@example.com`, { workspaceId, role: 'admin', scope })
  const developer = await addUser(service, `dev-${++made}@example.com`, { workspaceId, role: 'developer' })
  const stranger = await addUser(service, `stranger-${++made}@example.com`)
  for (const [{ session }, status] of [
    [narrow, 403],
    [developer, 403],
    [stranger, 404],
  ] as const) {
    expect((await transfer(id, accountId, session)).status).toBe(status)
  }
  expect((await transfer(id, newId())).status).toBe(404)
  expect((await transfer(newId(), accountId)).status).toBe(404)
  expect(await detail(id)).toMatchObject({ createdById: world.owner.id })
})
