import type { AuditEntry, AuditVerdict } from '@coffer/contract/audit'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  type Answer,
  createProject,
  createTeam,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../../test/harness.ts'
import { createSecretProject } from '../../../../../test/secret-project.ts'

let service: TestService
let owner: TestUser
let projectId: string

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
  projectId = (await createProject(service, owner.session, 'api')).id
  for (let index = 0; index < 60; index++) await createTeam(service, owner.session, `Team ${index}`)
})
afterAll(() => service.stop())

const path = '/v1/workspace/main/audit'
const read = (query = '') => service.call<AuditEntry[]>('GET', `${path}${query}`, { token: owner.session })

test('entries are listed newest first, 50 per page, and the cursor leads through all of them', async () => {
  const first = await read()
  expect(first.body).toHaveLength(50)
  const all = [...first.body]
  let cursor = first.headers.get('x-next-cursor')
  while (cursor) {
    const page = await read(`?limit=7&cursor=${cursor}`)
    all.push(...page.body)
    cursor = page.headers.get('x-next-cursor')
  }
  expect(all.map(({ sequence }) => sequence)).toEqual(
    Array.from({ length: all.length }, (_, index) => all.length - index),
  )
  expect(all.length).toBeGreaterThanOrEqual(62)
})

test('an entry has actor, action, entity, IP address, user agent and request id', async () => {
  const made = await service.call('POST', '/v1/workspace/main/team', {
    token: owner.session,
    body: { name: 'Seen' },
    headers: { 'user-agent': 'a-test/1.0' },
  })
  const [entry] = (await read('?limit=1')).body
  expect(entry).toMatchObject({
    actor: { type: 'user', id: owner.id, name: owner.email },
    action: 'CREATE',
    entity: { type: 'team', name: 'Seen' },
    projectId: null,
    environmentId: null,
    ip: '127.0.0.1',
    userAgent: 'a-test/1.0',
    requestId: made.headers.get('x-request-id'),
    outcome: 'success',
    after: { name: 'Seen' },
    hash: expect.stringMatching(/^[0-9a-f]{64}$/),
  })
})

const filters: [name: string, value: () => string, count: number][] = [
  ['actor', () => 'nobody', 0],
  ['action', () => 'DELETE', 0],
  ['entity', () => 'project', 1],
  ['entity', () => 'Team 7', 1],
  ['project', () => projectId, 1],
  ['project', () => 'api', 1],
  ['environment', () => projectId, 0],
  ['q', () => 'eam 1', 11],
  ['q', () => '%', 0],
  ['from', () => '2999-01-01T00:00:00.000Z', 0],
  ['to', () => '2000-01-01T00:00:00+02:00', 0],
]
test.each(filters)('the filter %s returns only matching entries', async (name, value, count) => {
  const { body } = await read(`?limit=200&${name}=${encodeURIComponent(value())}`)
  expect(body).toHaveLength(count)
})

test('a filter that matches everything returns everything', async () => {
  const all = (await read('?limit=200')).body
  expect((await read(`?limit=200&actor=${owner.id}&from=2000-01-01T00:00:00Z`)).body).toEqual(all)
  expect((await read('?limit=200&action=create')).body).toEqual(all.filter(({ action }) => action === 'CREATE'))
})

test('several filters are combined with AND', async () => {
  expect((await read('?action=CREATE&entity=project&q=ap')).body).toHaveLength(1)
  expect((await read('?action=UPDATE&entity=project')).body).toEqual([])
})

test.each([
  ['limit=0', /^limit: /],
  ['limit=201', /^limit: /],
  ['limit=ten', /^limit: /],
  ['cursor=!', /^cursor: /],
  ['cursor=bm9uZQ', /^cursor: /],
  ['from=yesterday', /^from: /],
  ['format=xml', /^format: /],
  ['q=%00', /^q: /],
])('the query %s is refused', async (query, message) => {
  const answer = await service.call<{ message: string }>('GET', `${path}?${query}`, { token: owner.session })
  expect(answer.status).toBe(400)
  expect(answer.body.message).toMatch(message)
})

test('ndjson streams every entry, oldest first, one per line', async () => {
  const { text, headers } = await read('?format=ndjson')
  expect(headers.get('content-type')).toBe('application/x-ndjson')
  const entries: AuditEntry[] = text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
  expect(entries.map(({ sequence }) => sequence)).toEqual(
    Array.from({ length: entries.length }, (_, index) => index + 1),
  )
  const filtered = await read('?format=ndjson&entity=project')
  expect(filtered.text.trimEnd().split('\n')).toHaveLength(1)
})

test('a HEAD request for a stream does not read the audit trail', async () => {
  const asked = { method: 'HEAD', headers: { authorization: `Bearer ${owner.session}` } }
  const { status, headers } = await fetch(`${service.url}${path}?format=ndjson`, asked)
  expect(status).toBe(200)
  expect(headers.get('content-type')).toBe('application/x-ndjson')
})

test('an untampered audit trail verifies, also during writes', async () => {
  const writes = Array.from({ length: 40 }, (_, index) => createTeam(service, owner.session, `Parallel ${index}`))
  const during = await service.call<AuditVerdict>('GET', `${path}/verify`, { token: owner.session })
  expect(during.body.ok).toBe(true)
  await Promise.all(writes)
  const after = await service.call<AuditVerdict>('GET', `${path}/verify`, { token: owner.session })
  const [newest] = (await read('?limit=1')).body
  expect(after.body).toEqual({ ok: true, entries: newest?.sequence, head: newest?.hash })
})

test('a refused request leaves no entry', async () => {
  const before = (await read('?limit=1')).body
  await service.call('POST', '/v1/workspace/main/team', { token: owner.session, body: { name: 'Team 1' } })
  await service.call('POST', '/v1/workspace/main/team', { token: owner.session, body: {} })
  expect((await read('?limit=1')).body).toEqual(before)
})

test('reads of very many keys shorten the pages, and every entry is on a page, in the stream and in the chain', async () => {
  const project = await createSecretProject(service, owner.session)
  const names = Array.from({ length: 4_000 }, (_, index) => `K${index}`.padEnd(250, '_'))
  await project.set('development', Object.fromEntries(names.map((name) => [name, '1'])))
  for (let count = 0; count < 12; count++) await project.must('GET', '/secret/export?environmentId=development')
  const filter = `action=VIEW&project=${project.slug}`
  const found: AuditEntry[] = []
  for (let cursor: string | null = ''; cursor !== null; ) {
    const page: Answer<AuditEntry[]> = await read(`?${filter}&limit=200${cursor && `&cursor=${cursor}`}`)
    expect(page.text.length).toBeLessThan(9 * 1024 * 1024)
    found.push(...page.body)
    cursor = page.headers.get('x-next-cursor')
  }
  expect(found).toHaveLength(12)
  expect(found.every(({ after }) => [after?.keys].flat().length === names.length)).toBe(true)
  const stream = await service.call('GET', `${path}?${filter}&format=ndjson`, { token: owner.session })
  expect(stream.text.trimEnd().split('\n')).toHaveLength(12)
  const verdict = await service.call<AuditVerdict>('GET', `${path}/verify`, { token: owner.session })
  expect(verdict.body.ok).toBe(true)
})
