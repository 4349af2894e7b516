/** `coffer-server policy reset`, run as an operator runs it, beside a running service. */
import { openPolicy } from '@coffer/contract/policy'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { runHere } from '../../../test/command.ts'
import {
  createDatabase,
  type Database,
  openService,
  registerOwner,
  type TestService,
  type TestUser,
} from '../../../test/harness.ts'
import { openRaw } from '../../../test/raw-database.ts'
import { until } from '../../../test/wait.ts'

let database: Database
let service: TestService
let owner: TestUser

beforeAll(async () => {
  database = await createDatabase({ hasSchema: true })
  const proxy = { COFFER_TRUSTED_PROXIES: '127.0.0.1' }
  service = await openService({ ...database.settings, ...proxy }, database.dataDir)
  owner = await registerOwner(service)
})
afterAll(async () => {
  await service.stop()
  await database.drop()
})

const office = '198.51.100.7'
const reset = (...words: string[]) => runHere(['policy', 'reset', ...words], database.settings)
const doctor = () => runHere(['doctor'], database.settings)
const enter = async () => (await service.call('GET', '/v1/workspace/main', { token: owner.session })).status
const awaitOpen = () =>
  until(async () => ((await enter()) === 200 ? true : undefined), 1_000, 'the running service follows')

async function limitToOffice(): Promise<void> {
  const answer = await service.call('PUT', '/v1/workspace/main/policy', {
    token: owner.session,
    headers: { 'x-forwarded-for': office },
    body: { ...openPolicy, allowedIps: [office] },
  })
  expect(answer.status, answer.text).toBe(200)
}

test('an unknown workspace, one without a policy and an incomplete command are refused', async () => {
  expect(await reset('nowhere')).toMatchObject({ code: 1, err: 'There is no workspace "nowhere".\n' })
  expect(await reset('main')).toMatchObject({ code: 1, err: 'This workspace has no policy: nothing was changed.\n' })
  expect(await reset()).toMatchObject({ code: 2 })
})

test('it opens the workspace of an owner who has lost every allowed network, and is recorded', async () => {
  await limitToOffice()
  expect(await enter()).toBe(403)
  expect(await reset('main')).toEqual({
    code: 0,
    out: 'The policy of main is removed: its owner can set it again.\n',
    err: '',
  })
  await awaitOpen()
  const { body } = await service.call<unknown[]>('GET', '/v1/workspace/main/audit?action=DELETE', {
    token: owner.session,
  })
  expect(body).toMatchObject([
    { entity: { type: 'policy' }, actor: { type: 'operator' }, before: { ...openPolicy, allowedIps: [office] } },
  ])
})

test('doctor reports a tampered policy, and the reset opens the workspace again', async () => {
  await limitToOffice()
  const raw = await openRaw(service)
  await raw.query('update workspace_policy set document = ?', [JSON.stringify(openPolicy)])
  await raw.close()
  service.app.services.snapshots.clear()
  expect(await enter()).toBe(503)
  const told = await doctor()
  expect(told.code).toBe(1)
  expect(told.out).toContain('changed outside of Coffer: 1 workspace policies.')
  expect(await reset('main')).toMatchObject({ code: 0 })
  await awaitOpen()
  expect((await doctor()).out).toContain('ok     rows that grant rights: all valid')
})
