/** Secrets are created, overwritten and purged as a whole: a request with one invalid part changes nothing. */
import type { AuditEntry } from '@coffer/contract/audit'
import type { Revision, SecretVersion } from '@coffer/contract/history'
import type { Secret, WriteResults } from '@coffer/contract/secret'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { TestUser } from '../../../../../test/harness.ts'
import { createSecretPlaces, type Place } from '../../../../../test/secret-place.ts'

const { start, stop, newPlace, send, create, valuesIn, stateOf, expectRefused, read } = createSecretPlaces()
let owner: TestUser

beforeAll(async () => {
  ;({ owner } = await start())
})
afterAll(stop)

const versionsOf = async (place: Place, key: string, environment = place.dev) =>
  (await send<SecretVersion[]>('GET', `${place.secret}/${key}/version?limit=200&environmentId=${environment}`)).body
const revisionsOf = async (place: Place, environment = place.dev) =>
  (await send<Revision[]>('GET', `${place.path}/environment/${environment}/revision?limit=200`)).body

test('secrets are created in several environments, by id and by name, with all given fields', async () => {
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

test('create refuses existing secrets and names them, upsert overwrites them, skip keeps them', async () => {
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

test('an upsert with an equal value still writes note, type and data type', async () => {
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

test('a new note for equal values in several environments leaves one audit entry per secret', async () => {
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

test('a creation in several environments is refused as a whole if one of them has a value', async () => {
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
  ['a name of 256 characters', { secrets: [{ key: 'k'.repeat(256), value: '' }] }, 400, /key: /],
  ['a name with a dot', { secrets: [{ key: 'a.b', value: '' }] }, 400, /key: /],
  ['a name with an umlaut', { secrets: [{ key: 'ä', value: '' }] }, 400, /key: /],
  ['a name with a line feed at its end', { secrets: [{ key: 'A\n', value: '' }] }, 400, /key: /],
  ['a name like an id', { secrets: [{ key: '0190A1dc-b912-73cb-9386-016275561f1a', value: '' }] }, 400, /^key: .*id/],
  ['a name like the zero id', { secrets: [{ key: '00000000-0000-0000-0000-000000000000', value: '' }] }, 400, /^key: /],
  ['a value of 64 KiB and a byte', { secrets: [{ key: 'BIG', value: 'x'.repeat(65_537) }] }, 400, /value: /],
  [
    'a value of 64 KiB and a byte in few characters',
    { secrets: [{ key: 'BIG', value: `x${'😀'.repeat(16_384)}` }] },
    400,
    /BIG/,
  ],
  ['the display mask', { secrets: [{ key: 'MASK', value: '*********' }] }, 400, /MASK/],
  ['a value that is not a string', { secrets: [{ key: 'A', value: null }] }, 400, /value: /],
  ['no value', { secrets: [{ key: 'A' }] }, 400, /value: is required/],
  ['no secrets', { secrets: [] }, 400, /^secrets: /],
  ['no environments', { environments: [] }, 400, /^environments: /],
  ['an unknown field', { extra: 1 }, 400, /extra/],
  ['an unknown mode', { mode: 'merge' }, 400, /^mode: /],
  ['an unknown environment', { environments: ['development', 'nowhere'] }, 404, /^Not found\.$/],
]
test('a creation with one invalid part is refused as a whole', async () => {
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

test('names of 1 and 255 characters and with every allowed character are accepted, and are case-sensitive', async () => {
  const place = await newPlace()
  const names = ['-', '_', '0', 'k'.repeat(255), 'a', 'A', 'a-b_C-9', '0190a1dcb91273cb9386016275561f1a']
  await create(place, Object.fromEntries(names.map((name) => [name, name])))
  for (const name of names) expect((await read(place, name)).values[0]?.value).toBe(name)
})

test('every value comes back byte for byte', async () => {
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

test('one request creates 1,000 or 10,000 secrets, and 10,001 are refused', async () => {
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

test('concurrent creations of overlapping names each succeed as a whole or not at all', async () => {
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

test.each(['environmentId=development', 'environment_id=development', 'personal=true'])(
  'a purge with %s is refused and destroys nothing',
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
