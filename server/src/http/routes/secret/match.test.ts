/** If-Match: a change based on a stale read is refused, and only one of several concurrent changes succeeds. */
import type { Secret } from '@coffer/contract/secret'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import {
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

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
})
afterAll(() => service.stop())
beforeEach(async () => {
  project = await createSecretProject(service, owner.session)
  await project.set('development', { A: 'd' })
  await project.set('staging', { A: 's' })
})

type Change = [method: string, path: string, body?: unknown]
const send = ([method, path, body]: Change, ifMatch: string, token = owner.session) =>
  service.call<{ message: string }>(method, project.root + path, { token, body, headers: { 'if-match': ifMatch } })

async function etagOf(query = '', token = owner.session, key = 'A'): Promise<string> {
  const { status, headers } = await service.call('GET', `${project.root}/secret/${key}${query}`, { token })
  expect(status).toBe(200)
  return headers.get('etag') ?? ''
}

const row = (value: string, environmentId = 'development') => ({ environmentId, value })
const changes: [string, Change][] = [
  ['an update', ['PUT', '/secret/A', { name: 'A', values: [row('new')] }]],
  [
    'an update of several environments',
    ['PUT', '/secret/A', { name: 'A', values: [row('new'), row('new', 'staging')] }],
  ],
  ['an update of the note', ['PUT', '/secret/A', { name: 'A', note: 'new', values: [] }]],
  ['a rename', ['PUT', '/secret/A', { name: 'B', values: [] }]],
  ['a write', ['PUT', '/secret/A/value', row('new')]],
  ['a write with a reference', ['PUT', '/secret/A/value', row('$' + '{B}')]],
  ['a removal', ['DELETE', '/secret/A?environmentId=development']],
  ['a deletion', ['DELETE', '/secret/A']],
  ['a purge', ['DELETE', '/secret/A?purge=true']],
]

describe.each(changes)('%s', (_what, change) => {
  test('with a stale, weak or foreign ETag is refused with 412 and changes nothing', async () => {
    const stale = await etagOf()
    await project.must('PUT', '/secret/A', { name: 'A', note: 'meanwhile', values: [] })
    const before = (await project.ask('GET', '/secret')).text
    const now = await etagOf()
    for (const tag of [stale, `W/${now}`, now.replaceAll('"', ''), '"*"', '', `${stale}, "other"`, await listEtag()]) {
      const answer = await send(change, tag)
      expect(answer.status, tag).toBe(412)
      expect(answer.body.message).toBe('A has changed since you read it: read it again.')
    }
    expect((await project.ask('GET', '/secret')).text).toBe(before)
    expect(await project.revisions('development')).toHaveLength(1)
  })

  test.each([
    ['the current ETag', (tag: string) => tag],
    ['the current ETag among others', (tag: string) => `"other", W/"weak",${tag} , "more"`],
    ['an asterisk', () => ' * '],
  ])('with %s succeeds', async (_tag, header) => {
    const answer = await send(change, header(await etagOf()))
    expect(answer.status, answer.text).toBe(200)
  })

  test('is 404 for a purged secret, whatever the ETag', async () => {
    const tag = await etagOf()
    await project.must('DELETE', '/secret/A?purge=true')
    for (const header of [tag, '*']) expect((await send(change, header)).status).toBe(404)
  })
})

const listEtag = async () =>
  (await service.call('GET', `${project.root}/secret`, { token: owner.session })).headers.get('etag') ?? ''

test.each(changes.filter(([what]) => what !== 'an update of several environments').slice(0, 6))(
  '%s accepts the ETag of a read of exactly the environments that it changes',
  async (what, change) => {
    const isOfOne = !['an update of the note', 'a rename'].includes(what)
    expect((await send(change, await etagOf('?environmentId=staging'))).status).toBe(412)
    expect((await send(change, await etagOf('?environmentId=development&view=keys'))).status).toBe(412)
    const tag = await etagOf('?environmentId=development')
    await project.set('staging', { A: 'meanwhile' })
    expect((await send(change, tag)).status).toBe(isOfOne ? 200 : 412)
  },
)

test.each(changes.filter(([what]) => ['an update', 'a write', 'a deletion'].includes(what)))(
  '%s sent by many callers with the same ETag succeeds once',
  async (_what, [method, path, body]) => {
    const tag = await etagOf()
    const answers = await Promise.all(
      Array.from({ length: 12 }, (_, index) => {
        const own = JSON.parse(JSON.stringify(body ?? null).replace('"new"', `"${index}"`)) ?? undefined
        return send([method, path, own], tag)
      }),
    )
    const statuses = answers.map(({ status }) => status)
    expect(statuses.filter((status) => status === 200)).toHaveLength(1)
    // After a deletion, the others get 404.
    expect(statuses.filter((status) => status === 412 || status === 404)).toHaveLength(11)
  },
)

test('the ETag covers what the caller sees: their part of the project and their personal values', async () => {
  const scope = { environments: [project.idOf('development')] }
  const { token } = await createToken(service, owner.session, { scope })
  const [ofPart, ofAll] = [await etagOf('', token), await etagOf()]
  await project.set('staging', { A: 'meanwhile' })
  const write: Change = ['PUT', '/secret/A/value', row('new')]
  expect((await send(write, ofAll, token)).status).toBe(412)
  expect((await send(write, ofPart, token)).status).toBe(200)
  await project.allowPersonal('development')
  const personal: Change = ['PUT', '/secret/A/value', { ...row('own'), isPersonal: true }]
  const before = await etagOf()
  expect((await send(personal, before)).status).toBe(200)
  expect((await send(write, before)).status).toBe(412)
  const own = await project.must<Secret>('GET', '/secret/A')
  expect(own.values.map(({ value }) => value)).toEqual(['new', 'own', 'meanwhile'])
})

test('a secret in the trash, or without a value, has no ETag', async () => {
  const tag = await etagOf()
  const { id } = await project.must<Secret>('GET', '/secret/A')
  await project.must('DELETE', '/secret/A')
  for (const header of [tag, '*']) expect((await send(['DELETE', `/secret/${id}?purge=true`], header)).status).toBe(412)
  await project.must('POST', `/secret/${id}/restore`)
  for (const environment of ['development', 'staging']) await project.remove(environment, 'A')
  const write: Change = ['PUT', '/secret/A/value', row('new')]
  expect((await send(write, tag)).status).toBe(412)
  expect((await send(write, '*')).status).toBe(200)
})

test('other requests ignore If-Match', async () => {
  const body = { environments: ['development'], secrets: [{ key: 'B', value: '1' }] }
  expect((await send(['POST', '/secret', body], '"stale"')).status).toBe(201)
})
