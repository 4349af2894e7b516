/** Names: reserved words, invalid names, and the secrets in a list of chosen environments. */
import type { Secret, WriteResults } from '@coffer/contract/secret'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  createToken,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../../test/harness.ts'
import { openRaw, type RawDatabase } from '../../../../../test/raw-database.ts'
import { createSecretProject, type SecretProject } from '../../../../../test/secret-project.ts'

let service: TestService
let owner: TestUser
let raw: RawDatabase
let project: SecretProject

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
  raw = await openRaw(service)
  project = await createSecretProject(service, owner.session)
  await project.set('development', { A: '1' })
})
afterAll(async () => {
  await raw.close()
  await service.stop()
})

/** A secret that got its name before the word was reserved. */
async function createOlder(place: SecretProject, name: string): Promise<string> {
  const stand = `OLDER_${name}`
  const { results } = (await place.set('development', { [stand]: '1' })) as WriteResults
  const id = results[0]?.id ?? ''
  await raw.query('update secret set name = ? where id = ?', [name, id])
  await raw.query('update secret_version set name = ? where secret_id = ?', [name, id])
  return id
}

describe.each(['batch', 'diff', 'export', 'import', 'trash', 'locate'])('the reserved word %s', (word) => {
  const secrets = [{ key: word, value: '1' }]
  const files = [
    ['dotenv', `${word}=1`],
    ['json', JSON.stringify({ [word]: '1' })],
    ['yaml', `${word}: "1"`],
    ['csv', `key,value\n${word},1`],
  ]
  const set = { op: 'set', key: word, value: '1' }
  test.each<[string, string, string, object]>([
    ['a creation', 'POST', '/secret', { environments: ['development'], secrets }],
    ['a dry run', 'POST', '/secret', { environments: ['development'], secrets, dryRun: true }],
    ['an upsert', 'POST', '/secret', { environments: ['development'], secrets, mode: 'upsert' }],
    ['a rename', 'PUT', '/secret/A', { name: word, values: [] }],
    ['a batch that sets it', 'POST', '/secret/batch', { environmentId: 'development', operations: [set] }],
    [
      'a batch that renames',
      'POST',
      '/secret/batch',
      { environmentId: 'development', operations: [{ op: 'rename', key: 'A', to: word }] },
    ],
    ...files.map(([format = '', content]): [string, string, string, object] => [
      `an import of ${format}`,
      'POST',
      '/secret/import',
      { environmentId: 'development', format, content },
    ]),
  ])('is refused as a name by %s', async (_how, method, path, body) => {
    const answer = await project.ask(method, path, body)
    expect({ status: answer.status, message: answer.body.message }).toEqual({
      status: 400,
      message: expect.stringMatching(new RegExp(`^(key|name|to): ${word} is reserved for a path under /secret: `)),
    })
    expect(await project.state('development')).toEqual({ A: '1' })
  })

  test('stays the name of an older secret, which is reached by its id', async () => {
    const place = await createSecretProject(service, owner.session)
    const id = await createOlder(place, word)
    const changed = { name: word, note: 'older', values: [{ environmentId: 'development', value: '2' }] }
    await place.must('PUT', `/secret/${id}`, changed)
    await place.must('PUT', `/secret/${word}/value`, { environmentId: 'staging', value: '3' })
    await place.must('POST', '/secret/batch', { environmentId: 'development', operations: [{ ...set, value: '4' }] })
    expect(await place.must('GET', `/secret/${id}`)).toMatchObject({
      name: word,
      values: [{ value: '4' }, { value: '3' }],
    })
    await place.must('DELETE', `/secret/${id}`)
    await place.must('POST', `/secret/${id}/restore`)
    await place.must('PUT', `/secret/${id}`, { name: 'NEWER', values: [] })
    expect(await place.state('staging')).toEqual({ NEWER: '3' })
    expect((await place.ask('PUT', `/secret/${id}`, { name: word, values: [] })).status).toBe(400)
  })

  test('does not come back as a new secret when a revision is restored', async () => {
    const place = await createSecretProject(service, owner.session)
    const id = await createOlder(place, word)
    await place.must('DELETE', `/secret/${id}?purge=true`)
    await place.set('development', { B: '1' })
    await place.must('PUT', '/secret/B', { name: 'C', values: [] })
    await raw.query('update secret_rename set old_name = ? where old_name = ?', [word, 'B'])
    await raw.query('update secret_version set name = ? where name = ?', [word, 'B'])
    const [, before] = await place.revisions('development')
    const path = `/environment/${place.idOf('development')}/revision/${before?.revision}/restore`
    expect((await place.ask('POST', path, {})).status).toBe(400)
    expect(await place.state('development')).toEqual({ C: '1' })
  })
})

describe('an invalid name', () => {
  const texts = ['a.b', 'a b', 'é', '%00', '..%2F..', 'A%2FB', 'x'.repeat(256), '💥', 'A true', "';--"]
  test.each(texts)('%s is not found by any read or change', async (text) => {
    const key = text.includes('%') ? text : encodeURIComponent(text)
    const value = { environmentId: 'development', value: '1' }
    const asked = [
      ['GET', ''],
      ['GET', '?environmentId=development&resolve=true'],
      ['GET', '/version?environmentId=development'],
      ['GET', '/version/1?environmentId=development'],
      ['PUT', '/value', value],
      ['PUT', '', { name: 'A', values: [] }],
      ['POST', '/version/1/restore', { environmentId: 'development' }],
      ['POST', '/restore'],
      ['DELETE', ''],
      ['DELETE', '?purge=true'],
      ['DELETE', '/reminder?environmentId=development'],
    ] as const
    for (const [method, rest, body] of asked) {
      const answer = await project.ask(method, `/secret/${key}${rest}`, body)
      expect([method, rest, answer.status, answer.body]).toEqual([method, rest, 404, { message: 'Not found.' }])
    }
  })

  test('never gets the cached response of another request', async () => {
    await project.must('GET', '/secret/A?resolve=true&q=undefined')
    expect((await project.ask('GET', '/secret/A%20true?q=undefined')).status).toBe(404)
  })

  test('is refused with 400 as a new name', async () => {
    for (const name of ['a.b', 'x'.repeat(256)]) {
      expect((await project.ask('PUT', '/secret/A', { name, values: [] })).status).toBe(400)
    }
  })
})

describe('a list of chosen environments', () => {
  let place: SecretProject
  const listed = async (query: string, token?: string) => {
    const secrets = await place.must<Secret[]>('GET', `/secret${query}`, undefined, token)
    return Object.fromEntries(secrets.map(({ name, values }) => [name, values.length]))
  }
  beforeAll(async () => {
    place = await createSecretProject(service, owner.session)
    await place.set('development', { A: '1', B: '1' })
    await place.set('staging', { B: '1', C: '1' })
    await place.set('production', { D: '1' })
    await place.remove('production', 'D')
  })

  test.each([
    ['?environmentId=development', { A: 1, B: 1 }],
    ['?environment_id=staging', { B: 1, C: 1 }],
    ['?environmentId=development&environment_id=staging', { A: 1, B: 2, C: 1 }],
    ['?environmentId=development&environmentId=staging&environmentId=production', { A: 1, B: 2, C: 1 }],
    ['?environmentId=production', {}],
    ['?environmentId=development&view=keys', { A: 1, B: 1 }],
    ['?environmentId=development&resolve=true', { A: 1, B: 1 }],
    ['?environmentId=development&q=b', { B: 1 }],
    ['', { A: 1, B: 2, C: 1, D: 0 }],
    ['?view=keys', { A: 1, B: 2, C: 1, D: 0 }],
  ])('holds the secrets with a row in one of them: %s', async (query, expected) => {
    expect(await listed(query)).toEqual(expected)
    expect(await listed(query)).toEqual(expected)
  })

  test('holds a secret with only a personal row of the caller', async () => {
    await place.allowPersonal('production')
    const own = { environmentId: 'production', value: 'mine', isPersonal: true }
    await place.must('PUT', '/secret/A/value', own)
    expect(await listed('?environmentId=production')).toEqual({ A: 1 })
    const { token } = await createToken(service, owner.session)
    expect(await listed('?environmentId=production', token)).toEqual({})
  })

  test('holds nothing else for a credential for a part of the project', async () => {
    const environments = ['development', 'staging'].map(place.idOf)
    const { token } = await createToken(service, owner.session, {
      scope: { all: false, teams: [], projects: [], environments },
    })
    expect(await listed('?environmentId=development', token)).toEqual({ A: 1, B: 1 })
    expect(await listed('', token)).toEqual({ A: 1, B: 2, C: 1 })
  })

  test('is the response to a token for one environment', async () => {
    const scope = { all: false, teams: [], projects: [], environments: [place.idOf('staging')] }
    const { token } = await createToken(service, owner.session, { scope })
    const { body } = await service.call<Secret[]>('GET', '/v1/secrets', { token })
    expect(body.map(({ name }) => name)).toEqual(['B', 'C'])
  })
})
