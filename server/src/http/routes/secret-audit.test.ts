import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  createProject,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../test/harness.ts'
import { openRaw } from '../../../../test/raw-database.ts'

let service: TestService
let owner: TestUser

const project = '/v1/workspace/main/project/api'
const value = 'a value that must not leave unrecorded'

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
  await createProject(service, owner.session, 'api')
  const secrets = [{ key: 'A', value }]
  const body = { environments: ['development', 'staging'], secrets }
  await service.call('POST', `${project}/secret`, { token: owner.session, body })
})
afterAll(() => service.stop())

const ways = [
  `${project}/secret`,
  `${project}/secret/A`,
  `${project}/secret/A?environmentId=staging&resolve=true`,
  `${project}/secret/export?environmentId=staging`,
  `${project}/secret/A/version/1?environmentId=staging`,
]

test('while reads cannot be recorded every way to a value answers 503 and no value leaves', async () => {
  const raw = await openRaw(service)
  const asked = () => Promise.all(ways.map((path) => service.call('GET', path, { token: owner.session })))
  expect((await asked()).map(({ status }) => status)).toEqual(ways.map(() => 200))
  await raw.query('alter table audit_reads rename to audit_reads_elsewhere')
  const refused = await asked()
  await raw.query('alter table audit_reads_elsewhere rename to audit_reads')
  await raw.close()
  expect(refused.map(({ status }) => status)).toEqual(ways.map(() => 503))
  for (const { text } of refused) expect(text).not.toContain(value)
  expect((await asked()).map(({ status }) => status)).toEqual(ways.map(() => 200))
})

test('many reads at once are recorded each, in one chain that verifies', async () => {
  const path = '/v1/workspace/main/audit?action=VIEW&limit=200'
  const before = await service.call<unknown[]>('GET', path, { token: owner.session })
  await Promise.all(
    Array.from({ length: 100 }, () => service.call('GET', `${project}/secret/A`, { token: owner.session })),
  )
  const after = await service.call<unknown[]>('GET', path, { token: owner.session })
  expect(after.body).toHaveLength(before.body.length + 100)
  expect(after.body[0]).toMatchObject({ entity: { type: 'secret', name: 'A' }, after: { keys: ['A'] } })
  const { body } = await service.call('GET', '/v1/workspace/main/audit/verify', { token: owner.session })
  expect(body).toMatchObject({ ok: true })
})
