/**
 * Concurrent changes to one environment, project or team: no change is lost, and no request reports success on
 * something deleted. On PostgreSQL the requests alternate between two nodes.
 */
import type { AuditEntry } from '@coffer/contract/audit'
import type { Environment } from '@coffer/contract/environment'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  createProject,
  createTeam,
  engine,
  openService,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../test/harness.ts'

const rounds = 10
const main = '/v1/workspace/main'
const list = `${main}/project/api/environment`

let service: TestService
let nodes: TestService[]
let owner: TestUser
let made = 0

beforeAll(async () => {
  service = await startService()
  nodes = engine === 'postgres' ? [service, await openService(service.settings, service.dataDir)] : [service]
  owner = await registerOwner(service)
  await createProject(service, owner.session, 'api')
})
afterAll(async () => {
  for (const node of nodes.slice(1)) await node.stop()
  await service.stop()
})

const ask = <Body>(method: string, path: string, body?: unknown, node = service) =>
  node.call<Body>(method, path, { token: owner.session, ...(body !== undefined && { body }) })

type Call = readonly [method: string, path: string, body?: unknown]

/** Sends all calls at once, alternating over the nodes; returns the statuses in the order of the calls. */
async function together(...calls: readonly Call[]): Promise<number[]> {
  // Another node would see the prepared state within a second; clearing the snapshots saves the wait.
  for (const node of nodes) node.app.services.snapshots.clear()
  const answers = await Promise.all(
    calls.map(([method, path, body], index) => ask(method, path, body, nodes[index % nodes.length])),
  )
  return answers.map(({ status }) => status)
}

async function createEnvironment(): Promise<string> {
  const { body } = await ask<{ id: string }>('POST', list, { name: `place ${++made}` })
  return `${list}/${body.id}`
}

/** Audit entries of the entity at this path, oldest first. */
async function trailOf(path: string): Promise<AuditEntry[]> {
  const { body } = await ask<AuditEntry[]>('GET', `${main}/audit?entity=${path.split('/').at(-1)}`)
  return body.toReversed()
}

test('neither of two concurrent changes to one environment undoes the other', async () => {
  for (let round = 0; round < rounds; round++) {
    const path = await createEnvironment()
    const name = `renamed ${round}`
    expect(await together(['PUT', path, { name }], ['PUT', path, { hasPersonalOverrides: true }])).toEqual([200, 200])
    const { body } = await ask<Environment[]>('GET', list)
    expect(body.find(({ id }) => path.endsWith(id))).toMatchObject({ name, hasPersonalOverrides: true })
    const [, first, second] = await trailOf(path)
    expect(second).toMatchObject({ before: first?.after, after: { name, hasPersonalOverrides: true } })
  }
})

const many = 12
const wins = (statuses: readonly number[]) => statuses.filter((status) => status === 200).length

async function createProjectPath(): Promise<string> {
  const { slug, id } = await createProject(service, owner.session, `project-${++made}`)
  // A deleted project frees its slug for others, so the tests address it by id.
  expect(slug).toBe(`project-${made}`)
  return `${main}/project/${id}`
}

const createTeamPath = async () => `${main}/team/${await createTeam(service, owner.session, `team ${++made}`)}`

const kinds: [what: string, create: () => Promise<string>][] = [
  ['environment', createEnvironment],
  ['project', createProjectPath],
  ['team', createTeamPath],
]

test.each(kinds)('one of many concurrent deletes of one %s succeeds', async (_what, create) => {
  const path = await create()
  const statuses = await together(...Array.from({ length: many }, (): Call => ['DELETE', path]))
  expect(statuses.sort()).toEqual([200, ...Array.from({ length: many - 1 }, () => 404)])
  expect((await trailOf(path)).map(({ action }) => action)).toEqual(['CREATE', 'DELETE'])
})

test.each(kinds)('a rename concurrent with the delete of a %s happens before it, or is 404', async (_what, create) => {
  for (let round = 0; round < rounds; round++) {
    const path = await create()
    const rename = (): Call => ['PUT', path, { name: `late ${++made}` }]
    const calls = [rename(), rename(), ['DELETE', path] as const, rename(), rename()]
    const statuses = await together(...calls)
    expect(statuses[2]).toBe(200)
    for (const status of statuses) expect([200, 404]).toContain(status)
    const trail = await trailOf(path)
    expect(trail.map(({ action }) => action)).toEqual([
      'CREATE',
      ...Array.from({ length: wins(statuses) - 1 }, () => 'UPDATE'),
      'DELETE',
    ])
    // Each entry starts from the result of the one before, and the last one has the name of that moment.
    const names = trail.map(({ before, after }) => [before?.name, after?.name])
    for (const [at, [before]] of names.entries()) if (at > 0) expect(before).toBe(names[at - 1]?.[1])
    expect(trail.at(-1)?.entity.name).toBe(names.at(-1)?.[0])
  }
})

/** Sends calls to a node whose snapshot is older than the changes of the others. */
async function callWithStaleSnapshot(changes: readonly Call[], calls: readonly Call[]): Promise<number[]> {
  const { snapshots, store } = service.app.services
  const stale = await snapshots.get((await store.workspaces.findIdForAnybody('main')) ?? '')
  for (const [method, path, body] of changes) expect((await ask(method, path, body)).status).toBe(200)
  const peek = snapshots.peek
  snapshots.peek = () => stale
  const answers = await Promise.all(calls.map(([method, path, body]) => ask(method, path, body))).finally(() => {
    snapshots.peek = peek
  })
  return answers.map(({ status }) => status)
}

test('creating something in a deleted project or team is 404, also with a stale snapshot', async () => {
  const project = await createProjectPath()
  const team = await createTeamPath()
  const teamId = team.split('/').at(-1)
  const deletes: Call[] = [project, team].map((path) => ['DELETE', path])
  const statuses = await callWithStaleSnapshot(deletes, [
    ['POST', `${project}/environment`, { name: 'late' }],
    ['POST', `${main}/project`, { name: 'Late', slug: 'late', teamId }],
    ['PUT', `${main}/project/api`, { teamId }],
  ])
  expect(statuses).toEqual([404, 404, 404])
})

test('a delete by an old slug never deletes the renamed project, also with a stale snapshot', async () => {
  const { id } = await createProject(service, owner.session, 'staging-api')
  const rename: Call = ['PUT', `${main}/project/staging-api`, { slug: 'live-api' }]
  expect(await callWithStaleSnapshot([rename], [['DELETE', `${main}/project/staging-api`]])).toEqual([404])
  expect((await ask('GET', `${main}/project/live-api`)).body).toMatchObject({ id })
  const again: Call = ['PUT', `${main}/project/live-api`, { slug: 'late-api' }]
  expect(await callWithStaleSnapshot([again], [['DELETE', `${main}/project/${id}`]])).toEqual([200])
})

test('a reminder for a value in a deleted environment is 404, also with a stale snapshot', async () => {
  const environment = await createEnvironment()
  const environmentId = environment.split('/').at(-1)
  const secret = `${main}/project/api/secret`
  const body = { environments: [environmentId], secrets: [{ key: 'KEPT', value: 'one' }] }
  expect((await ask('POST', secret, body)).status).toBe(201)
  const reminder = { environmentId, type: 'one_time', nextReminderDate: '2030-01-01T00:00:00Z' }
  expect(
    await callWithStaleSnapshot([['DELETE', environment]], [['PUT', `${secret}/KEPT/reminder`, reminder]]),
  ).toEqual([404])
})
