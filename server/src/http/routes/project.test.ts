import type { Project, TeamGroup } from '@coffer/contract/project'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import {
  addUser,
  createProject,
  createTeam,
  createToken,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../test/harness.ts'

let service: TestService
let owner: TestUser
let teamId: string

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
  teamId = await createTeam(service, owner.session, 'Backend')
})
afterAll(() => service.stop())

const list = '/v1/workspace/main/project'
const as = (options = {}) => ({ token: owner.session, ...options })

test('a new project has development, staging and production, and is found by slug and by id', async () => {
  const made = await service.call<Project>('POST', list, as({ body: { name: 'The API', slug: 'the-api', teamId } }))
  expect(made.status).toBe(201)
  expect(made.body.environments.map(({ name }) => name)).toEqual(['development', 'staging', 'production'])
  expect(made.body).toMatchObject({ name: 'The API', slug: 'the-api', teamId })
  const { body: read } = await service.call<Project>('GET', `${list}/the-api`, as())
  expect(read).toEqual(made.body)
  expect((await service.call('GET', `${list}/${read.id}`, as())).body).toEqual(read)
})

test('the list groups projects by team, with and without a trailing slash', async () => {
  const { environments } = await createProject(service, owner.session, 'listed', { teamId })
  const { body } = await service.call<TeamGroup[]>('GET', `${list}/`, as())
  expect((await service.call('GET', list, as())).body).toEqual(body)
  expect(body.map(({ name }) => name)).toEqual(['Everyone', 'Backend'])
  expect(body[0]?.projects).toEqual([])
  const listed = body[1]?.projects.find(({ slug }) => slug === 'listed')
  expect(listed).toMatchObject({ name: 'listed', secrets: 0, environments: 3, environmentList: environments })
})

test('a project is renamed, gets another slug and moves to another team', async () => {
  await createProject(service, owner.session, 'before', { teamId })
  const other = await createTeam(service, owner.session, 'Frontend')
  const body = { name: 'After', slug: 'after', teamId: other }
  const changed = await service.call('PUT', `${list}/before`, as({ body }))
  expect(changed.body).toMatchObject({ success: true, ...body })
  expect((await service.call('GET', `${list}/before`, as())).status).toBe(404)
  expect((await service.call('GET', `${list}/after`, as())).body).toMatchObject(body)
})

test('deleting a project deletes its environments', async () => {
  const { environments } = await createProject(service, owner.session, 'gone', { teamId })
  const { token } = await createToken(service, owner.session, { scope: { environments: [environments[0]?.id ?? ''] } })
  expect((await service.call('GET', `${list}/gone`, { token })).status).toBe(200)
  expect((await service.call('DELETE', `${list}/gone`, as())).body).toEqual({ success: true })
  expect((await service.call('GET', `${list}/gone`, as())).status).toBe(404)
  expect((await service.call('GET', list, { token })).body).toEqual([])
})

test('a slug is unique in a workspace, also under concurrent creations', async () => {
  const body = { name: 'Race', slug: 'race', teamId }
  const answers = await Promise.all(Array.from({ length: 20 }, () => service.call('POST', list, as({ body }))))
  expect(answers.map(({ status }) => status).sort()).toEqual([201, ...Array.from({ length: 19 }, () => 409)])
  await createProject(service, owner.session, 'other', { teamId })
  expect((await service.call('PUT', `${list}/other`, as({ body: { slug: 'race' } }))).status).toBe(409)
})

test.each([
  [
    'a team that does not exist',
    { name: 'x', slug: 'xx', teamId: '01a1dcf1-b912-73cb-9386-016275561f1a' },
    404,
    'Not found.',
  ],
  ['a reserved slug', { name: 'x', slug: 'environment' }, 400, 'slug: "environment" is a reserved word.'],
  ['no team', { name: 'x', slug: 'xx', teamId: undefined }, 400, 'teamId: is required.'],
  [
    'a malformed team id',
    { name: 'x', slug: 'xx', teamId: 'backend' },
    400,
    'teamId: must have 36 characters or more.',
  ],
])('refuses %s', async (_what, body, status, message) => {
  expect(await service.call('POST', list, as({ body: { teamId, ...body } }))).toMatchObject({
    status,
    body: { message },
  })
})

test('a move needs the role admin in both teams', async () => {
  const to = await createTeam(service, owner.session, 'Receiving')
  const { id } = await createProject(service, owner.session, 'moving', { teamId })
  const { body: workspace } = await service.call<{ id: string }>('GET', '/v1/workspace/main', as())
  const nothing = { all: false, teams: [], projects: [], environments: [] }
  const move = async (name: string, ...scopes: object[]) => {
    const [first = {}, ...others] = scopes.map((scope) => ({ role: 'admin' as const, scope: { ...nothing, ...scope } }))
    const person = await addUser(service, `${name}@example.com`, {
      ...{ workspaceId: workspace.id, role: 'admin', scope: nothing, further: others },
      ...first,
    })
    return service.call('PUT', `${list}/moving`, { token: person.session, body: { teamId: to } })
  }
  const partly = { status: 403, body: { message: 'Your scope covers only part of this team.' } }
  expect(await move('project', { projects: [id] }, { teams: [to] })).toMatchObject(partly)
  expect(await move('project-in-one', { projects: [id], teams: [to] })).toMatchObject(partly)
  expect((await move('source', { teams: [teamId] })).status).toBe(404)
  expect((await service.call<Project>('GET', `${list}/moving`, as())).body.teamId).toBe(teamId)
  expect((await move('both', { teams: [teamId] }, { teams: [to] })).status).toBe(200)
  expect((await service.call<Project>('GET', `${list}/moving`, as())).body.teamId).toBe(to)
})

test('an update without fields is refused', async () => {
  await createProject(service, owner.session, 'empty-update', { teamId })
  const answer = await service.call('PUT', `${list}/empty-update`, as({ body: {} }))
  expect(answer).toMatchObject({ status: 400, body: { message: 'body: must have at least one field.' } })
})

test('counts and lists cover only the scope of the credential', async () => {
  const { id, environments } = await createProject(service, owner.session, 'scoped', { teamId })
  const [development, staging] = environments.map((environment) => environment.id)
  const one = await createToken(service, owner.session, { scope: { environments: [staging ?? ''] } })
  const groups = await service.call<TeamGroup[]>('GET', list, { token: one.token })
  const environmentList = [{ id: staging, name: 'staging' }]
  expect(groups.body).toMatchObject([{ id: teamId, projects: [{ id, environments: 1, environmentList }] }])
  expect(groups.body[0]?.projects).toHaveLength(1)
  const { body } = await service.call<Project>('GET', `${list}/scoped`, { token: one.token })
  expect(body.environments).toEqual([{ id: staging, name: 'staging' }])
  const teams = await service.call('GET', '/v1/workspace/main/team', { token: one.token })
  expect(teams.body).toMatchObject([{ id: teamId, projectCount: 1 }])
  const both = await createToken(service, owner.session, {
    scope: { environments: [staging ?? '', development ?? ''] },
  })
  expect((await service.call<Project>('GET', `${list}/scoped`, { token: both.token })).body.environments).toHaveLength(
    2,
  )
})

test('secrets of many environments are counted in one query, a secret in two of them once', async () => {
  const reached: string[] = []
  for (const [index, slug] of ['counted-a', 'counted-b', 'counted-c'].entries()) {
    const { environments } = await createProject(service, owner.session, slug, { teamId })
    const [development = '', staging = '', production = ''] = environments.map(({ id }) => id)
    const write = (key: string, ids: string[]) =>
      service.call(
        'POST',
        `${list}/${slug}/secret`,
        as({ body: { environments: ids, secrets: [{ key, value: 'v' }] } }),
      )
    for (let count = 0; count <= index; count++) await write(`BOTH_${count}`, [development, staging])
    await write('ELSEWHERE', [production])
    reached.push(development, staging)
  }
  const { token } = await createToken(service, owner.session, { scope: { environments: reached } })
  const asked = vi.spyOn(service.app.services.engine, 'all')
  const { body } = await service.call<TeamGroup[]>('GET', list, { token })
  const counting = asked.mock.calls.filter(([{ strings }]) => strings.join('?').includes('count(distinct'))
  asked.mockRestore()
  expect(body.flatMap((group) => group.projects.map(({ slug, secrets }) => [slug, secrets]))).toEqual([
    ['counted-a', 1],
    ['counted-b', 2],
    ['counted-c', 3],
  ])
  expect(counting).toHaveLength(1)
})

test('every change is in the audit trail of the project', async () => {
  const { id } = await createProject(service, owner.session, 'audited', { teamId })
  await service.call('PUT', `${list}/audited`, as({ body: { name: 'Told' } }))
  await service.call('DELETE', `${list}/audited`, as())
  const { body } = await service.call('GET', `/v1/workspace/main/audit?project=${id}`, as())
  expect(body).toMatchObject([
    { action: 'DELETE', projectId: id },
    { action: 'UPDATE', before: { name: 'audited' }, after: { name: 'Told' } },
    { action: 'CREATE', after: { slug: 'audited', teamId } },
  ])
})
