/** Long lists of keys in the audit trail are stored once, shown in full, and tamper-evident like the entries. */
import type { AuditEntry, AuditVerdict } from '@coffer/contract/audit'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { registerOwner, startService, type TestService } from '../../../../../test/harness.ts'
import { openRaw, type RawDatabase } from '../../../../../test/raw-database.ts'
import { createSecretProject, type SecretProject } from '../../../../../test/secret-project.ts'
import { times } from '../../../../../test/tier.ts'

let service: TestService
let raw: RawDatabase
let session: string
let project: SecretProject

const reads = times(10, 40)
const names = Array.from({ length: 2_400 }, (_, index) => `KEY_${index}`.padEnd(200, '_'))
const path = '/v1/workspace/main/audit'

beforeAll(async () => {
  service = await startService()
  raw = await openRaw(service)
  session = (await registerOwner(service)).session
  project = await createSecretProject(service, session)
  await project.set('development', Object.fromEntries(names.map((name) => [name, '1'])))
})
afterAll(async () => {
  await raw.close()
  await service.stop()
})

const readAll = () => project.must('GET', '/secret?environmentId=development')
const ask = async <Body>(target: string) =>
  (await service.call<Body>('GET', `${path}${target}`, { token: session })).body
/** Streams all views, oldest first: a page would hold only a dozen. */
async function streamViews(filter = ''): Promise<AuditEntry[]> {
  const { text } = await service.call('GET', `${path}?format=ndjson&action=VIEW${filter}`, { token: session })
  const lines = text.split('\n').filter((line) => line !== '')
  return lines.map((line) => JSON.parse(line))
}
const verify = () => ask<AuditVerdict>('/verify')

async function measureTrail(): Promise<{ bytes: number; lists: number }> {
  const [row] = await raw.query(`
    select coalesce((select sum(length(details)) from audit_entry), 0)
      + coalesce((select sum(length(entries)) from audit_batch), 0)
      + coalesce((select sum(length(keys)) from audit_key_list), 0) as bytes,
      (select count(*) from audit_key_list) as lists`)
  return { bytes: Number(row?.bytes), lists: Number(row?.lists) }
}

test(`${reads} reads of 2,400 long names add one list of them to the audit trail`, async () => {
  const before = await measureTrail()
  await readAll()
  const once = await measureTrail()
  for (let count = 1; count < reads; count++) await readAll()
  const after = await measureTrail()
  expect(once.lists).toBe(before.lists + 1)
  expect(once.bytes - before.bytes).toBeLessThan(2_400 * 210)
  expect(after.lists).toBe(once.lists)
  expect(after.bytes - once.bytes).toBeLessThan((reads - 1) * 1_000)
})

test('an export and a resolved read share the list of the same keys', async () => {
  const { lists } = await measureTrail()
  await project.must('GET', '/secret/export?environmentId=development')
  await project.must('GET', '/secret?environmentId=development&resolve=true')
  expect((await measureTrail()).lists).toBe(lists)
})

test('entries show the whole list, in pages, in the stream and to the filters', async () => {
  await readAll()
  const [newest] = await ask<AuditEntry[]>('?action=VIEW&limit=1')
  expect(newest?.after).toEqual({ keys: expect.arrayContaining(names), environments: ['development'] })
  expect(newest?.after?.keys).toHaveLength(names.length)
  const views = await streamViews()
  expect(views.at(-1)).toEqual(newest)
  const sought = names[1_234] ?? ''
  const secret = await project.must<{ id: string }>('GET', `/secret/${sought}?view=keys`)
  const here = project.idOf('development')
  for (const filter of [`entity=${sought}`, `entity=${secret.id}`, 'q=key_1234_', `environment=${here}`]) {
    const found = await streamViews(`&${filter}`)
    expect(found.map(({ id }) => id)).toEqual(views.map(({ id }) => id))
  }
  for (const filter of ['entity=KEY_1', 'q=absent', `environment=${project.idOf('staging')}`]) {
    expect(await streamViews(`&${filter}`)).toEqual([])
  }
})

test.each([
  ['changed', `update audit_key_list set keys = replace(keys, 'KEY_1_', 'KEY_X_')`],
  ['emptied', `update audit_key_list set keys = '[]'`],
  ['removed', 'delete from audit_key_list'],
  ['moved to another chain', `update audit_key_list set chain_id = 'another'`],
])('a list that was %s fails verification and is not shown', async (_what, statement) => {
  await readAll()
  const [first] = await streamViews()
  await raw.restoring(['audit_key_list'], async () => {
    await raw.query(statement)
    expect(await verify()).toMatchObject({
      ok: false,
      firstBroken: first?.sequence,
      reason: 'A list of keys that this entry refers to is missing or was changed.',
    })
    const newest = (await streamViews()).at(-1)
    expect(newest?.after?.keys).toEqual(expect.stringMatching(/^[0-9a-f]{64}$/))
  })
  expect((await verify()).ok).toBe(true)
})

test('the digest in an entry cannot be replaced by that of another list', async () => {
  await project.set('staging', Object.fromEntries(names.slice(0, 1_000).map((name) => [name, '1'])))
  await project.must('GET', '/secret?environmentId=staging')
  await readAll()
  const [rowOfStaging, rowOfDevelopment] = await raw.query(
    'select digest from audit_key_list order by last_sequence desc',
  )
  await raw.restoring(['audit_batch'], async () => {
    await raw.query('update audit_batch set entries = replace(entries, ?, ?)', [
      rowOfDevelopment?.digest ?? '',
      rowOfStaging?.digest ?? '',
    ])
    expect(await verify()).toMatchObject({ ok: false, reason: 'This entry was changed.' })
  })
  expect((await verify()).ok).toBe(true)
})

test('a list whose read could not be recorded is stored by the next read', async () => {
  await project.set('production', Object.fromEntries(names.slice(0, 100).map((name) => [name, '1'])))
  const { lists } = await measureTrail()
  await raw.query('alter table audit_batch rename to elsewhere')
  expect((await project.ask('GET', '/secret?environmentId=production')).status).toBe(503)
  await raw.query('alter table elsewhere rename to audit_batch')
  expect((await measureTrail()).lists).toBe(lists)
  await project.must('GET', '/secret?environmentId=production')
  expect((await measureTrail()).lists).toBe(lists + 1)
  expect((await verify()).ok).toBe(true)
})

test('the last use of a list is updated again after many entries', async () => {
  await readAll()
  const used = async () => Number((await raw.query('select max(last_sequence) as at from audit_key_list'))[0]?.at)
  const before = await used()
  for (let count = 0; count < 20; count++) {
    await Promise.all(
      Array.from({ length: 101 }, () => project.ask('GET', `/secret/${names[0]}?environmentId=development`)),
    )
  }
  await readAll()
  expect(await used()).toBeGreaterThan(before)
})
