import type { AuditEntry } from '@coffer/contract/audit'
import type { Environment } from '@coffer/contract/environment'
import type { Revision, SecretVersion } from '@coffer/contract/history'
import type { TeamGroup } from '@coffer/contract/project'
import type { Reminder, RevisionResults, Secret, TrashedSecret, WriteResults } from '@coffer/contract/secret'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  addUser,
  createProject,
  createToken,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../../test/harness.ts'
import { openRaw } from '../../../../../test/raw-database.ts'

let service: TestService
let owner: TestUser
let developer: TestUser

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
  const workspace = await service.call<{ id: string }>('GET', '/v1/workspace/main', { token: owner.session })
  developer = await addUser(service, 'developer@example.com', { workspaceId: workspace.body.id, role: 'developer' })
})
afterAll(() => service.stop())

type Place = { slug: string; path: string; secret: string; dev: string; staging: string; production: string }
let places = 0

/** A project of its own for each test. */
async function newPlace(): Promise<Place> {
  const slug = `place-${++places}`
  const { environments } = await createProject(service, owner.session, slug)
  const [dev = '', staging = '', production = ''] = environments.map(({ id }) => id)
  const path = `/v1/workspace/main/project/${slug}`
  return { slug, path, secret: `${path}/secret`, dev, staging, production }
}

type Sent = { token?: string; body?: unknown }
const send = <Body = { message: string }>(method: string, path: string, { token = owner.session, body }: Sent = {}) =>
  service.call<Body>(method, path, { token, body })

async function create(place: Place, values: Record<string, string>, environments = [place.dev]): Promise<WriteResults> {
  const secrets = Object.entries(values).map(([key, value]) => ({ key, value }))
  const answer = await send<WriteResults>('POST', place.secret, { body: { environments, secrets } })
  expect(answer.status, answer.text).toBe(201)
  return answer.body
}

/** What one environment holds, by name. */
async function valuesIn(place: Place, environment: string): Promise<Record<string, string>> {
  const { body } = await send<Secret[]>('GET', `${place.secret}?environmentId=${environment}`)
  return Object.fromEntries(body.flatMap(({ name, values }) => values.map(({ value }) => [name, value ?? ''])))
}

/** Everything that the owner can read of a project: what a refused request must leave as it was. */
async function stateOf(place: Place): Promise<string> {
  const parts = [place.secret, `${place.path}/environment`, `${place.secret}/trash`]
  const texts = await Promise.all(parts.map(async (path) => (await send('GET', path)).text))
  const revisions = [place.dev, place.staging, place.production].map(
    async (id) => (await send('GET', `${place.path}/environment/${id}/revision`)).text,
  )
  return [...texts, ...(await Promise.all(revisions))].join('\n')
}

async function expectRefused(place: Place, sent: [method: string, path: string, body?: unknown], status: number) {
  const before = await stateOf(place)
  const [method, path, body] = sent
  const answer = await send(method, path, { body })
  expect(answer.status, answer.text).toBe(status)
  expect(await stateOf(place)).toBe(before)
  return answer.body.message
}

const ref = (name: string) => `\${${name}}`
const read = async (place: Place, key: string) => (await send<Secret>('GET', `${place.secret}/${key}`)).body
const versionsOf = async (place: Place, key: string, environment = place.dev) =>
  (await send<SecretVersion[]>('GET', `${place.secret}/${key}/version?limit=200&environmentId=${environment}`)).body
const revisionsOf = async (place: Place, environment = place.dev) =>
  (await send<Revision[]>('GET', `${place.path}/environment/${environment}/revision?limit=200`)).body

test('secrets are created in several environments, by id and by name, with everything that was given', async () => {
  const place = await newPlace()
  const secrets = [
    { key: 'B', value: '{}', type: 'build', dataType: 'json', note: 'why' },
    { key: 'A', value: '' },
  ]
  const { status, body } = await send<WriteResults>('POST', place.secret, {
    body: { environments: [place.dev, 'STAGING', 'staging'], secrets, message: 'first' },
  })
  expect(status).toBe(201)
  expect(body.success).toBe(true)
  const made = { status: 'created', version: 1 }
  expect(body.results).toEqual([
    { key: 'B', environmentId: place.dev, id: expect.any(String), ...made },
    { key: 'A', environmentId: place.dev, id: expect.any(String), ...made },
    { key: 'B', environmentId: place.staging, id: body.results[0]?.id, ...made },
    { key: 'A', environmentId: place.staging, id: body.results[1]?.id, ...made },
  ])
  const { body: listed } = await send<Secret[]>('GET', place.secret)
  const row = { isPersonal: false, version: 1 }
  expect(listed).toMatchObject([
    { name: 'A', note: '', type: 'runtime', dataType: 'text', values: [{ value: '' }, { value: '' }] },
    {
      id: body.results[0]?.id,
      name: 'B',
      note: 'why',
      type: 'build',
      dataType: 'json',
      values: [
        { environmentId: place.dev, value: '{}', ...row },
        { environmentId: place.staging, value: '{}', ...row },
      ],
    },
  ])
  expect(await revisionsOf(place)).toMatchObject([{ revision: 1, message: 'first', createdBy: owner.email }])
})

test('create refuses what exists and names it, upsert overwrites it, skip leaves it', async () => {
  const place = await newPlace()
  await create(place, { OLD: '1', SAME: 's' })
  const secrets = ['OLD', 'SAME', 'NEW'].map((key) => ({ key, value: key === 'SAME' ? 's' : '2' }))
  const body = { environments: [place.dev], secrets }
  expect(await expectRefused(place, ['POST', place.secret, body], 409)).toBe('These already exist: OLD, SAME.')
  expect(await expectRefused(place, ['POST', place.secret, { ...body, mode: 'create' }], 409)).toContain('OLD')
  const statuses = async (mode: string, more = {}) => {
    const answer = await send<WriteResults>('POST', place.secret, { body: { ...body, mode, ...more } })
    return [answer.status, ...answer.body.results.map(({ status, version }) => `${status} ${version}`)]
  }
  const before = await stateOf(place)
  expect(await statuses('upsert', { dryRun: true })).toEqual([200, 'updated 2', 'unchanged 1', 'created 1'])
  expect(await statuses('skip', { dryRun: true })).toEqual([200, 'skipped 1', 'skipped 1', 'created 1'])
  expect(await stateOf(place)).toBe(before)
  expect(await statuses('upsert')).toEqual([201, 'updated 2', 'unchanged 1', 'created 1'])
  expect(await valuesIn(place, place.dev)).toEqual({ OLD: '2', SAME: 's', NEW: '2' })
  expect(await statuses('skip')).toEqual([201, 'skipped 2', 'skipped 1', 'skipped 1'])
  expect(await versionsOf(place, 'SAME')).toHaveLength(1)
})

test('an upsert with an equal value still writes the note, type and data type that it brings', async () => {
  const place = await newPlace()
  await create(place, { A: '1' })
  const secrets = [{ key: 'A', value: '1', note: 'new', type: 'build', dataType: 'number' }]
  const answer = await send('POST', place.secret, { body: { environments: [place.dev], secrets, mode: 'upsert' } })
  expect(answer.status).toBe(201)
  expect(await read(place, 'A')).toMatchObject({
    note: 'new',
    type: 'build',
    dataType: 'number',
    values: [{ version: 1 }],
  })
})

test('a new note for equal values in several environments is one entry in the audit trail for each secret', async () => {
  const place = await newPlace()
  const environments = [place.dev, place.staging, place.production]
  await create(place, { A: '1', B: '2' }, environments)
  const secrets = ['A', 'B'].map((key, index) => ({ key, value: `${index + 1}`, note: 'new' }))
  const answer = await send('POST', place.secret, { body: { environments, secrets, mode: 'upsert' } })
  expect(answer.status, answer.text).toBe(201)
  const audit = `/v1/workspace/main/audit?limit=200&action=UPDATE&project=${place.slug}`
  const entries = (await send<AuditEntry[]>('GET', audit)).body.map(({ entity }) => entity.name)
  expect(entries.sort()).toEqual(['A', 'B'])
  for (const key of ['A', 'B']) expect((await read(place, key)).note).toBe('new')
})

test('a value that exists in one of several environments refuses all of them', async () => {
  const place = await newPlace()
  await create(place, { A: '1' }, [place.production])
  const secrets = [
    { key: 'NEW', value: '' },
    { key: 'A', value: '2' },
  ]
  const body = { environments: [place.dev, place.staging, place.production], secrets }
  expect(await expectRefused(place, ['POST', place.secret, body], 409)).toBe('These already exist: A.')
})

const wrongs: [what: string, body: Record<string, unknown>, status: number, message: RegExp][] = [
  [
    'a key given twice',
    {
      secrets: [
        { key: 'A', value: '1' },
        { key: 'A', value: '2' },
      ],
    },
    400,
    /more than once: A\./,
  ],
  ['an empty name', { secrets: [{ key: '', value: '' }] }, 400, /^secrets\.0\.key: /],
  ['a name of 256', { secrets: [{ key: 'k'.repeat(256), value: '' }] }, 400, /key: /],
  ['a name with a dot', { secrets: [{ key: 'a.b', value: '' }] }, 400, /key: /],
  ['a name with an umlaut', { secrets: [{ key: 'ä', value: '' }] }, 400, /key: /],
  ['a name with a line feed at its end', { secrets: [{ key: 'A\n', value: '' }] }, 400, /key: /],
  ['a name like an id', { secrets: [{ key: '0190A1dc-b912-73cb-9386-016275561f1a', value: '' }] }, 400, /^key: .*id/],
  ['a name like the zero id', { secrets: [{ key: '00000000-0000-0000-0000-000000000000', value: '' }] }, 400, /^key: /],
  ['64 KiB and a byte', { secrets: [{ key: 'BIG', value: 'x'.repeat(65_537) }] }, 400, /value: /],
  ['64 KiB and a byte in few characters', { secrets: [{ key: 'BIG', value: `x${'😀'.repeat(16_384)}` }] }, 400, /BIG/],
  ['the display mask', { secrets: [{ key: 'MASK', value: '*********' }] }, 400, /MASK/],
  ['a value that is no text', { secrets: [{ key: 'A', value: null }] }, 400, /value: /],
  ['no value', { secrets: [{ key: 'A' }] }, 400, /value: is required/],
  ['no secrets', { secrets: [] }, 400, /^secrets: /],
  ['no environments', { environments: [] }, 400, /^environments: /],
  ['an unknown field', { extra: 1 }, 400, /extra/],
  ['an unknown mode', { mode: 'merge' }, 400, /^mode: /],
  ['an unknown environment', { environments: ['development', 'nowhere'] }, 404, /^Not found\.$/],
]
test('what is wrong in a creation refuses all of it', async () => {
  const place = await newPlace()
  for (const [what, part, status, message] of wrongs) {
    const good = { environments: [place.dev], secrets: [{ key: 'GOOD', value: '1' }] }
    const body: Record<string, unknown> = { ...good, ...part }
    if (Array.isArray(part.secrets) && part.secrets.length > 0) body.secrets = [...part.secrets, ...good.secrets]
    expect(await expectRefused(place, ['POST', place.secret, body], status), what).toMatch(message)
  }
  const lone = `{"environments":["${place.dev}"],"secrets":[{"key":"A","value":"\\ud800"}]}`
  expect(await expectRefused(place, ['POST', place.secret, lone], 400)).toContain('surrogate')
})

test('names of 1 and of 255 characters and every allowed character are kept, apart by case', async () => {
  const place = await newPlace()
  const names = ['-', '_', '0', 'k'.repeat(255), 'a', 'A', 'a-b_C-9', '0190a1dcb91273cb9386016275561f1a']
  await create(place, Object.fromEntries(names.map((name) => [name, name])))
  for (const name of names) expect((await read(place, name)).values[0]?.value).toBe(name)
})

test('every text comes back byte for byte', async () => {
  const place = await newPlace()
  const texts = {
    EMPTY: '',
    FULL: 'x'.repeat(65_536),
    FULL_EMOJI: '😀'.repeat(16_384),
    NUL: 'a\u0000b\u0000',
    LINES: '\r\n\n\r\t ',
    SEPARATORS: '\u2028\u2029\ufeff\u200d\u0085',
    JSON: '{"a":"\\u0000\\\\"}',
    COMBINING: 'e\u0301 \u00e9 ﬁ Å',
    LAST: '\u{10ffff}\uffff\u007f',
    STARS: '*******',
  }
  await create(place, texts)
  expect(await valuesIn(place, place.dev)).toEqual(texts)
})

test('a note and a message hold any text that a person may paste', async () => {
  const place = await newPlace()
  const note = 'two\nlines, "quotes" and 😀'
  const body = { environments: [place.dev], secrets: [{ key: 'A', value: '1', note }], message: note }
  expect((await send('POST', place.secret, { body })).status).toBe(201)
  expect((await read(place, 'A')).note).toBe(note)
  for (const part of [{ message: 'a\u0000b' }, { secrets: [{ key: 'B', value: '', note: 'a\u0000b' }] }]) {
    const { status, text } = await send('POST', place.secret, { body: { ...body, mode: 'upsert', ...part } })
    expect([201, 400], text).toContain(status)
  }
})

test('1,000 and 10,000 secrets are created at once, 10,001 are refused', async () => {
  const place = await newPlace()
  const many = (count: number, prefix: string) =>
    Object.fromEntries(Array.from({ length: count }, (_, index) => [`${prefix}_${index}`, `value ${index}`]))
  expect((await create(place, many(1_000, 'FEW'))).results).toHaveLength(1_000)
  expect((await create(place, many(10_000, 'MANY'))).results).toHaveLength(10_000)
  expect(Object.keys(await valuesIn(place, place.dev))).toHaveLength(11_000)
  const secrets = Object.entries(many(10_001, 'OVER')).map(([key, value]) => ({ key, value }))
  const over = await send('POST', place.secret, { body: { environments: [place.dev], secrets } })
  expect(over).toMatchObject({ status: 400, body: { message: expect.stringMatching(/^secrets: .*10000/) } })
})

test('creations of overlapping names at the same moment are each done wholly or not at all', async () => {
  const place = await newPlace()
  const attempts = Array.from({ length: 24 }, (_, writer) => {
    const keys = Array.from({ length: 10 }, (_, index) => `K_${(writer * 5 + index) % 60}`)
    const secrets = [...keys, `ONLY_${writer}`].map((key) => ({ key, value: `by ${writer}` }))
    return send<WriteResults>('POST', place.secret, { body: { environments: [place.dev], secrets } })
  })
  const answers = await Promise.all(attempts)
  const values = await valuesIn(place, place.dev)
  const counts = Map.groupBy(Object.values(values), (value) => value)
  expect(answers.some(({ status }) => status === 201)).toBe(true)
  expect(answers.some(({ status }) => status === 409)).toBe(true)
  answers.forEach(({ status }, writer) => {
    expect([201, 409]).toContain(status)
    expect(counts.get(`by ${writer}`)?.length ?? 0).toBe(status === 201 ? 11 : 0)
  })
  expect((await revisionsOf(place)).length).toBe(answers.filter(({ status }) => status === 201).length)
})

test('a whole secret sent back as it was read is accepted and makes no version', async () => {
  const place = await newPlace()
  await create(place, { A: ref('MISSING'), B: '1' }, [place.dev, place.staging])
  const reminder = { environmentId: place.dev, type: 'one_time', nextReminderDate: '2030-01-01T00:00:00Z' }
  expect((await send('PUT', `${place.secret}/A/reminder`, { body: reminder })).status).toBe(200)
  const { body: secret } = await send<Secret>('GET', `${place.secret}/A?resolve=true`)
  expect(secret.values[0]).toMatchObject({ unresolved: ['MISSING'], reminder: { type: 'one_time' } })
  const before = await stateOf(place)
  const { name, type, dataType, note, values } = secret
  const answer = await send('PUT', `${place.secret}/${secret.id}`, { body: { name, type, dataType, note, values } })
  expect(answer).toMatchObject({ status: 200, body: { success: true } })
  expect(await stateOf(place)).toBe(before)
})

test('an update writes only the rows that it lists', async () => {
  const place = await newPlace()
  await create(place, { A: '1', B: '1' }, [place.dev, place.staging, place.production])
  const values = [
    { environmentId: place.staging, value: '2', isPersonal: false },
    { environmentId: 'development', value: '1' },
  ]
  expect((await send('PUT', `${place.secret}/A`, { body: { name: 'A', values } })).status).toBe(200)
  const { values: rows } = await read(place, 'A')
  expect(rows.map(({ value, version }) => `${value} ${version}`)).toEqual(['1 1', '2 2', '1 1'])
  expect((await read(place, 'B')).values.map(({ version }) => version)).toEqual([1, 1, 1])
  expect((await send('PUT', `${place.secret}/A`, { body: { name: 'A', values: [] } })).status).toBe(200)
  expect((await read(place, 'A')).values).toEqual(rows)
})

test('an update renames, and changes type, data type and note', async () => {
  const place = await newPlace()
  await create(place, { A: '1' }, [place.dev, place.staging])
  const { id } = await read(place, 'A')
  const body = {
    name: 'Z',
    type: 'build',
    dataType: 'url',
    note: 'n',
    values: [{ environmentId: place.dev, value: '2' }],
  }
  expect((await send('PUT', `${place.secret}/A`, { body })).status).toBe(200)
  expect(await read(place, 'Z')).toMatchObject({ id, name: 'Z', type: 'build', dataType: 'url', note: 'n' })
  expect((await read(place, 'Z')).values.map(({ value }) => value)).toEqual(['2', '1'])
  expect((await send('GET', `${place.secret}/A`)).status).toBe(404)
  expect(await revisionsOf(place)).toMatchObject([{ revision: 2 }, { revision: 1 }])
  expect(await revisionsOf(place, place.staging)).toMatchObject([
    { revision: 2, changes: [{ key: 'Z', action: 'renamed', from: 'A' }] },
    { revision: 1 },
  ])
})

test('an update that is refused changes nothing', async () => {
  const place = await newPlace()
  await create(place, { A: '1', TAKEN: '1' })
  const row = { environmentId: place.dev, value: '2' }
  const put = (body: unknown, status: number, key = 'A') =>
    expectRefused(place, ['PUT', `${place.secret}/${key}`, body], status)
  expect(await put({ name: 'TAKEN', values: [row] }, 409)).toContain('TAKEN')
  await put({ name: 'A', values: [row, { environmentId: 'nowhere', value: '' }] }, 404)
  await put({ name: 'NONE', values: [row] }, 404, 'NONE')
  expect(await put({ name: 'A', values: [row, row] }, 400)).toMatch(/^values: .*development/)
  expect(await put({ name: '0190a1dc-b912-73cb-9386-016275561f1a', values: [row] }, 400)).toMatch(/^name: /)
  expect(await put({ name: 'B', note: 'n', values: [{ ...row, value: '•••••' }] }, 400)).toMatch(/mask/)
  await put({ name: 'A', values: [{ ...row, surprise: true }] }, 400)
  await put({ values: [row] }, 400)
  await put({ name: 'A', dataType: 'binary', values: [] }, 400)
})

test('a listed environment outside the scope refuses the whole update', async () => {
  const place = await newPlace()
  await create(place, { A: '1' }, [place.dev, place.production])
  const { token } = await createToken(service, owner.session, { scope: { environments: [place.dev] } })
  const before = await stateOf(place)
  const rows = [place.dev, place.production].map((environmentId) => ({ environmentId, value: '2' }))
  expect((await send('PUT', `${place.secret}/A`, { token, body: { name: 'A', values: rows } })).status).toBe(404)
  const body = { environments: [place.dev, place.production], secrets: [{ key: 'B', value: '' }] }
  expect((await send('POST', place.secret, { token, body })).status).toBe(404)
  expect((await send('PUT', `${place.secret}/A`, { token, body: { name: 'B', values: [] } })).status).toBe(403)
  expect((await send('DELETE', `${place.secret}/A`, { token })).status).toBe(403)
  expect((await send('DELETE', `${place.secret}/A?environmentId=${place.production}`, { token })).status).toBe(404)
  expect(await stateOf(place)).toBe(before)
})

test('a value is written only at the version that was read', async () => {
  const place = await newPlace()
  await create(place, { A: '1' })
  const path = `${place.secret}/A/value`
  const put = (value: string, ifVersion?: number, environmentId = place.dev) =>
    send<{ version: number; message: string }>('PUT', path, { body: { environmentId, value, ifVersion } })
  expect((await put('2', 1)).body).toEqual({ success: true, version: 2 })
  expect(await put('3', 1)).toMatchObject({ status: 412, body: { message: expect.stringContaining('version 2') } })
  expect((await put('2', 2)).body.version).toBe(2)
  expect((await put('3')).body.version).toBe(3)
  expect((await put('new', 1, place.staging)).status).toBe(412)
  expect((await put('new', 0, place.staging)).body.version).toBe(1)
  expect((await put('new', 0, place.staging)).status).toBe(412)
  expect(
    (await send('PUT', `${place.secret}/NONE/value`, { body: { environmentId: place.dev, value: '' } })).status,
  ).toBe(404)
})

test('the value of one environment is removed, and its versions go on when it returns', async () => {
  const place = await newPlace()
  await create(place, { A: '1' }, [place.dev, place.staging])
  expect((await send('DELETE', `${place.secret}/A?environmentId=development`)).body).toEqual({ success: true })
  expect((await read(place, 'A')).values).toMatchObject([{ environmentId: place.staging }])
  expect((await send('GET', `${place.secret}/A?environmentId=${place.dev}`)).status).toBe(404)
  expect((await send('DELETE', `${place.secret}/A?environmentId=${place.dev}`)).status).toBe(404)
  expect((await create(place, { A: '2' })).results).toMatchObject([{ status: 'created', version: 3 }])
  expect((await versionsOf(place, 'A')).map(({ deleted }) => deleted)).toEqual([false, true, false])
})

test('a deleted secret waits in the trash for 30 days and comes back with its values', async () => {
  const place = await newPlace()
  await create(place, { A: 'dev', KEPT: '1' })
  await send('POST', place.secret, { body: { environments: ['staging'], secrets: [{ key: 'A', value: 'st' }] } })
  await create(place, { A: 'gone before' }, [place.production])
  await send('DELETE', `${place.secret}/A?environmentId=production`)
  const { id } = await read(place, 'A')
  expect((await send('DELETE', `${place.secret}/A`)).body).toEqual({ success: true })
  expect((await send('GET', `${place.secret}/A`)).status).toBe(404)
  expect((await send('GET', `${place.secret}/${id}`)).status).toBe(404)
  expect((await send('DELETE', `${place.secret}/A`)).status).toBe(404)
  expect(await valuesIn(place, place.dev)).toEqual({ KEPT: '1' })
  const { body: trash } = await send<TrashedSecret[]>('GET', `${place.secret}/trash`)
  expect(trash).toMatchObject([{ id, name: 'A' }])
  const [trashed] = trash
  expect(Date.parse(trashed?.purgeAt ?? '') - Date.parse(trashed?.deletedAt ?? '')).toBe(30 * 86_400_000)
  expect((await send('POST', `${place.secret}/${id}/restore`)).body).toEqual({ success: true })
  const restored = await read(place, 'A')
  expect(restored.id).toBe(id)
  expect(restored.values.map(({ value, version }) => `${value} ${version}`)).toEqual(['dev 3', 'st 3'])
  expect((await send('GET', `${place.secret}/trash`)).body).toEqual([])
  expect((await send('POST', `${place.secret}/${id}/restore`)).status).toBe(404)
})

test('a secret whose name was taken meanwhile stays in the trash', async () => {
  const place = await newPlace()
  await create(place, { A: '1' })
  const { id } = await read(place, 'A')
  await send('DELETE', `${place.secret}/A`)
  await create(place, { A: 'other' })
  expect(await expectRefused(place, ['POST', `${place.secret}/${id}/restore`], 409)).toContain('A')
  await send('PUT', `${place.secret}/A`, { body: { name: 'MOVED', values: [] } })
  expect((await send('POST', `${place.secret}/A/restore`)).status).toBe(200)
  expect(await valuesIn(place, place.dev)).toEqual({ A: '1', MOVED: 'other' })
})

test('a purge destroys every version, in the trash or not, and is for admins', async () => {
  const place = await newPlace()
  await create(place, { LIVE: '1', TRASHED: '1' }, [place.dev, place.staging])
  await send('PUT', `${place.secret}/LIVE/value`, { body: { environmentId: place.dev, value: '2' } })
  await send('DELETE', `${place.secret}/TRASHED`)
  const ids = [(await read(place, 'LIVE')).id]
  const { body: trash } = await send<TrashedSecret[]>('GET', `${place.secret}/trash`)
  ids.push(trash[0]?.id ?? '')
  for (const id of ids) {
    const path = `${place.secret}/${id}?purge=true`
    expect((await send('DELETE', path, { token: developer.session })).status).toBe(403)
    expect((await send('DELETE', path)).body).toEqual({ success: true })
    expect((await send('DELETE', path)).status).toBe(404)
    expect((await send('GET', `${place.secret}/${id}/version?environmentId=${place.dev}`)).status).toBe(404)
    expect((await send('POST', `${place.secret}/${id}/restore`)).status).toBe(404)
  }
  const raw = await openRaw(service)
  for (const table of ['secret_value', 'secret_version']) {
    expect(await raw.query(`select secret_id from ${table} where secret_id in (?, ?)`, ids), table).toEqual([])
  }
  await raw.close()
})

test.each(['environmentId=development', 'environment_id=development', 'personal=true'])(
  'a purge with %s destroys nothing',
  async (more) => {
    const place = await newPlace()
    await create(place, { A: '1' }, [place.dev, place.staging])
    for (const query of [`purge=true&${more}`, `${more}&purge=true`]) {
      expect(await expectRefused(place, ['DELETE', `${place.secret}/A?${query}`], 400)).toBe(
        'purge: destroys the whole secret; send it without environmentId and personal.',
      )
    }
  },
)

test('environment_id means environmentId in every query that takes one', async () => {
  const place = await newPlace()
  await create(place, { A: '1' }, [place.dev, place.staging])
  const of = (path: string, environment = place.dev) => `${place.secret}/A${path}?environment_id=${environment}`
  expect((await send<SecretVersion[]>('GET', of('/version'))).body).toMatchObject([{ version: 1 }])
  expect((await send('GET', of('/version/1', 'Development'))).body).toMatchObject({ value: '1' })
  const reminder = { environmentId: place.dev, type: 'one_time', nextReminderDate: '2030-01-01T00:00:00Z' }
  await send('PUT', `${place.secret}/A/reminder`, { body: reminder })
  expect((await send('DELETE', of('/reminder'))).body).toEqual({ success: true })
  const both = `environmentId=${place.dev}&environment_id=${place.staging}`
  expect(await expectRefused(place, ['DELETE', `${place.secret}/A?${both}`], 400)).toMatch(/^environmentId: /)
  expect(await expectRefused(place, ['DELETE', of('', 'nowhere')], 404)).toBe('Not found.')
  expect((await send('DELETE', of(''))).body).toEqual({ success: true })
  expect(await valuesIn(place, place.dev)).toEqual({})
  expect(await valuesIn(place, place.staging)).toEqual({ A: '1' })
})

test('counts follow every write, deletion, restoration and purge', async () => {
  const place = await newPlace()
  const counts = async () => {
    const { body } = await send<Environment[]>('GET', `${place.path}/environment`)
    const { body: groups } = await send<TeamGroup[]>('GET', '/v1/workspace/main/project')
    const project = groups.flatMap(({ projects }) => projects).find(({ slug }) => slug === place.slug)
    return [project?.secrets, ...body.map(({ totalSecrets }) => totalSecrets)]
  }
  expect(await counts()).toEqual([0, 0, 0, 0])
  await create(place, { A: '1', B: '1' }, [place.dev, place.staging])
  await create(place, { C: '1' }, [place.production])
  expect(await counts()).toEqual([3, 2, 2, 1])
  await send('DELETE', `${place.secret}/A?environmentId=${place.dev}`)
  expect(await counts()).toEqual([3, 1, 2, 1])
  await send('DELETE', `${place.secret}/B`)
  expect(await counts()).toEqual([2, 0, 1, 1])
  await send('POST', `${place.secret}/B/restore`)
  expect(await counts()).toEqual([3, 1, 2, 1])
  const operations = [
    { op: 'delete', key: 'B' },
    { op: 'set', key: 'D', value: '' },
    { op: 'set', key: 'A', value: '' },
  ]
  await send('POST', `${place.secret}/batch`, { body: { environmentId: place.dev, operations } })
  expect(await counts()).toEqual([4, 2, 2, 1])
  await send('DELETE', `${place.secret}/C?purge=true`)
  await send('DELETE', `${place.secret}/B`)
  await send('DELETE', `${place.secret}/B?purge=true`)
  expect(await counts()).toEqual([2, 2, 1, 0])
})

test('a batch sets, renames and deletes as one revision', async () => {
  const place = await newPlace()
  await create(place, { OLD: '1', GONE: '1', SAME: '1', CHANGED: '1' })
  const operations = [
    { op: 'set', key: 'NEW', value: 'n', note: 'of the batch' },
    { op: 'set', key: 'CHANGED', value: '2', ifVersion: 1 },
    { op: 'set', key: 'SAME', value: '1' },
    { op: 'rename', key: 'OLD', to: 'RENAMED' },
    { op: 'delete', key: 'GONE', ifVersion: 1 },
  ]
  const body = { environmentId: 'development', message: 'all at once', operations }
  const before = await stateOf(place)
  const tried = await send<RevisionResults>('POST', `${place.secret}/batch`, { body: { ...body, dryRun: true } })
  expect(tried.status).toBe(200)
  expect(await stateOf(place)).toBe(before)
  const done = await send<RevisionResults>('POST', `${place.secret}/batch`, { body })
  const statusOf = (answer: RevisionResults) =>
    Object.fromEntries(answer.results.map(({ key, status, version }) => [key, `${status} ${version}`]))
  expect(statusOf(done.body)).toMatchObject({ NEW: 'created 1', CHANGED: 'updated 2', SAME: 'unchanged 1' })
  expect(statusOf(done.body)).toMatchObject({ RENAMED: expect.stringMatching(/^renamed/), GONE: 'deleted 2' })
  expect(statusOf(tried.body)).toEqual(statusOf(done.body))
  expect(done.body.revision).toBe(2)
  expect(await valuesIn(place, place.dev)).toEqual({ NEW: 'n', CHANGED: '2', SAME: '1', RENAMED: '1' })
  expect((await read(place, 'NEW')).note).toBe('of the batch')
  const [newest, ...older] = await revisionsOf(place)
  expect(older).toHaveLength(1)
  expect(newest).toMatchObject({ revision: 2, message: 'all at once' })
  expect(newest?.changes.map(({ key, action }) => `${key} ${action}`).sort()).toEqual([
    'CHANGED updated',
    'GONE deleted',
    'NEW created',
    'RENAMED renamed',
  ])
})

test('a batch of renames alone, and one that changes nothing, are both fine', async () => {
  const place = await newPlace()
  await create(place, { A: '1' })
  const batch = (operations: unknown[]) =>
    send<RevisionResults>('POST', `${place.secret}/batch`, { body: { environmentId: place.dev, operations } })
  expect(await batch([{ op: 'rename', key: 'A', to: 'B' }])).toMatchObject({ status: 200, body: { revision: 2 } })
  expect(await batch([{ op: 'set', key: 'B', value: '1' }])).toMatchObject({ status: 200, body: { revision: 2 } })
})

test('a batch that fails in one operation does none of them', async () => {
  const place = await newPlace()
  await create(place, { A: '1', B: '1' })
  const good = { op: 'set', key: 'GOOD', value: '1' }
  const bad: [operation: unknown, status: number, message: string][] = [
    [{ op: 'set', key: 'A', value: '2', ifVersion: 7 }, 412, 'A is at version 1'],
    [{ op: 'set', key: 'NEW', value: '2', ifVersion: 1 }, 412, 'NEW'],
    [{ op: 'delete', key: 'A', ifVersion: 2 }, 412, 'A'],
    [{ op: 'delete', key: 'NONE' }, 404, 'NONE has no value in development.'],
    [{ op: 'rename', key: 'NONE', to: 'C' }, 404, 'There is no secret NONE to rename.'],
    [{ op: 'rename', key: 'A', to: 'B' }, 409, 'B'],
    [{ op: 'set', key: 'GOOD', value: '2' }, 400, 'GOOD'],
    [{ op: 'set', key: 'A', value: ref('A') }, 409, 'A'],
    [{ op: 'put', key: 'A', value: '' }, 400, 'operations.1.op: must be one of: set, rename, delete.'],
    [{ key: 'A', value: '' }, 400, 'operations.1.op: is required.'],
    [{ op: 1, key: 'A', value: '' }, 400, 'operations.1.op: '],
    [{ op: 'delete', key: 'A', extra: 1 }, 400, 'operations.1.extra: is not a known field.'],
    [{ op: 'delete', key: 'A', value: '' }, 400, 'operations.1.value: is not a known field.'],
    [{ op: 'rename', key: 'A', too: 'C' }, 400, 'operations.1.to: is required.'],
    [{ op: 'rename', key: 'A', to: '0190a1dc-b912-73cb-9386-016275561f1a' }, 400, 'to: must not look like an id.'],
    [{ op: 'rename', key: 'A', to: 'C', value: '' }, 400, 'operations.1.value: is not a known field.'],
    [{ op: 'set', key: 'A' }, 400, 'operations.1.value: is required.'],
    [{ op: 'set', key: 'a.b', value: '' }, 400, 'operations.1.key: '],
    [{ op: 'rename', key: 'A', to: 'GOOD' }, 400, 'operations: GOOD is written before A is renamed to it'],
    ['set', 400, 'operations.1: must be an object.'],
  ]
  for (const [operation, status, message] of bad) {
    const body = { environmentId: place.dev, operations: [good, operation] }
    expect(await expectRefused(place, ['POST', `${place.secret}/batch`, body], status)).toContain(message)
  }
})

test('a batch may write under a new name once the rename to it has come, and not before', async () => {
  const place = await newPlace()
  await create(place, { A: '1', B: '1' })
  const rename = { op: 'rename', key: 'A', to: 'C' }
  const batch = (operations: unknown[]) => ({ environmentId: place.dev, operations })
  for (const early of [
    { op: 'set', key: 'C', value: '2' },
    { op: 'delete', key: 'C' },
  ]) {
    const message = await expectRefused(place, ['POST', `${place.secret}/batch`, batch([early, rename])], 400)
    expect(message).toMatch(/^operations: C /)
  }
  const set = { op: 'set', key: 'C', value: '2' }
  expect((await send('POST', `${place.secret}/batch`, { body: batch([rename, set]) })).status).toBe(200)
  expect(await valuesIn(place, place.dev)).toEqual({ B: '1', C: '2' })
})

test('a version that is stale is refused with what is there now; of a removed value 0 and its removal are not', async () => {
  const place = await newPlace()
  await create(place, { A: '1' })
  const put = (ifVersion: number) =>
    send('PUT', `${place.secret}/A/value`, { body: { environmentId: place.dev, value: 'again', ifVersion } })
  const remove = () => send('DELETE', `${place.secret}/A?environmentId=${place.dev}`)
  expect(await put(0)).toMatchObject({ status: 412, body: { message: 'A is at version 1 now: read it again.' } })
  await remove()
  for (const stale of [1, 3, 99]) {
    const absent = { message: 'A has no value in development now: read it again.' }
    expect(await put(stale)).toMatchObject({ status: 412, body: absent })
  }
  expect(await put(2)).toMatchObject({ status: 200, body: { version: 3 } })
  await remove()
  expect(await put(0)).toMatchObject({ status: 200, body: { version: 5 } })
})

test('a batch writes the note of a secret whose value stays as it is', async () => {
  const place = await newPlace()
  await create(place, { A: '1' })
  const operations = [{ op: 'set', key: 'A', value: '1', note: 'told' }]
  await send('POST', `${place.secret}/batch`, { body: { environmentId: place.dev, operations } })
  expect((await read(place, 'A')).note).toBe('told')
})

test('a reminder is put, replaced, returned with its row alone, and ended', async () => {
  const place = await newPlace()
  await create(place, { A: '1' }, [place.dev, place.staging])
  const path = `${place.secret}/A/reminder`
  const once = { environmentId: 'development', type: 'one_time', nextReminderDate: '2030-01-01T02:00:00+02:00' }
  const first = await send<Reminder>('PUT', path, { body: once })
  expect(first.body).toMatchObject({ success: true, type: 'one_time', nextReminderDate: '2030-01-01T00:00:00.000Z' })
  const again = { ...once, type: 'recurring', everyDays: 90 }
  const second = await send<Reminder>('PUT', path, { body: again })
  expect(second.body).toMatchObject({ id: first.body.id, type: 'recurring' })
  const { values } = await read(place, 'A')
  const { id, type, nextReminderDate } = second.body
  expect(values.map(({ reminder }) => reminder)).toEqual([{ id, type, nextReminderDate }, undefined])
  const listed = await send<Secret[]>('GET', place.secret)
  expect(listed.body[0]?.values[0]?.reminder).toEqual({ id, type, nextReminderDate })
  expect((await send('DELETE', `${path}?environmentId=${place.dev}`)).body).toEqual({ success: true })
  expect((await send('DELETE', `${path}?environmentId=${place.dev}`)).status).toBe(404)
  expect((await read(place, 'A')).values[0]).not.toHaveProperty('reminder')
})

test.each([
  ['its environment', { environmentId: 'development' }, ''],
  [
    'what it was put with',
    { environmentId: 'development', type: 'recurring', nextReminderDate: '2030-01-01T00:00:00Z', everyDays: 7 },
    '',
  ],
  ['its environment, as in the query', { environmentId: 'development' }, '?environmentId=development'],
])('a reminder is ended by a body with %s', async (_what, body, query) => {
  const place = await newPlace()
  await create(place, { A: '1' })
  const path = `${place.secret}/A/reminder`
  const reminder = { environmentId: 'development', type: 'one_time', nextReminderDate: '2030-01-01T00:00:00Z' }
  await send('PUT', path, { body: reminder })
  expect(await expectRefused(place, ['DELETE', path, {}], 400)).toBe('environmentId: is required.')
  expect(await expectRefused(place, ['DELETE', path, { ...body, more: 1 }], 400)).toBe('more: is not a known field.')
  const elsewhere = `${path}?environmentId=staging`
  expect(await expectRefused(place, ['DELETE', elsewhere, body], 400)).toMatch(/^environmentId: /)
  expect((await send('DELETE', path + query, { body })).body).toEqual({ success: true })
  expect((await read(place, 'A')).values[0]).not.toHaveProperty('reminder')
})

test.each([
  ['a recurring one without its days', { type: 'recurring' }, 400, /^everyDays: /],
  ['a date that is none', { nextReminderDate: 'tomorrow' }, 400, /^nextReminderDate: /],
  [
    'a leap second, which no clock here can hold',
    { nextReminderDate: '2026-12-31T23:59:60Z' },
    400,
    /^nextReminderDate: /,
  ],
  ['a year after 9999 in UTC', { nextReminderDate: '9999-12-31T23:59:59-01:00' }, 400, /^nextReminderDate: /],
  ['a year before 0 in UTC', { nextReminderDate: '0000-01-01T00:00:00+01:00' }, 400, /^nextReminderDate: /],
  ['an unknown environment', { environmentId: 'nowhere' }, 404, /^Not found/],
])('a reminder refuses %s', async (_what, part, status, message) => {
  const place = await newPlace()
  await create(place, { A: '1' })
  const body = { environmentId: place.dev, type: 'one_time', nextReminderDate: '2030-01-01T00:00:00Z', ...part }
  expect(await expectRefused(place, ['PUT', `${place.secret}/A/reminder`, body], status)).toMatch(message)
})
