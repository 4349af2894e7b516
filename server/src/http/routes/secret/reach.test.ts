/** A secret outside a credential's scope looks like one that does not exist, and everything inside is visible. */
import type { RevisionResults, Secret, WriteResults } from '@coffer/contract/secret'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import {
  addUser,
  createToken,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../../test/harness.ts'
import { createSecretProject, type SecretProject } from '../../../../../test/secret-project.ts'

let service: TestService
let owner: TestUser
let project: SecretProject
/** Reaches development and staging. */
let token: string

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
})
afterAll(() => service.stop())
beforeEach(async () => {
  project = await createSecretProject(service, owner.session)
  const environments = [project.idOf('development'), project.idOf('staging')]
  token = (await createToken(service, owner.session, { scope: { environments } })).token
  await project.set('development', { SEEN: 'd' })
  await project.set('production', { HIDDEN: 'p', SEEN: 'p' })
  await project.must('PUT', '/secret/HIDDEN', { name: 'HIDDEN', note: 'ours', values: [] })
})

type Request = (key: string) => [method: string, path: string, body?: unknown]
const reminder = { environmentId: 'development', type: 'one_time', nextReminderDate: '2030-01-01T00:00:00Z' }
const write = (key: string, more: object): ReturnType<Request> => [
  'PUT',
  `/secret/${key}/value`,
  { environmentId: 'development', value: 'x', ...more },
]
const batch = (operation: object): ReturnType<Request> => [
  'POST',
  '/secret/batch',
  { environmentId: 'development', dryRun: true, operations: [operation] },
]

const requests: [string, Request][] = [
  ['a read', (key) => ['GET', `/secret/${key}`]],
  ['a write', (key) => write(key, {})],
  ['a write with a version', (key) => write(key, { ifVersion: 99 })],
  ['a write with version 0', (key) => write(key, { ifVersion: 0 })],
  ['a write with a reference', (key) => write(key, { value: '$' + '{A}', ifVersion: 99 })],
  ['a write of the display mask', (key) => write(key, { value: '********' })],
  ['an empty update', (key) => ['PUT', `/secret/${key}`, { name: key, values: [] }]],
  ['an update of the note', (key) => ['PUT', `/secret/${key}`, { name: key, note: 'x', values: [] }]],
  [
    'an update of a value',
    (key) => ['PUT', `/secret/${key}`, { name: key, values: [{ environmentId: 'staging', value: 'x' }] }],
  ],
  ['a rename', (key) => ['PUT', `/secret/${key}`, { name: 'OTHER', values: [] }]],
  ['a reminder', (key) => ['PUT', `/secret/${key}/reminder`, reminder]],
  ['a deletion of a reminder', (key) => ['DELETE', `/secret/${key}/reminder?environmentId=development`]],
  ['a removal', (key) => ['DELETE', `/secret/${key}?environmentId=development`]],
  ['a deletion', (key) => ['DELETE', `/secret/${key}`]],
  ['a purge', (key) => ['DELETE', `/secret/${key}?purge=true`]],
  ['a list of versions', (key) => ['GET', `/secret/${key}/version?environmentId=development`]],
  ['a page of versions', (key) => ['GET', `/secret/${key}/version?environmentId=development&cursor=NQ`]],
  ['a read of a version', (key) => ['GET', `/secret/${key}/version/1?environmentId=development`]],
  ['a restore of a version', (key) => ['POST', `/secret/${key}/version/1/restore`, { environmentId: 'development' }]],
  ['a restore from the trash', (key) => ['POST', `/secret/${key}/restore`]],
  ['a batch that sets it', (key) => batch({ op: 'set', key, value: 'x', note: 'x' })],
  ['a batch that sets it with a version', (key) => batch({ op: 'set', key, value: 'x', ifVersion: 99 })],
  ['a batch that deletes it', (key) => batch({ op: 'delete', key })],
  ['a batch that renames it', (key) => batch({ op: 'rename', key, to: 'OTHER' })],
  [
    'a dry run that creates it',
    (key) => [
      'POST',
      '/secret',
      { environments: ['development', 'staging'], secrets: [{ key, value: 'x' }], dryRun: true },
    ],
  ],
  [
    'a dry run that imports it',
    (key) => [
      'POST',
      '/secret/import',
      { environmentId: 'staging', format: 'dotenv', content: `${key}=1`, dryRun: true },
    ],
  ],
]

describe.each(requests)('%s', (_what, request) => {
  test('gets the same response for a secret out of scope as for a missing one', async () => {
    const before = await project.must('GET', '/secret')
    const asked = async (key: string) => {
      const [method, path, body] = request(key)
      const answer = await project.ask(method, path, body, token)
      // Ids are new each time, and the key is the caller's own input.
      const text = answer.text.replaceAll(key, 'KEY').replace(/"id":"[0-9a-f-]{36}"/g, '"id":"…"')
      return `${answer.status} ${text}`
    }
    expect(await asked('HIDDEN')).toBe(await asked('ABSENT'))
    expect(await project.must('GET', '/secret')).toEqual(before)
  })
})

test('a dry run returns a new id for a secret out of scope each time, the same in all environments', async () => {
  const body = { environments: ['development', 'staging'], secrets: [{ key: 'HIDDEN', value: 'x' }], dryRun: true }
  const create = async () => (await project.must<WriteResults>('POST', '/secret', body, token)).results
  const operations = [{ op: 'set', key: 'HIDDEN', value: 'x' }]
  const batched = { environmentId: 'development', operations, dryRun: true }
  const inBatch = async () => (await project.must<RevisionResults>('POST', '/secret/batch', batched, token)).results
  const results = [await create(), await create(), await inBatch(), await inBatch()]
  for (const ids of results) expect(new Set(ids.map(({ id }) => id)).size).toBe(1)
  const { id } = await project.must<Secret>('GET', '/secret/HIDDEN')
  expect(new Set([id, ...results.map(([first]) => first?.id)]).size).toBe(5)
})

test('a value written under the name of a secret out of scope joins that secret and keeps its note and types', async () => {
  const { id, note, type, dataType } = await project.must<Secret>('GET', '/secret/HIDDEN')
  const described = { note: 'theirs', type: 'build', dataType: 'json' }
  const body = {
    environments: ['development'],
    secrets: [{ key: 'HIDDEN', value: '{}', ...described }],
    mode: 'upsert',
  }
  const { results } = await project.must<WriteResults>('POST', '/secret', body, token)
  expect(results).toMatchObject([{ id, status: 'created', version: 1 }])
  const joined = await project.must<Secret>('GET', '/secret/HIDDEN')
  expect(joined).toMatchObject({ id, note, type, dataType })
  expect(joined.values.map(({ value }) => value)).toEqual(['{}', 'p'])
  // The secret is in scope now, so its note and types can be changed.
  await project.must('POST', '/secret', body, token)
  expect(await project.must<Secret>('GET', '/secret/HIDDEN')).toMatchObject(described)
})

test('a secret in scope is written by id and name, even if only another environment has a value', async () => {
  const { id } = await project.must<Secret>('GET', '/secret/SEEN')
  for (const [index, key] of ['SEEN', id].entries()) {
    const body = { environmentId: 'staging', value: `s${index}` }
    expect(await project.must('PUT', `/secret/${key}/value`, body, token)).toEqual({
      success: true,
      version: index + 1,
    })
  }
  expect(await project.must('PUT', '/secret/SEEN/reminder', reminder, token)).toMatchObject({ success: true })
})

test('concurrent writes are each checked against the scope of their own caller', async () => {
  const both = [token, owner.session]
  const answers = await Promise.all(
    ['HIDDEN', 'SEEN'].flatMap((key) =>
      both.map(async (by) => {
        const body = { environmentId: 'staging', value: key }
        return `${key} ${(await project.ask('PUT', `/secret/${key}/value`, body, by)).status}`
      }),
    ),
  )
  // A caller that comes after the owner finds the value in scope.
  expect([...answers].sort().slice(0, 2)).toContain('HIDDEN 200')
  expect(answers.filter((answer) => answer === 'SEEN 200')).toHaveLength(2)
})

describe('the history of a value whose secret continues out of scope', () => {
  const past = (key: string): [method: string, path: string, body?: unknown][] => [
    ['GET', `/secret/${key}/version?environmentId=development`],
    ['GET', `/secret/${key}/version/1?environmentId=development`],
    ['POST', `/secret/${key}/version/1/restore`, { environmentId: 'development' }],
  ]
  const ask = async (key: string) => {
    const statuses: number[] = []
    for (const [method, path, body] of past(key)) statuses.push((await project.ask(method, path, body, token)).status)
    return statuses
  }
  let id: string

  beforeEach(async () => {
    id = (await project.must<Secret>('GET', '/secret/SEEN')).id
    await project.remove('development', 'SEEN')
  })

  test('is found by its old name and by id', async () => {
    expect(await ask('SEEN')).toEqual([200, 200, 200])
    await project.remove('development', 'SEEN')
    expect(await ask(id)).toEqual([200, 200, 200])
  })

  test('does not reveal the current name of the secret', async () => {
    await project.rename('SEEN', 'NEW_NAME')
    expect((await project.ask('GET', '/secret/NEW_NAME', undefined, token)).status).toBe(404)
    expect(await ask('NEW_NAME')).toEqual([404, 404, 404])
    expect(await ask(id)).toEqual([200, 200, 200])
    // The restored value is in scope, and so is its name.
    expect(await ask('NEW_NAME')).toEqual([200, 200, 200])
  })

  test('is found by a name that the secret got while it was in scope', async () => {
    await project.set('staging', { SEEN: 's' })
    await project.rename('SEEN', 'NEW_NAME')
    expect(await ask('NEW_NAME')).toEqual([200, 200, 200])
    await project.remove('staging', 'NEW_NAME')
    await project.remove('development', 'NEW_NAME')
    expect(await ask('NEW_NAME')).toEqual([200, 200, 200])
  })
})

describe('a list of one of the environments in scope', () => {
  const list = async (query: string, by = token) => {
    const secrets = await project.must<Secret[]>('GET', `/secret?${query}`, undefined, by)
    return secrets.map(({ name, values }) => `${name} ${values.map(({ value }) => value).join()}`)
  }

  test('holds only secrets with a value there', async () => {
    await project.set('staging', { ONLY_STAGING: 's' })
    expect(await list('environmentId=development')).toEqual(['SEEN d'])
    expect(await list('environmentId=staging')).toEqual(['ONLY_STAGING s'])
    expect(await list('environmentId=staging&q=seen')).toEqual([])
    expect(await list('')).toEqual(['ONLY_STAGING s', 'SEEN d'])
    const [id = ''] = [project.idOf('development')]
    const narrow = await createToken(service, owner.session, { scope: { environments: [id] } })
    expect(await list('environmentId=development', narrow.token)).toEqual(['SEEN d'])
    expect(await list('', narrow.token)).toEqual(['SEEN d'])
  })

  test('follows changes there', async () => {
    expect(await list('environmentId=staging')).toEqual([])
    await project.set('staging', { HIDDEN: 's' })
    expect(await list('environmentId=staging')).toEqual(['HIDDEN s'])
    await project.remove('staging', 'HIDDEN')
    expect(await list('environmentId=staging')).toEqual([])
  })

  test('holds secrets with a personal value of the caller while personal values are visible', async () => {
    const { body } = await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: owner.session })
    const scope = { all: false, teams: [], projects: [], environments: ['development', 'staging'].map(project.idOf) }
    const person = await addUser(service, `${project.slug}@example.com`, {
      workspaceId: body.id,
      role: 'developer',
      scope,
    })
    await project.allowPersonal('development')
    const own = { environmentId: 'development', value: 'own', isPersonal: true }
    await project.must('PUT', '/secret/SEEN/value', own, person.session)
    await project.remove('development', 'SEEN')
    expect(await list('environmentId=development', person.session)).toEqual(['SEEN own'])
    expect(await list('', person.session)).toEqual(['SEEN own'])
    expect(await list('environmentId=development')).toEqual([])
    await project.must('PUT', `/environment/${project.idOf('development')}`, { hasPersonalOverrides: false })
    expect(await list('environmentId=development', person.session)).toEqual([])
    expect(await list('', person.session)).toEqual([])
  })
})
