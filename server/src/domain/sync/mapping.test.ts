import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { times } from '../../../../test/tier.ts'
import { heroku } from '../../providers/heroku.ts'
import type { Provider } from '../../providers/provider.ts'
import { mapSecrets } from './mapping.ts'

const secrets = new Map([
  ['APP_URL', 'u'],
  ['APP_KEY', 'k'],
  ['DB_URL', 'd'],
  ['EMPTY', ''],
])
const map = (mapping: Record<string, string>, provider: Provider = heroku, from = secrets) =>
  mapSecrets(provider, { mode: 'per-key', ...mapping }, {}, from)
const limited = (limits: Partial<Provider['limits']>): Provider => ({
  ...heroku,
  limits: { ...heroku.limits, ...limits },
})

describe('one entry for each secret', () => {
  test.each([
    [{}, { APP_URL: 'u', APP_KEY: 'k', DB_URL: 'd', EMPTY: '' }],
    [{ include: 'APP_*' }, { APP_URL: 'u', APP_KEY: 'k' }],
    [
      { include: 'APP_*, DB_URL', exclude: '*_KEY' },
      { APP_URL: 'u', DB_URL: 'd' },
    ],
    [
      { include: 'APP_*', stripPrefix: 'APP_' },
      { URL: 'u', KEY: 'k' },
    ],
    [{ include: 'DB_URL', prefix: 'X_', suffix: '_Y' }, { X_DB_URL_Y: 'd' }],
    [{ include: 'DB_URL', transform: 'lower' }, { db_url: 'd' }],
    [{ include: 'DB_URL', transform: 'upper-camel' }, { DbUrl: 'd' }],
    [{ include: 'DB_URL', transform: 'tf-var' }, { TF_VAR_db_url: 'd' }],
    [{ include: 'DB_URL', rename: 'DB_URL=DATABASE_URL', prefix: 'X_', transform: 'lower' }, { DATABASE_URL: 'd' }],
    [{ include: 'EMPTY', onEmpty: 'skip' }, {}],
  ])('%j', (mapping, expected) => {
    const { desired, problems } = map(mapping)
    expect(Object.fromEntries(desired)).toEqual(expected)
    expect(problems).toEqual([])
  })

  test.each([
    [
      'two keys that become one name',
      { stripPrefix: 'APP_', include: 'APP_URL, URL' },
      heroku,
      'URL',
      /becomes URL at the target, as APP_URL does/,
    ],
    [
      'a name that the target cannot hold',
      { include: 'DB_URL', transform: 'lower-kebab' },
      heroku,
      'DB_URL',
      /"db-url", which the target does not allow: it takes letters/,
    ],
    ['a reserved name', { include: 'DB_URL', prefix: 'HEROKU_' }, heroku, 'DB_URL', /does not allow/],
    ['an empty value', { include: 'EMPTY', onEmpty: 'error' }, heroku, 'EMPTY', /is empty/],
    [
      'an empty value where none may be',
      { include: 'EMPTY' },
      limited({ allowsEmpty: false }),
      'EMPTY',
      /does not allow/,
    ],
    [
      'a large value',
      { include: 'DB_URL' },
      limited({ valueMaxBytes: 0 }),
      'DB_URL',
      /has 1 bytes; the target takes 0/,
    ],
    [
      'names that differ by case',
      { include: 'APP_URL, app_url' },
      limited({ foldsCase: true }),
      'app_url',
      /as APP_URL does/,
    ],
    ['too many', {}, limited({ maxItems: 2 }), '*', /are 4 entries/],
    ['too much', {}, limited({ totalMaxBytes: 3 }), '*', /bytes in all/],
    [
      'a value that would be misread',
      { include: 'DB_URL' },
      limited({ refuseValue: () => 'holds what is a reference there.' }),
      'DB_URL',
      /reference/,
    ],
  ])('%s is found by name', (_title, mapping, provider, name, problem) => {
    const more = new Map([...secrets, ['URL', 'v'], ['app_url', 'w']])
    const from = _title === 'too many' || _title === 'too much' ? secrets : more
    const { problems } = map(mapping, provider, from)
    expect(problems.map((found) => found.name)).toContain(name)
    expect(problems.find((found) => found.name === name)?.problem).toMatch(problem)
  })

  test('a name that the target cannot hold is left out where that is chosen', () => {
    const { desired, problems } = map({ include: 'DB_URL', transform: 'lower-kebab', onInvalidName: 'skip' })
    expect([desired.size, problems]).toEqual([0, []])
  })
})

describe('all in one entry', () => {
  test('as JSON: the same secrets in any order are the same text', () => {
    const text = map({ mode: 'json', objectName: 'ALL' }).desired.get('ALL')
    expect(text).toBe('{"APP_KEY":"k","APP_URL":"u","DB_URL":"d","EMPTY":""}')
    const turned = new Map([...secrets].reverse())
    expect(map({ mode: 'json', objectName: 'ALL' }, heroku, turned).desired.get('ALL')).toBe(text)
  })

  test('any keys and values come back out of it', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string({ minLength: 1 }), fc.string({ unit: 'binary' })), (values) => {
        const { desired } = map({ mode: 'json', objectName: 'ALL' }, heroku, new Map(Object.entries(values)))
        expect(JSON.parse(desired.get('ALL') ?? '{}')).toEqual(values)
      }),
      { numRuns: times(200, 2_000) },
    )
  })

  test.each(['json', 'dotenv'])('without empty values as %s, where that is chosen', (mode) => {
    const { desired, sources } = map({ mode, objectName: 'ALL', onEmpty: 'skip' })
    expect(desired.get('ALL')).not.toContain('EMPTY')
    expect(sources.get('ALL')).toEqual(['APP_KEY', 'APP_URL', 'DB_URL'])
  })

  test('as a dotenv file', () => {
    expect(map({ mode: 'dotenv', objectName: 'ALL', include: 'APP_*' }).desired.get('ALL')).toBe(
      'APP_KEY=k\nAPP_URL=u\n',
    )
  })

  test.each([
    ['a blank', { rename: 'DB_URL=A B' }, '"A B"'],
    ['a line break', { prefix: 'X=1\nAPP_' }, '"X=1\\nAPP_APP_KEY"'],
    ['an equals sign', { suffix: '=1;' }, '"APP_KEY=1;"'],
    ['nothing', { include: 'APP_KEY', stripPrefix: 'APP_KEY' }, '""'],
  ])('a key with %s in it would be misread in a dotenv file: it is a problem', (_what, mapping, key) => {
    const { desired, problems } = map({ mode: 'dotenv', objectName: 'ALL', ...mapping })
    expect(desired.size).toBe(0)
    expect(problems).toEqual([{ name: 'ALL', problem: expect.stringContaining(`contains the key ${key};`) }])
  })

  test('needs a name, and is nothing where there are no secrets', () => {
    expect(map({ mode: 'json' }).problems).toEqual([{ name: 'objectName', problem: 'is required.' }])
    expect(map({ mode: 'json', objectName: 'ALL' }, heroku, new Map()).desired.size).toBe(0)
  })
})
