import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  createProject,
  registerOwner,
  startService,
  type TestProject,
  type TestService,
  type TestUser,
} from '../../../test/harness.ts'
import { openRaw } from '../../../test/raw-database.ts'
import { keyVersionOf } from '../crypto/envelope.ts'
import { asOperator } from '../domain/context.ts'
import { rotateEnvironmentKey } from '../domain/workspace/key.ts'

let service: TestService
let owner: TestUser
let project: TestProject
const path = { workspace: 'main', project: 'api', environment: 'Development' }
const secrets = '/v1/workspace/main/project/api/secret'

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
  project = await createProject(service, owner.session, 'api')
  const wanted = Array.from({ length: 60 }, (_, index) => ({ key: `KEY_${index}`, value: `value ${index}` }))
  // Its ciphertext is bound to its author.
  const referring = { key: 'REFERS', value: `\${staging.KEY_1}` }
  const body = { environments: ['development', 'staging'], secrets: [...wanted, referring] }
  await service.call('POST', secrets, { token: owner.session, body })
  await write('a second version')
})
afterAll(() => service.stop())

const write = (value: string) =>
  service.call('PUT', `${secrets}/KEY_0/value`, { token: owner.session, body: { environmentId: 'development', value } })
const read = async () => (await service.call('GET', secrets, { token: owner.session })).body
const operator = () => asOperator(service.app.services)

async function keyVersions(table: string, environmentId: string): Promise<number[]> {
  const raw = await openRaw(service)
  const rows = await raw.query(`select sealed from ${table} where environment_id = ?`, [environmentId])
  await raw.close()
  const versions = rows.flatMap(({ sealed }) => (sealed instanceof Uint8Array ? [keyVersionOf(sealed)] : []))
  return [...new Set(versions)]
}

test('a rotation re-encrypts every value and version of one environment while it is read', async () => {
  const [development, staging] = project.environments.map(({ id }) => id)
  const before = await read()
  const busy = Array.from({ length: 20 }, () => service.call('GET', secrets, { token: owner.session }))
  await rotateEnvironmentKey(operator(), path, () => undefined, 0)
  expect((await Promise.all(busy)).map(({ status }) => status)).toEqual(busy.map(() => 200))
  expect(await read()).toEqual(before)
  for (const table of ['secret_value', 'secret_version']) {
    expect(await keyVersions(table, development ?? '')).toEqual([2])
    expect(await keyVersions(table, staging ?? '')).toEqual([1])
  }
  expect((await write('after the rotation')).status).toBe(200)
  const old = await service.call('GET', `${secrets}/KEY_0/version/1?environmentId=development`, {
    token: owner.session,
  })
  expect(old.body).toMatchObject({ value: 'value 0' })
})

test('a rotation can be repeated, and an unknown environment is named', async () => {
  await rotateEnvironmentKey(operator(), path, () => undefined, 0)
  expect(await keyVersions('secret_value', project.environments[0]?.id ?? '')).toEqual([3])
  const nowhere = rotateEnvironmentKey(operator(), { ...path, environment: 'nowhere' }, () => undefined, 0)
  await expect(nowhere).rejects.toThrow('There is no environment "nowhere" in project "api" of workspace "main".')
})
