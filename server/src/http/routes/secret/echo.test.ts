/** Rows sent back with the version that was read: concurrent changes by others are never undone. */
import type { AuditEntry } from '@coffer/contract/audit'
import type { Secret, SecretRow } from '@coffer/contract/secret'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { addUser, registerOwner, startService, type TestService, type TestUser } from '../../../../../test/harness.ts'
import { openRaw, type RawDatabase } from '../../../../../test/raw-database.ts'
import { createSecretProject, type SecretProject } from '../../../../../test/secret-project.ts'

let service: TestService
let owner: TestUser
let other: TestUser
let member: TestUser
let project: SecretProject
let raw: RawDatabase

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
  raw = await openRaw(service)
  const { body } = await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: owner.session })
  other = await addUser(service, 'other@example.com', { workspaceId: body.id, role: 'developer' })
  member = await addUser(service, 'member@example.com', { workspaceId: body.id, role: 'member' })
})
afterAll(async () => {
  await raw.close()
  await service.stop()
})

beforeEach(async () => {
  project = await createSecretProject(service, owner.session)
  for (const environment of ['development', 'staging']) await project.allowPersonal(environment)
  await project.set('development', { KEY: 'd1' })
  await project.set('staging', { KEY: 's1' })
  await project.set('production', { KEY: 'p1' })
  await project.must('PUT', '/secret/KEY', { name: 'KEY', note: 'first', values: [] })
})

const read = (token = owner.session, query = '') => project.must<Secret>('GET', `/secret/KEY${query}`, undefined, token)

/** The body that a client sends after a person edited some of the rows that it had read. */
function edited({ name, note, type, dataType, values }: Secret, edits: Record<string, string>, own?: string) {
  const edit = (row: SecretRow) => {
    const environment = ['development', 'staging', 'production'].find(
      (name) => project.idOf(name) === row.environmentId,
    )
    const value = row.isPersonal ? own : edits[environment ?? '']
    return value === undefined ? row : { ...row, value }
  }
  return { name, note, type, dataType, values: values.map(edit) }
}

const write = (environment: string, value: string, token = other.session) =>
  project.must('PUT', '/secret/KEY/value', { environmentId: environment, value }, token)
const put = (id: string, body: unknown, token = owner.session) => project.ask('PUT', `/secret/${id}`, body, token)
const values = async () => {
  const { values } = await read()
  return values.flatMap(({ value, isPersonal }) => (isPersonal ? [] : [value]))
}

describe('a row sent back with its version', () => {
  test('does not undo a change by somebody else', async () => {
    const secret = await read()
    await write('staging', 's2')
    await write('staging', 's3')
    expect((await put(secret.id, edited(secret, { development: 'd2' }))).status).toBe(200)
    expect(await values()).toEqual(['d2', 's3', 'p1'])
  })

  test('does not bring back a value that somebody else deleted', async () => {
    const secret = await read()
    await project.remove('staging', 'KEY')
    expect((await put(secret.id, edited(secret, { development: 'd2' }))).status).toBe(200)
    expect(await values()).toEqual(['d2', 'p1'])
  })

  test('creates no version if nothing was edited', async () => {
    const secret = await read()
    await write('staging', 's2')
    const before = await project.revisions('staging')
    expect((await put(secret.id, edited(secret, {}))).status).toBe(200)
    expect(await project.revisions('staging')).toEqual(before)
    expect(await values()).toEqual(['d1', 's2', 'p1'])
  })

  test('is no change if somebody else wrote the same value', async () => {
    const secret = await read()
    await write('staging', 's2')
    expect((await put(secret.id, edited(secret, { staging: 's2' }))).status).toBe(200)
    expect((await read()).values[1]).toMatchObject({ value: 's2', version: 2 })
  })

  test('is written if its version is the stored one, also over a removal', async () => {
    const secret = await read()
    expect((await put(secret.id, edited(secret, { staging: 's2' }))).status).toBe(200)
    await project.remove('staging', 'KEY')
    const row = { environmentId: 'staging', value: 's4', version: 3 }
    expect((await put(secret.id, { name: 'KEY', values: [row] })).status).toBe(200)
    expect(await values()).toEqual(['d1', 's4', 'p1'])
  })
})

describe('an edit of a stale row', () => {
  test('is refused with the whole request, and the error names key, environment, author and time', async () => {
    const secret = await read()
    await write('staging', 's2')
    const { updatedAt } = (await read()).values[1] ?? {}
    const answer = await put(secret.id, { ...edited(secret, { development: 'd2', staging: 'mine' }), note: 'second' })
    expect(answer.status).toBe(409)
    expect(answer.body.message).toBe(
      `KEY has changed since you read it: changed in staging by other@example.com at ${updatedAt}. Read it again and repeat your edit.`,
    )
    expect(await values()).toEqual(['d1', 's2', 'p1'])
    expect((await read()).note).toBe('first')
    const path = `/v1/workspace/main/audit?action=COMPARE&project=${project.slug}`
    const [entry] = (await service.call<AuditEntry[]>('GET', path, { token: owner.session })).body
    expect(entry).toMatchObject({ outcome: 'failure', entity: { name: 'KEY' }, after: { keys: ['KEY'] } })
  })

  test('is refused if the value was removed', async () => {
    const secret = await read()
    await project.must('DELETE', '/secret/KEY?environmentId=staging', undefined, other.session)
    const answer = await put(secret.id, edited(secret, { staging: 'mine' }))
    expect(answer.status).toBe(409)
    expect(answer.body.message).toMatch(
      /^KEY has changed since you read it: deleted in staging by other@example.com at 2/,
    )
  })

  test('is refused even if the value was changed back', async () => {
    const secret = await read()
    await write('staging', 's2')
    await write('staging', 's1')
    expect((await put(secret.id, edited(secret, { staging: 'mine' }))).status).toBe(409)
    expect((await put(secret.id, edited(secret, {}))).status).toBe(200)
  })

  test('is written if it carries no version', async () => {
    await write('staging', 's2')
    const row = { environmentId: 'staging', value: 'mine' }
    expect((await project.ask('PUT', '/secret/KEY', { name: 'KEY', values: [row] })).status).toBe(200)
    expect(await values()).toEqual(['d1', 'mine', 'p1'])
  })
})

test.each([
  [2, 'another', 400],
  [2, 's1', 400],
  [99, 'another', 400],
  [2 ** 40, 's1', 400],
  [-1, 's1', 400],
  [1.5, 's1', 400],
  ['1', 's1', 400],
  [0, 'another', 409],
  [0, 's1', 200],
])('version %s with the value %s is %i', async (version, value, status) => {
  const body = { name: 'KEY', values: [{ environmentId: 'staging', value, version }] }
  const answer = await project.ask('PUT', '/secret/KEY', body)
  expect(answer.status, answer.text).toBe(status)
  if (status === 400) expect(answer.body.message).toMatch(/version/)
  expect(await values()).toEqual(['d1', 's1', 'p1'])
})

test('a version of a value that never existed is 400, and version 0 writes it', async () => {
  await project.set('development', { ONLY: '1' })
  const put = (version: number) =>
    project.ask('PUT', '/secret/ONLY', { name: 'ONLY', values: [{ environmentId: 'staging', value: 'x', version }] })
  expect((await put(1)).status).toBe(400)
  expect((await put(0)).status).toBe(200)
  expect((await put(0)).status).toBe(200)
})

describe('a personal row', () => {
  const own = (value: string, token: string) =>
    project.must('PUT', '/secret/KEY/value', { environmentId: 'development', value, isPersonal: true }, token)

  test('can be edited by a member beside shared rows that others have changed', async () => {
    await own('own 1', member.session)
    const secret = await read(member.session)
    await write('development', 'd2')
    await write('staging', 's2')
    await project.remove('production', 'KEY')
    await project.must('PUT', '/secret/KEY', { name: 'RENAMED', note: 'second', values: [] })
    const answer = await put(secret.id, edited(secret, {}, 'own 2'), member.session)
    expect(answer.status, answer.text).toBe(200)
    const after = await project.must<Secret>('GET', `/secret/${secret.id}`, undefined, member.session)
    expect(after).toMatchObject({ name: 'RENAMED', note: 'second' })
    expect(after.values.map(({ value }) => value)).toEqual(['d2', 'own 2', 's2'])
  })

  test('does not let a member change the shared rows beside it', async () => {
    await own('own 1', member.session)
    const secret = await read(member.session)
    expect((await put(secret.id, edited(secret, { staging: 'mine' }, 'own 2'), member.session)).status).toBe(403)
    await write('staging', 's2')
    expect((await put(secret.id, edited(secret, { staging: 'mine' }, 'own 2'), member.session)).status).toBe(409)
    expect((await read(member.session)).values[1]).toMatchObject({ value: 'own 1', isPersonal: true })
  })

  test('is refused when stale unless it is equal, because personal values keep no history', async () => {
    await own('own 1', owner.session)
    const secret = await read()
    await own('own 2', owner.session)
    const answer = await put(secret.id, edited(secret, { staging: 's2' }))
    expect(answer.status).toBe(409)
    expect(answer.body.message).toMatch(/^KEY has changed since you read it: your own value in development at 2/)
    expect((await put(secret.id, edited(secret, { staging: 's2' }, 'own 2'))).status).toBe(200)
    await project.must('DELETE', '/secret/KEY?environmentId=development&personal=true')
    expect((await put(secret.id, edited(secret, {}))).status).toBe(409)
  })

  test('is left alone if it is hidden by now and was not edited', async () => {
    await own('own 1', owner.session)
    const secret = await read()
    await project.must('PUT', `/environment/${project.idOf('development')}`, { hasPersonalOverrides: false })
    expect((await put(secret.id, edited(secret, { staging: 's2' }))).status).toBe(200)
    expect(await values()).toEqual(['d1', 's2', 'p1'])
  })
})

describe('an earlier name, note or type', () => {
  const change = (body: object) => project.must('PUT', `/secret/KEY`, { name: 'KEY', values: [], ...body })
  const fieldsOf = ({ name, note, type, dataType }: Secret) => ({ name, note, type, dataType })
  const readId = (id: string) => project.must<Secret>('GET', `/secret/${id}`)
  const now = { name: 'RENAMED', note: 'second', type: 'build', dataType: 'url' }

  test('is an echo and changes nothing', async () => {
    const secret = await read()
    await change(now)
    expect((await put(secret.id, edited(secret, { staging: 's2' }))).status).toBe(200)
    const after = await readId(secret.id)
    expect(fieldsOf(after)).toEqual(now)
    expect(after.values[1]).toMatchObject({ value: 's2' })
  })

  test.each([
    ['a batch', { op: 'rename', key: 'RENAMED', to: 'LATEST' }],
    ['a batch that writes', { op: 'set', key: 'RENAMED', value: 'd2', note: 'third' }],
  ])('is recognized if %s changed it', async (_how, operation) => {
    const secret = await read()
    await change({ name: 'RENAMED' })
    const stale = await readId(secret.id)
    await project.must('POST', '/secret/batch', { environmentId: 'development', operations: [operation] })
    const before = fieldsOf(await readId(secret.id))
    for (const sent of [secret, stale]) expect((await put(secret.id, edited(sent, {}))).status).toBe(200)
    expect(fieldsOf(await readId(secret.id))).toEqual(before)
  })

  test('is recognized if an upsert changed it, and if the secret had no value then', async () => {
    const secret = await read()
    const row = { key: 'KEY', value: 'd1', note: 'upserted', dataType: 'number' }
    await project.must('POST', '/secret', { environments: ['development'], secrets: [row], mode: 'upsert' })
    await project.must('PUT', '/secret/KEY', { name: 'BETWEEN', values: [] })
    for (const environment of ['development', 'staging', 'production']) await project.remove(environment, 'BETWEEN')
    await project.must('PUT', '/secret/BETWEEN', { name: 'VALUELESS', values: [] })
    await project.must('PUT', '/secret/VALUELESS', { name: 'LATEST', values: [] })
    for (const name of ['KEY', 'BETWEEN', 'VALUELESS']) {
      expect((await put(secret.id, { ...edited(secret, {}), name })).status).toBe(200)
    }
    const [latest] = await project.must<Secret[]>('GET', '/secret')
    expect(latest && fieldsOf(latest)).toEqual({
      name: 'LATEST',
      note: 'upserted',
      type: 'runtime',
      dataType: 'number',
    })
  })

  test('is ignored, and a new note in the same request is written', async () => {
    const secret = await read()
    await change({ name: 'RENAMED' })
    expect((await put(secret.id, { ...edited(secret, {}), note: 'new' })).status).toBe(200)
    expect(fieldsOf(await readId(secret.id))).toMatchObject({ name: 'RENAMED', note: 'new' })
  })

  test('can be restored on purpose: by rows without version, with an ETag, or by a rename in a batch', async () => {
    const secret = await read()
    await change(now)
    const rows = edited(secret, {}).values.map(({ version: _version, ...row }) => row)
    expect((await put(secret.id, { ...edited(secret, {}), values: rows })).status).toBe(200)
    expect(fieldsOf(await read())).toEqual(fieldsOf(secret))

    const tagged = await service.call('GET', `${project.root}/secret/KEY`, { token: owner.session })
    const headers = { 'if-match': tagged.headers.get('etag') ?? '' }
    const body = { ...edited(secret, {}), ...now }
    const answer = await service.call('PUT', `${project.root}/secret/KEY`, { token: owner.session, body, headers })
    expect(answer.status, answer.text).toBe(200)
    expect(fieldsOf(await readId(secret.id))).toEqual(now)

    const rename = { op: 'rename', key: 'RENAMED', to: 'KEY' }
    await project.must('POST', '/secret/batch', { environmentId: 'development', operations: [rename] })
    expect((await readId(secret.id)).name).toBe('KEY')
  })

  test('is an echo even with If-Match: *, which does not prove a read', async () => {
    const secret = await read()
    await change(now)
    const sent = { token: owner.session, body: edited(secret, {}), headers: { 'if-match': '*' } }
    expect((await service.call('PUT', `${project.root}/secret/${secret.id}`, sent)).status).toBe(200)
    expect(fieldsOf(await readId(secret.id))).toEqual(now)
  })

  test('is recognized by name in a database that has not recorded the other fields', async () => {
    const secret = await read()
    await change({ name: 'RENAMED' })
    await raw.query('delete from secret_past where secret_id = ?', [secret.id])
    expect((await put(secret.id, edited(secret, {}))).status).toBe(200)
    expect((await readId(secret.id)).name).toBe('RENAMED')
  })

  test('is not stored as text, and is deleted with the secret', async () => {
    const secret = await read()
    await change({ note: 'a note that was a mistake' })
    await change({ note: '' })
    const rows = await raw.query('select * from secret_past where secret_id = ?', [secret.id])
    expect(rows.length).toBeGreaterThan(0)
    expect(JSON.stringify(rows)).not.toContain('mistake')
    await project.must('DELETE', '/secret/KEY?purge=true')
    expect(await raw.query('select * from secret_past where secret_id = ?', [secret.id])).toEqual([])
  })
})

test('responses with resolved references carry no version', async () => {
  await project.set('development', { URL: `\${KEY}` })
  const scope = { all: false, teams: [], projects: [], environments: [project.idOf('development')] }
  const body = { name: 'one', permission: 'read', scope, expiresIn: '24h' }
  const made = { token: owner.session, body }
  const { token } = (await service.call<{ token: string }>('POST', '/v1/workspace/main/tokens', made)).body
  const lists = [
    await project.must<Secret[]>('GET', '/secret?resolve=true'),
    await project.must<Secret[]>('GET', '/secret?resolve=true&view=keys'),
    [await read(owner.session, '?resolve=true')],
    (await service.call<Secret[]>('GET', '/v1/secrets', { token })).body,
  ]
  for (const secrets of lists) {
    const rows = secrets.flatMap(({ values }) => values)
    expect(rows.length).toBeGreaterThan(0)
    for (const row of rows) expect(row).not.toHaveProperty('version')
  }
  expect((await read()).values[0]).toHaveProperty('version', 1)
})
