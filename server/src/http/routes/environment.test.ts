import type { Environment } from '@coffer/contract/environment'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  createProject,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../test/harness.ts'

let service: TestService
let owner: TestUser
const list = '/v1/workspace/main/project/api/environment'

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
  await createProject(service, owner.session, 'api')
  await createProject(service, owner.session, 'web')
})
afterAll(() => service.stop())

const as = (options = {}) => ({ token: owner.session, ...options })

async function create(name: string): Promise<string> {
  const answer = await service.call<{ id: string }>('POST', list, as({ body: { name } }))
  expect(answer.status, answer.text).toBe(201)
  return answer.body.id
}

async function find(id: string): Promise<Environment | undefined> {
  const { body } = await service.call<Environment[]>('GET', list, as())
  return body.find((environment) => environment.id === id)
}

test('environments are listed in the order of their creation', async () => {
  const { body } = await service.call<Environment[]>('GET', `${list}/`, as())
  expect(body.map(({ name }) => name)).toEqual(['development', 'staging', 'production'])
  expect(body[0]).toMatchObject({ totalSecrets: 0, hasPersonalOverrides: false })
})

test('an environment is created, changed field by field, and deleted', async () => {
  const made = await service.call<{ id: string }>(
    'POST',
    list,
    as({ body: { name: 'Preview 1', hasPersonalOverrides: true } }),
  )
  expect(made.body).toEqual({ success: true, id: expect.any(String) })
  const { id } = made.body
  expect(await find(id)).toMatchObject({ name: 'Preview 1', hasPersonalOverrides: true })
  expect((await service.call('PUT', `${list}/${id}`, as({ body: { name: 'Preview' } }))).body).toEqual({
    success: true,
  })
  expect(await find(id)).toMatchObject({ name: 'Preview', hasPersonalOverrides: true })
  await service.call('PUT', `${list}/${id.toUpperCase()}`, as({ body: { hasPersonalOverrides: false } }))
  expect(await find(id)).toMatchObject({ name: 'Preview', hasPersonalOverrides: false })
  expect((await service.call('DELETE', `${list}/${id}`, as())).body).toEqual({ success: true })
  expect(await find(id)).toBeUndefined()
  expect((await service.call('PUT', `${list}/${id}`, as({ body: { name: 'x' } }))).status).toBe(404)
})

test('environment names are unique in a project, ignoring case; other projects may use them', async () => {
  const id = await create('QA')
  expect((await service.call('POST', list, as({ body: { name: 'qa' } }))).status).toBe(409)
  const other = await create('QA 2')
  const taken = await service.call('PUT', `${list}/${other}`, as({ body: { name: 'qA' } }))
  expect(taken).toMatchObject({ status: 409, body: { message: 'An environment named "qA" already exists.' } })
  expect((await service.call('PUT', `${list}/${id}`, as({ body: { name: 'qa' } }))).status).toBe(200)
  const elsewhere = await service.call('POST', list.replace('/api/', '/web/'), as({ body: { name: 'QA' } }))
  expect(elsewhere.status).toBe(201)
})

test('one of 20 concurrent creations with the same name succeeds', async () => {
  const answers = await Promise.all(
    Array.from({ length: 20 }, () => service.call('POST', list, as({ body: { name: 'Race' } }))),
  )
  expect(answers.map(({ status }) => status).sort()).toEqual([201, ...Array.from({ length: 19 }, () => 409)])
})

test('an environment of another project is not found', async () => {
  const id = await create('mine')
  const path = `/v1/workspace/main/project/web/environment/${id}`
  expect((await service.call('PUT', path, as({ body: { name: 'yours' } }))).status).toBe(404)
  expect((await service.call('DELETE', path, as())).status).toBe(404)
  expect(await find(id)).toMatchObject({ name: 'mine' })
})

test.each([
  ['an empty object', {}, 'body: must have at least one field.'],
  ['a name with a slash', { name: 'a/b' }, 'name: has characters or a format that is not allowed.'],
  ['a name that starts with a space', { name: ' a' }, 'name: has characters or a format that is not allowed.'],
  ['49 characters', { name: 'x'.repeat(49) }, 'name: must have 48 characters or fewer.'],
  ['a string instead of a boolean', { hasPersonalOverrides: 'true' }, 'hasPersonalOverrides: must be a boolean.'],
  ['an unknown field', { colour: 'red' }, 'colour: is not a known field.'],
])('an update with %s is refused', async (_what, body, message) => {
  const [first] = (await service.call<Environment[]>('GET', list, as())).body
  const answer = await service.call('PUT', `${list}/${first?.id}`, as({ body }))
  expect(answer).toMatchObject({ status: 400, body: { message } })
})

test.each([
  'not-a-uuid',
  '01a1dcf1b91273cb9386016275561f1a',
  '01a1dcf1-b912-93cb-9386-016275561f1a',
  '01a1dcf1-b912-73cb-0386-016275561f1a',
])('the malformed environment id %s is 400', async (id) => {
  const answer = await service.call('PUT', `${list}/${id}`, as({ body: { name: 'x' } }))
  expect(answer).toMatchObject({ status: 400, body: { message: expect.stringMatching(/^environmentId: /) } })
})

test.each(['00000000-0000-0000-0000-000000000000', 'ffffffff-ffff-ffff-ffff-ffffffffffff'])(
  'the well-formed, unknown environment id %s is 404',
  async (id) => {
    expect((await service.call('PUT', `${list}/${id}`, as({ body: { name: 'x' } }))).status).toBe(404)
  },
)

test('every change is in the audit trail of the environment', async () => {
  const id = await create('Audited')
  await service.call('PUT', `${list}/${id}`, as({ body: { name: 'Told' } }))
  await service.call('DELETE', `${list}/${id}`, as())
  const { body } = await service.call('GET', `/v1/workspace/main/audit?environment=${id}`, as())
  expect(body).toMatchObject([
    { action: 'DELETE', environmentId: id, before: { name: 'Told' } },
    { action: 'UPDATE', before: { name: 'Audited' }, after: { name: 'Told' } },
    { action: 'CREATE', after: { name: 'Audited', hasPersonalOverrides: false } },
  ])
})
