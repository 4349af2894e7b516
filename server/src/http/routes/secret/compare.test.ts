/** Requests that can confirm a guess of a value leave one audit entry each, even if they are refused. */
import type { AuditEntry, AuditVerdict } from '@coffer/contract/audit'
import type { Secret } from '@coffer/contract/secret'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { addUser, registerOwner, startService, type TestService, type TestUser } from '../../../../../test/harness.ts'
import { createSecretProject, type SecretProject } from '../../../../../test/secret-project.ts'

const pin = 'canary-4711'

let service: TestService
let owner: TestUser
let member: TestUser
let project: SecretProject

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
  const { body } = await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: owner.session })
  member = await addUser(service, 'member@example.com', { workspaceId: body.id, role: 'member' })
})
afterAll(() => service.stop())

beforeEach(async () => {
  project = await createSecretProject(service, owner.session)
  await project.set('development', { PIN: 'first', OTHER: 'other' })
  await project.set('development', { PIN: pin })
  await project.set('staging', { PIN: pin, OTHER: 'another' })
})

async function entries(query = ''): Promise<AuditEntry[]> {
  const path = `/v1/workspace/main/audit?limit=200&project=${project.slug}${query}`
  return (await service.call<AuditEntry[]>('GET', path, { token: owner.session })).body
}

type Asked = { method: string; path: string; body?: unknown; headers?: Record<string, string>; token?: string }
type Case = {
  readonly asked: (id: string) => Asked
  readonly status: number
  readonly keys: readonly string[]
  readonly environments?: readonly string[]
  readonly dryRun?: true
}

const development = 'development'
const both = [development, 'staging']
const value = (body: object): Asked => ({
  method: 'PUT',
  path: '/secret/PIN/value',
  body: { environmentId: development, ...body },
})
const put = (row: object, more: object = {}): Asked => ({
  method: 'PUT',
  path: '/secret/PIN',
  body: { name: 'PIN', values: [{ environmentId: development, ...row }], ...more },
})
const post = (more: object, value = pin): Asked => ({
  method: 'POST',
  path: '/secret',
  body: { environments: [development], secrets: [{ key: 'PIN', value }], ...more },
})
const batch = (operation: object, more: object = {}): Asked => ({
  method: 'POST',
  path: '/secret/batch',
  body: { environmentId: development, operations: [operation], ...more },
})
const set = { op: 'set', key: 'PIN', value: pin }
const load = (more: object, content = `PIN=${pin}`): Asked => ({
  method: 'POST',
  path: '/secret/import',
  body: { environmentId: development, format: 'dotenv', content, ...more },
})
const promote = (more: object): Asked => ({
  method: 'POST',
  path: `/environment/${project.idOf('staging')}/promote`,
  body: { from: development, keys: ['PIN'], ...more },
})
const restore = (revision: number, body: object): Asked => ({
  method: 'POST',
  path: `/environment/${project.idOf(development)}/revision/${revision}/restore`,
  body,
})
const stale = { headers: { 'if-match': '"stale"' } }
const one = { status: 200, keys: ['PIN'] }

const cases: Record<string, Case> = {
  'a comparison': {
    ...one,
    asked: () => ({ method: 'GET', path: '/secret/diff?from=development&to=staging' }),
    keys: ['OTHER', 'PIN'],
    environments: both,
  },
  'a comparison with a revision': {
    ...one,
    asked: () => ({ method: 'GET', path: '/secret/diff?from=development@1&to=development' }),
    keys: ['OTHER', 'PIN'],
  },
  'an unchanged value': { ...one, asked: () => value({ value: pin }) },
  'an unchanged value by id': { ...one, asked: (id) => ({ ...value({ value: pin }), path: `/secret/${id}/value` }) },
  'a value with a stale version': { ...one, asked: () => value({ value: pin, ifVersion: 1 }), status: 412 },
  'a value with a stale ETag': { ...one, asked: () => ({ ...value({ value: pin }), ...stale }), status: 412 },
  'an unchanged secret': { ...one, asked: () => put({ value: pin }) },
  'a secret with a stale ETag': { ...one, asked: () => ({ ...put({ value: pin }), ...stale }), status: 412 },
  'a secret whose name is taken': { ...one, asked: () => put({ value: pin }, { name: 'OTHER' }), status: 409 },
  'a value that references itself': { ...one, asked: () => put({ value: `\${PIN}` }), status: 409 },
  'a shared value sent by a member': {
    ...one,
    asked: () => ({ ...put({ value: 'a guess' }), token: member.session }),
    status: 403,
  },
  'an equal shared value sent by a member': {
    ...one,
    asked: () => ({ ...put({ value: pin }), token: member.session }),
  },
  'a creation of an existing secret': { ...one, asked: () => post({}), status: 409 },
  'an unchanged upsert': { ...one, asked: () => post({ mode: 'upsert' }), status: 201 },
  'a skipped creation': { ...one, asked: () => post({ mode: 'skip' }), status: 201 },
  'a dry run': { ...one, asked: () => post({ mode: 'upsert', dryRun: true }, 'a guess'), dryRun: true },
  'a dry run that would create': {
    ...one,
    asked: () => ({
      ...post({ dryRun: true }),
      body: { environments: ['staging'], secrets: [{ key: 'NEW', value: '1' }], dryRun: true },
    }),
    keys: ['NEW'],
    environments: ['staging'],
    dryRun: true,
  },
  'a refused dry run': { ...one, asked: () => post({ dryRun: true }), status: 409, dryRun: true },
  'an unchanged batch': { ...one, asked: () => batch(set) },
  'a dry run of a batch': { ...one, asked: () => batch({ ...set, value: 'a guess' }, { dryRun: true }), dryRun: true },
  'a batch with a stale version': { ...one, asked: () => batch({ ...set, ifVersion: 1 }), status: 412 },
  'a batch that deletes a stale version': {
    ...one,
    asked: () => batch({ op: 'delete', key: 'PIN', ifVersion: 1 }),
    status: 412,
  },
  'a batch whose rename is refused': {
    ...one,
    asked: () => batch({ op: 'rename', key: 'PIN', to: 'OTHER' }),
    status: 409,
  },
  'an unchanged import': { ...one, asked: () => load({ mode: 'upsert' }) },
  'a dry run of an import': { ...one, asked: () => load({ mode: 'upsert', dryRun: true }, 'PIN=guess'), dryRun: true },
  'a refused import': { ...one, asked: () => load({}), status: 409 },
  'a dry run of a promotion': { ...one, asked: () => promote({ dryRun: true }), environments: both, dryRun: true },
  'a promotion with a stale digest': {
    ...one,
    asked: () => promote({ ifDiff: 'stale' }),
    status: 412,
    environments: both,
  },
  'a promotion of an existing value': {
    ...one,
    asked: () => promote({ mode: 'create' }),
    status: 409,
    environments: both,
  },
  'a restored version that is the current one': {
    ...one,
    asked: () => ({ method: 'POST', path: '/secret/PIN/version/2/restore', body: { environmentId: development } }),
  },
  'a dry run of a revision': {
    ...one,
    asked: () => restore(1, { dryRun: true }),
    keys: ['OTHER', 'PIN'],
    dryRun: true,
  },
  'a revision that changes nothing': { ...one, asked: () => restore(2, {}), keys: ['OTHER', 'PIN'] },
  'a deletion with a stale ETag': {
    ...one,
    asked: () => ({ method: 'DELETE', path: '/secret/PIN?environmentId=development', ...stale }),
    status: 412,
  },
  'a deletion everywhere with a stale ETag': {
    ...one,
    asked: () => ({ method: 'DELETE', path: '/secret/PIN', ...stale }),
    status: 412,
    environments: [],
  },
  'a purge with a stale ETag': {
    ...one,
    asked: () => ({ method: 'DELETE', path: '/secret/PIN?purge=true', ...stale }),
    status: 412,
    environments: [],
  },
}

test.each(Object.entries(cases))('%s leaves one audit entry with the keys, and nothing else', async (_what, wanted) => {
  const { id } = await project.must<Secret>('GET', '/secret/PIN?view=keys')
  const before = await entries()
  const { method, path, token = owner.session, ...more } = wanted.asked(id)
  const answer = await service.call(method, project.root + path, { token, ...more })
  expect(answer.status, answer.text).toBe(wanted.status)
  const after = await entries()
  expect(after).toHaveLength(before.length + 1)
  const [entry] = after
  const { environments = [development], keys, status } = wanted
  expect(entry).toMatchObject({
    action: 'COMPARE',
    requestId: answer.headers.get('x-request-id'),
    outcome: status < 400 ? 'success' : 'failure',
    environmentId: environments.length === 1 ? project.idOf(environments[0] ?? '') : null,
  })
  expect(new Set(entry?.after?.keys as string[])).toEqual(new Set(keys))
  expect(new Set(entry?.after?.environments as string[])).toEqual(new Set(environments))
  expect(entry?.after?.dryRun).toBe(wanted.dryRun)
  expect(JSON.stringify(after)).not.toMatch(/canary|a guess/)
  expect(await project.state(development)).toEqual({ PIN: pin, OTHER: 'other' })
  const { body } = await service.call<AuditVerdict>('GET', '/v1/workspace/main/audit/verify', { token: owner.session })
  expect(body.ok).toBe(true)
})

test('a comparison with values is recorded as a read of them too', async () => {
  await project.must('GET', '/secret/diff?from=development&to=staging&values=true')
  const [first, second] = await entries()
  expect([first?.action, second?.action].sort()).toEqual(['COMPARE', 'VIEW'])
  expect(first?.requestId).toBe(second?.requestId)
})

test.each<[string, () => Asked, string]>([
  ['a changed value', () => value({ value: 'new' }), 'UPDATE'],
  ['a changed note', () => put({ value: pin }, { note: 'new' }), 'UPDATE'],
  ['a changed secret', () => put({ value: 'new' }), 'UPDATE'],
  ['a batch', () => batch({ op: 'delete', key: 'PIN' }), 'DELETE'],
  ['a promotion that changes nothing', () => promote({}), 'VIEW'],
  ['a deletion', () => ({ method: 'DELETE', path: '/secret/PIN' }), 'DELETE'],
])('%s leaves its own entry and no comparison', async (_what, asked, action) => {
  const { method, path, ...more } = asked()
  const answer = await service.call(method, project.root + path, { token: owner.session, ...more })
  expect(answer.status, answer.text).toBe(200)
  expect(await entries('&action=COMPARE')).toEqual([])
  expect((await entries())[0]).toMatchObject({ action, requestId: answer.headers.get('x-request-id') })
})

test('a request for a missing secret, or without the permission to write, leaves no entry', async () => {
  const before = await entries()
  expect((await project.ask('PUT', '/secret/NOWHERE/value', { environmentId: development, value: pin })).status).toBe(
    404,
  )
  const asked = post({ mode: 'upsert' })
  expect((await project.ask('POST', asked.path, asked.body, member.session)).status).toBe(403)
  expect(await entries()).toEqual(before)
})

test('each of many concurrent guesses leaves its entry, right or wrong', async () => {
  const guesses = Array.from({ length: 112 }, (_, index) => (index === 70 ? pin : `guess-${index}`))
  const send = (guess: string) =>
    project.ask('PUT', '/secret/PIN/value', {
      environmentId: development,
      value: guess,
      ...(guess !== pin && { ifVersion: 1 }),
    })
  const answers = await Promise.all(guesses.map(send))
  expect(answers.map(({ status }) => status)).toEqual(guesses.map((guess) => (guess === pin ? 200 : 412)))
  const found = await entries('&action=COMPARE&entity=PIN&environment=development')
  expect(new Set(found.map(({ requestId }) => requestId))).toEqual(
    new Set(answers.map(({ headers }) => headers.get('x-request-id'))),
  )
  expect(found).toHaveLength(guesses.length)
  expect(found.filter(({ outcome }) => outcome === 'success')).toHaveLength(1)
})

test('comparisons count against the rate limit like a read', async () => {
  const limited = await startService({ COFFER_RATE_LIMIT: '200' })
  try {
    const { session } = await registerOwner(limited)
    const place = await createSecretProject(limited, session)
    await place.set(development, { PIN: pin })
    const left = async (method: string, path: string, body?: unknown) =>
      Number((await place.ask(method, path, body)).headers.get('ratelimit-remaining'))
    const before = await left('GET', '/secret/PIN')
    expect(await left('PUT', '/secret/PIN/value', { environmentId: development, value: pin })).toBe(before - 1)
    expect(await left('PUT', '/secret/PIN/value', { environmentId: development, value: 'x', ifVersion: 9 })).toBe(
      before - 2,
    )
    expect(await left('GET', '/secret/diff?from=development&to=staging')).toBe(before - 3)
    expect(await left('POST', '/secret', post({ dryRun: true, mode: 'upsert' }).body)).toBe(before - 4)
  } finally {
    await limited.stop()
  }
})
