/**
 * What happens when several change the same environment, project or team at the same moment: no change is lost, and
 * nobody is told that what is gone was changed. On PostgreSQL they ask different nodes in turn.
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

/** All at once, in turn over the nodes; the statuses in the order of the calls. */
async function together(...calls: readonly Call[]): Promise<number[]> {
  // What was prepared on one node is known to the other within a second: it need not be waited for.
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

/** What is recorded of the thing at this path, oldest first. */
async function trailOf(path: string): Promise<AuditEntry[]> {
  const { body } = await ask<AuditEntry[]>('GET', `${main}/audit?entity=${path.split('/').at(-1)}`)
  return body.toReversed()
}

test('of two changes to one environment at once, neither undoes the other', async () => {
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
  // The slug is free again once it is deleted: by its id it is the same one for all.
  expect(slug).toBe(`project-${made}`)
  return `${main}/project/${id}`
}

const createTeamPath = async () => `${main}/team/${await createTeam(service, owner.session, `team ${++made}`)}`

const kinds: [what: string, create: () => Promise<string>][] = [
  ['environment', createEnvironment],
  ['project', createProjectPath],
  ['team', createTeamPath],
]

test.each(kinds)('of many who delete one %s at once, one has deleted it', async (_what, create) => {
  const path = await create()
  const statuses = await together(...Array.from({ length: many }, (): Call => ['DELETE', path]))
  expect(statuses.sort()).toEqual([200, ...Array.from({ length: many - 1 }, () => 404)])
  expect((await trailOf(path)).map(({ action }) => action)).toEqual(['CREATE', 'DELETE'])
})

test.each(kinds)('a change to a %s that is deleted at once is done before, or not at all', async (_what, create) => {
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
    // Each found it as the one before had left it, and the last is recorded under the name that it had then.
    const names = trail.map(({ before, after }) => [before?.name, after?.name])
    for (const [at, [before]] of names.entries()) if (at > 0) expect(before).toBe(names[at - 1]?.[1])
    expect(trail.at(-1)?.entity.name).toBe(names.at(-1)?.[0])
  }
})

/** What is asked of a node that has not heard yet of what others have done. */
async function askLate(others: readonly Call[], calls: readonly Call[]): Promise<number[]> {
  const { snapshots, store } = service.app.services
  const stale = await snapshots.get((await store.workspaces.findIdForAnybody('main')) ?? '')
  for (const [method, path, body] of others) expect((await ask(method, path, body)).status).toBe(200)
  const peek = snapshots.peek
  snapshots.peek = () => stale
  const answers = await Promise.all(calls.map(([method, path, body]) => ask(method, path, body))).finally(() => {
    snapshots.peek = peek
  })
  return answers.map(({ status }) => status)
}

test('what is made in a project or a team that was just deleted, unheard of here, finds nothing there', async () => {
  const project = await createProjectPath()
  const team = await createTeamPath()
  const teamId = team.split('/').at(-1)
  const deletes: Call[] = [project, team].map((path) => ['DELETE', path])
  const statuses = await askLate(deletes, [
    ['POST', `${project}/environment`, { name: 'late' }],
    ['POST', `${main}/project`, { name: 'Late', slug: 'late', teamId }],
    ['PUT', `${main}/project/api`, { teamId }],
  ])
  expect(statuses).toEqual([404, 404, 404])
})

test('a project is not deleted by a slug that it has just lost, unheard of here, and that may be another’s by now', async () => {
  const { id } = await createProject(service, owner.session, 'staging-api')
  const rename: Call = ['PUT', `${main}/project/staging-api`, { slug: 'live-api' }]
  expect(await askLate([rename], [['DELETE', `${main}/project/staging-api`]])).toEqual([404])
  expect((await ask('GET', `${main}/project/live-api`)).body).toMatchObject({ id })
  const again: Call = ['PUT', `${main}/project/live-api`, { slug: 'late-api' }]
  expect(await askLate([again], [['DELETE', `${main}/project/${id}`]])).toEqual([200])
})

test('a reminder of a value whose environment was just deleted, unheard of here, finds nothing there', async () => {
  const environment = await createEnvironment()
  const environmentId = environment.split('/').at(-1)
  const secret = `${main}/project/api/secret`
  const body = { environments: [environmentId], secrets: [{ key: 'KEPT', value: 'one' }] }
  expect((await ask('POST', secret, body)).status).toBe(201)
  const reminder = { environmentId, type: 'one_time', nextReminderDate: '2030-01-01T00:00:00Z' }
  expect(await askLate([['DELETE', environment]], [['PUT', `${secret}/KEPT/reminder`, reminder]])).toEqual([404])
})
