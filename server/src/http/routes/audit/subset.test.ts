/** Many reads with different selections of keys must not fill the disk, and each entry must show its own keys. */
import type { AuditEntry, AuditVerdict } from '@coffer/contract/audit'
import type { Diff } from '@coffer/contract/history'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { registerOwner, startService, type TestService } from '../../../../../test/harness.ts'
import { openRaw, type RawDatabase } from '../../../../../test/raw-database.ts'
import { createSecretProject, type SecretProject } from '../../../../../test/secret-project.ts'

let service: TestService
let raw: RawDatabase
let session: string
let project: SecretProject

const names = Array.from({ length: 2_400 }, (_, index) => `KEY_${index}`.padEnd(200, '_')).sort()
const path = '/v1/workspace/main/audit'
/** Details, actor and 400 characters of bits. */
const bytesPerEntry = 1_500

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

async function measureTrail(): Promise<{ bytes: number; lists: number }> {
  const [row] = await raw.query(`
    select coalesce((select sum(length(details)) from audit_entry), 0)
      + coalesce((select sum(length(entries)) from audit_batch), 0)
      + coalesce((select sum(length(keys)) from audit_key_list), 0) as bytes,
      (select count(*) from audit_key_list) as lists`)
  return { bytes: Number(row?.bytes), lists: Number(row?.lists) }
}

/** The entries that the work adds, oldest first. */
async function entriesOf(work: () => Promise<unknown>, filter = ''): Promise<AuditEntry[]> {
  const [newest] = (await service.call<AuditEntry[]>('GET', `${path}?limit=1`, { token: session })).body
  await work()
  return (await stream(filter)).filter(({ sequence }) => sequence > (newest?.sequence ?? 0))
}

async function stream(filter = ''): Promise<AuditEntry[]> {
  const { text } = await service.call('GET', `${path}?format=ndjson${filter}`, { token: session })
  const lines = text.split('\n').filter((line) => line !== '')
  return lines.map((line) => JSON.parse(line))
}
const verify = async () => (await service.call<AuditVerdict>('GET', `${path}/verify`, { token: session })).body

const parts = Array.from({ length: 40 }, (_, index) => `KEY_${index + 1}`)
const search = (part: string) => project.must('GET', `/secret?environmentId=development&q=${part.toLowerCase()}`)

test('40 searches for different names store one list, and show and find exactly the names that matched', async () => {
  const [first = '', ...others] = parts
  const start = await measureTrail()
  await search(first)
  const once = await measureTrail()
  expect(once.lists).toBe(start.lists + 1)
  const entries = await entriesOf(async () => {
    for (const part of others) await search(part)
  })
  const after = await measureTrail()
  expect(after.lists).toBe(once.lists)
  expect(after.bytes - once.bytes).toBeLessThan(others.length * bytesPerEntry)
  const matching = (part: string) => names.filter((name) => name.includes(part))
  expect(entries.map(({ after }) => after)).toEqual(
    others.map((part) => ({ keys: matching(part), environments: ['development'] })),
  )
  const [newest] = (await service.call<AuditEntry[]>('GET', `${path}?limit=1`, { token: session })).body
  expect(newest).toEqual(entries.at(-1))

  const sought = names.find((name) => name.startsWith('KEY_234_')) ?? ''
  const { id } = await project.must<{ id: string }>('GET', `/secret/${sought}?view=keys`)
  for (const filter of [`&entity=${sought}`, `&entity=${id}`, '&q=key_234_']) {
    const found = (await stream(`&action=VIEW${filter}`)).filter(
      ({ sequence }) => sequence >= (entries[0]?.sequence ?? 0),
    )
    const expected = entries.filter(({ after }) => [after?.keys].flat().includes(sought))
    expect(expected).toHaveLength(2)
    expect(found).toEqual(expected)
  }
  expect((await verify()).ok).toBe(true)
})

test('a cached response and a short list are recorded with exactly their keys', async () => {
  const short = names.filter((name) => name.includes('KEY_77_'))
  const entries = await entriesOf(async () => {
    await search('KEY_23')
    await search('KEY_23')
    await search('KEY_77_')
  })
  const long = names.filter((name) => name.includes('KEY_23'))
  expect(entries.map(({ after }) => after?.keys)).toEqual([long, long, short])
})

test('different selections of environments in any order store no lists of their own', async () => {
  const manyNames = Array.from({ length: 60 }, (_, index) =>
    `environment-${String(index).padStart(2, '0')}`.padEnd(40, '-x'),
  )
  for (const name of manyNames) await project.must('POST', '/environment', { name })
  await project.set(manyNames[0] ?? '', Object.fromEntries(names.slice(0, 500).map((name) => [name, '2'])))
  const choose = (shift: number) => [...manyNames.slice(shift), ...manyNames.slice(0, shift)].slice(0, 56)
  const read = (shift: number) =>
    project.must(
      'GET',
      `/secret?${choose(shift)
        .map((name) => `environmentId=${name}`)
        .join('&')}`,
    )
  await read(10)
  const before = await measureTrail()
  const entries = await entriesOf(async () => {
    for (let shift = 0; shift < 4; shift++) await read(shift)
    for (let shift = 5; shift < 8; shift++) await read(shift)
  })
  const after = await measureTrail()
  // Only reads that include the first environment return a value and are recorded.
  expect(entries).toHaveLength(4)
  for (const { after } of entries) expect(after?.keys).toEqual(names.slice(0, 500))
  expect(entries[0]?.after?.environments).toEqual(choose(0).sort())
  expect([entries[0]?.after?.environmentIds].flat()).toHaveLength(56)
  expect(after.lists).toBe(before.lists)
  expect(after.bytes - before.bytes).toBeLessThan(entries.length * bytesPerEntry)
})

test('diffs of all pairs of revisions store no lists of their own, and show the keys that they compared', async () => {
  const own = await createSecretProject(service, session)
  const revisions = 5
  for (let index = 0; index < revisions; index++) {
    const written = names.slice(index * 100, index * 100 + 150)
    await own.set('staging', Object.fromEntries(written.map((name) => [name, String(index)])))
  }
  await own.rename(names[3] ?? '', 'RENAMED')
  await own.remove('staging', names[7] ?? '')
  const pairs = Array.from({ length: revisions * revisions }, (_, index) => [
    Math.floor(index / revisions) + 1,
    (index % revisions) + 3,
  ])
  const compare = ([from, to]: number[]) =>
    own.must<Diff>('GET', `/secret/diff?from=staging@${from}&to=staging@${to}&values=true`)
  await compare([1, 7])
  const before = await measureTrail()
  const diffs: Diff[] = []
  const entries = await entriesOf(async () => {
    for (const pair of pairs) diffs.push(await compare(pair))
  })
  const after = await measureTrail()
  expect(after.bytes - before.bytes).toBeLessThan(entries.length * bytesPerEntry)
  expect(entries.map(({ action, after }) => [action, after?.from, after?.to, after?.keys])).toEqual(
    diffs.flatMap(({ added, removed, changed, same }, index) => {
      const read = [...added, ...removed, ...changed].sort()
      const states = pairs[index]?.map((revision) => `staging@${revision}`) ?? []
      const views = [['VIEW', ...states, read]]
      return [['COMPARE', ...states, [...read, ...same].sort()], ...views]
    }),
  )
  const restored = await entriesOf(async () => {
    for (let revision = 1; revision <= revisions; revision++) {
      await own.must('POST', `/environment/${own.idOf('staging')}/revision/${revision}/restore`, { dryRun: true })
    }
  })
  expect(restored.map(({ action, after }) => [action, after?.dryRun])).toEqual(Array(revisions).fill(['COMPARE', true]))
  for (const { after } of restored) expect(after?.keys).toContain('RENAMED')
  const end = await measureTrail()
  expect(end.lists).toBe(after.lists)
  expect(end.bytes - after.bytes).toBeLessThan(restored.length * bytesPerEntry)
  expect((await verify()).ok).toBe(true)
})

test('a name that only old versions have is in the list, too', async () => {
  const own = await createSecretProject(service, session)
  const [first = '', ...others] = names.slice(0, 60)
  const write = (written: string[]) => own.set('staging', Object.fromEntries(written.map((name) => [name, '1'])))
  await write([first, ...others.slice(0, 50)])
  await own.remove('staging', first)
  await own.rename(first, 'RENAMED_WITHOUT_A_VALUE')
  await write(others)
  const compare = (from: number, to: number) => own.must('GET', `/secret/diff?from=staging@${from}&to=staging@${to}`)
  await compare(0, 1)
  await compare(0, 2)
  const before = await measureTrail()
  const entries = await entriesOf(async () => {
    await compare(0, 3)
    await compare(1, 3)
  })
  expect(entries.map(({ after }) => after?.keys)).toEqual([others, [first, ...others]])
  expect((await measureTrail()).lists).toBe(before.lists)
})

test('searches that resolve references store one list of the referenced values', async () => {
  const own = await createSecretProject(service, session)
  const targets = names.slice(0, 300)
  await own.set('production', Object.fromEntries(targets.map((name) => [name, 'x'])))
  await own.set('staging', Object.fromEntries(targets.map((name) => [name, 'y'])))
  const reference = (name: string, index: number) => `\${${index % 2 === 0 ? 'production' : 'staging'}.${name}}`
  await own.set('development', Object.fromEntries(targets.map((name, index) => [`R_${name}`, reference(name, index)])))
  const read = (part: string) => own.must('GET', `/secret?environmentId=development&resolve=true&q=r_${part}`)
  await read('KEY_1')
  const before = await measureTrail()
  const chosen = parts.filter((part) => targets.filter((name) => name.includes(part)).length >= 30)
  expect(chosen.length).toBeGreaterThan(3)
  const entries = await entriesOf(async () => {
    for (const part of chosen) await read(part)
  })
  const after = await measureTrail()
  expect(after.lists).toBe(before.lists)
  expect(after.bytes - before.bytes).toBeLessThan(entries.length * bytesPerEntry)
  for (const [index, part] of chosen.entries()) {
    const matching = targets.filter((name) => name.includes(part))
    const places = matching.map(
      (name) => `${own.slug}.${targets.indexOf(name) % 2 === 0 ? 'production' : 'staging'}.${name}`,
    )
    expect(entries[index]?.after).toEqual({
      keys: matching.map((name) => `R_${name}`),
      environments: ['development'],
      referenced: places.sort(),
      environmentIds: expect.arrayContaining(['development', 'staging', 'production'].map(own.idOf)),
    })
  }
  expect((await verify()).ok).toBe(true)
})

test.each([
  ['changed', `update audit_key_list set keys = replace(keys, 'KEY_1_', 'KEY_X_')`],
  ['reordered', `update audit_key_list set keys = replace(keys, '"KEY_0', '"ZZZ_0')`],
  ['removed', 'delete from audit_key_list'],
])('a base list that was %s fails verification, and its names are not shown', async (_what, statement) => {
  await search('KEY_19')
  await raw.restoring(['audit_key_list'], async () => {
    await raw.query(statement)
    expect(await verify()).toMatchObject({
      ok: false,
      reason: 'A list of keys that this entry refers to is missing or was changed.',
    })
    expect((await stream('&action=VIEW')).at(-1)?.after?.keys).toEqual(expect.stringMatching(/^[0-9a-f]{64}$/))
  })
  expect((await verify()).ok).toBe(true)
})

test('the selected names of an entry cannot be changed', async () => {
  await search('KEY_19')
  const [row] = await raw.query('select entries, last_sequence from audit_batch order by last_sequence desc limit 1')
  const bits = /bits\\":\\"([^\\]+)/.exec(String(row?.entries))?.[1] ?? ''
  expect(bits).toHaveLength(400)
  const others = `${bits.slice(0, 50)}${bits[50] === 'A' ? 'B' : 'A'}${bits.slice(51)}`
  await raw.restoring(['audit_batch'], async () => {
    await raw.query('update audit_batch set entries = replace(entries, ?, ?)', [bits, others])
    expect(await verify()).toMatchObject({ ok: false, reason: 'This entry was changed.' })
  })
  expect((await verify()).ok).toBe(true)
})
