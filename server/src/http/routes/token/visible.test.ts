/** Visibility of tokens, and of the ids in their scopes, to tokens and people. */
import type { Token } from '@coffer/contract/token'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  addUser,
  createProject,
  createToken,
  exchange,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../../test/harness.ts'

let service: TestService
let owner: TestUser
let workspaceId: string

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
  workspaceId = (await service.call<{ id: string }>('GET', '/v1/workspace/main', as(owner))).body.id
})
afterAll(() => service.stop())

const list = '/v1/workspace/main/tokens'
const as = (user: TestUser, options = {}) => ({ token: user.session, ...options })

test('a token sees itself and the tokens of its creator within its scope, and no id outside of it', async () => {
  const project = await createProject(service, owner.session, 'visible-tokens')
  const [development, staging, production] = project.environments.map(({ id }) => id)
  const person = await addUser(service, 'maker@example.com', { workspaceId, role: 'developer' })
  const make = (...environments: (string | undefined)[]) =>
    createToken(service, person.session, { scope: { environments: environments.flatMap((id) => id ?? []) } })
  const [itself, equal] = [await make(staging), await make(staging)]
  const others = [
    await make(development, staging),
    await make(production),
    await createToken(service, person.session, { scope: { projects: [project.id] } }),
    await createToken(service, person.session),
  ]
  for (const token of [itself.token, await exchange(service, itself.token)]) {
    const { body, text } = await service.call<Token[]>('GET', list, { token })
    expect(body.map(({ id }) => id).sort()).toEqual([itself.id, equal.id].sort())
    for (const id of [development, production, project.id, ...others.map((other) => other.id)]) {
      expect(text).not.toContain(id)
    }
    for (const { id } of others) expect((await service.call('DELETE', `${list}/${id}`, { token })).status).toBe(404)
    expect((await service.call('DELETE', `${list}/${equal.id}`, { token })).status).toBe(403)
  }
  const { body: own } = await service.call<Token[]>('GET', list, as(person))
  expect(own).toHaveLength(6)
})

test('a person with a narrowed scope sees their tokens without the lost ids', async () => {
  const project = await createProject(service, owner.session, 'lost-tokens')
  const [development, staging] = project.environments.map(({ id }) => id)
  const person = await addUser(service, 'narrowed@example.com', { workspaceId, role: 'developer' })
  const scope = { environments: [development, staging].flatMap((id) => id ?? []) }
  const wide = await createToken(service, person.session, { scope })
  const change = { scope: { environments: [staging] } }
  const path = `/v1/workspace/main/rbac/${person.memberId}`
  expect((await service.call('PUT', path, as(owner, { body: change }))).status).toBe(200)
  for (const token of [person.session, wide.token]) {
    const { body, text } = await service.call<Token[]>('GET', list, { token })
    expect(body).toMatchObject([{ id: wide.id, scope: { all: false, environments: [staging] } }])
    expect(text).not.toContain(development)
  }
})
