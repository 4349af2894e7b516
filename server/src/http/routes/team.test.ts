import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  createProject,
  createTeam,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../test/harness.ts'

let service: TestService
let owner: TestUser

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
})
afterAll(() => service.stop())

const list = '/v1/workspace/main/team'
const as = (options = {}) => ({ token: owner.session, ...options })

test('a team is created, listed with its number of projects, renamed and deleted', async () => {
  const id = await createTeam(service, owner.session, 'Backend')
  await createProject(service, owner.session, 'api', { teamId: id })
  const listed = await service.call<{ id: string; projectCount: number }[]>('GET', `${list}/`, as())
  expect(listed.body.find((team) => team.id === id)).toMatchObject({ name: 'Backend', projectCount: 1 })
  const renamed = await service.call('PUT', `${list}/${id}`, as({ body: { name: 'Services' } }))
  expect(renamed.body).toMatchObject({ success: true, id, name: 'Services', projectCount: 1 })
  expect((await service.call('DELETE', `${list}/${id}`, as())).status).toBe(409)
  await service.call('DELETE', '/v1/workspace/main/project/api', as())
  expect((await service.call('DELETE', `${list}/${id}`, as())).body).toEqual({ success: true })
  expect((await service.call('PUT', `${list}/${id}`, as({ body: { name: 'Gone' } }))).status).toBe(404)
})

test('a name is unique in a workspace, also under concurrent creations', async () => {
  const answers = await Promise.all(
    Array.from({ length: 20 }, () => service.call('POST', list, as({ body: { name: 'Once' } }))),
  )
  expect(answers.map(({ status }) => status).sort()).toEqual([201, ...Array.from({ length: 19 }, () => 409)])
  const other = await createTeam(service, owner.session, 'Other')
  const taken = await service.call('PUT', `${list}/${other}`, as({ body: { name: 'Once' } }))
  expect(taken).toMatchObject({ status: 409, body: { message: 'A team named "Once" already exists.' } })
})

test.each([
  ['no name', {}, 'name: is required.'],
  ['an empty name', { name: '' }, 'name: must not be empty.'],
  ['65 characters', { name: 'x'.repeat(65) }, 'name: must have 64 characters or fewer.'],
  ['only spaces', { name: '   ' }, 'name: has characters or a format that is not allowed.'],
  ['a control character', { name: 'a\u0000b' }, 'name: has characters or a format that is not allowed.'],
  ['a number', { name: 5 }, 'name: must be a string.'],
  ['an unknown field', { name: 'x', colour: 'red' }, 'colour: is not a known field.'],
])('refuses %s', async (_what, body, message) => {
  expect(await service.call('POST', list, as({ body }))).toMatchObject({ status: 400, body: { message } })
})

test('every change is in the audit trail, with actor and values', async () => {
  const id = await createTeam(service, owner.session, 'Audited')
  await service.call('PUT', `${list}/${id}`, as({ body: { name: 'Renamed' } }))
  await service.call('DELETE', `${list}/${id}`, as())
  const { body } = await service.call<{ action: string }[]>('GET', `/v1/workspace/main/audit?entity=${id}`, as())
  expect(body).toMatchObject([
    {
      action: 'DELETE',
      actor: { type: 'user', id: owner.id },
      entity: { type: 'team', id },
      before: { name: 'Renamed' },
    },
    { action: 'UPDATE', before: { name: 'Audited' }, after: { name: 'Renamed' } },
    { action: 'CREATE', after: { name: 'Audited' } },
  ])
})
