import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { anyCharacter } from '../../../../test/any-character.ts'
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
      'a collision of two keys',
      { stripPrefix: 'APP_', include: 'APP_URL, URL' },
      heroku,
      'URL',
      /becomes URL at the target, as APP_URL does/,
    ],
    [
      'a name that the target does not allow',
      { include: 'DB_URL', transform: 'lower-kebab' },
      heroku,
      'DB_URL',
      /"db-url", which the target does not allow: it takes letters/,
    ],
    ['a reserved name', { include: 'DB_URL', prefix: 'HEROKU_' }, heroku, 'DB_URL', /does not allow/],
    ['an empty value', { include: 'EMPTY', onEmpty: 'error' }, heroku, 'EMPTY', /is empty/],
    [
      'an empty value that the target does not allow',
      { include: 'EMPTY' },
      limited({ allowsEmpty: false }),
      'EMPTY',
      /does not allow/,
    ],
    [
      'a value that is too large',
      { include: 'DB_URL' },
      limited({ valueMaxBytes: 0 }),
      'DB_URL',
      /has 1 bytes; the target takes 0/,
    ],
    [
      'a collision of names that differ in case',
      { include: 'APP_URL, app_url' },
      limited({ foldsCase: true }),
      'app_url',
      /as APP_URL does/,
    ],
    ['too many entries', {}, limited({ maxItems: 2 }), '*', /are 4 entries/],
    ['too many bytes in total', {}, limited({ totalMaxBytes: 3 }), '*', /bytes in all/],
    [
      'a value that the target would misread',
      { include: 'DB_URL' },
      limited({ refuseValue: () => 'holds what is a reference there.' }),
      'DB_URL',
      /reference/,
    ],
  ])('%s is reported by name', (_title, mapping, provider, name, problem) => {
    const more = new Map([...secrets, ['URL', 'v'], ['app_url', 'w']])
    const from = _title === 'too many entries' || _title === 'too many bytes in total' ? secrets : more
    const { problems } = map(mapping, provider, from)
    expect(problems.map((found) => found.name)).toContain(name)
    expect(problems.find((found) => found.name === name)?.problem).toMatch(problem)
  })

  test('a name that the target does not allow is skipped if configured', () => {
    const { desired, problems } = map({ include: 'DB_URL', transform: 'lower-kebab', onInvalidName: 'skip' })
    expect([desired.size, problems]).toEqual([0, []])
  })
})

describe('all in one entry', () => {
  test('as JSON: the order of the secrets does not change the text', () => {
    const text = map({ mode: 'json', objectName: 'ALL' }).desired.get('ALL')
    expect(text).toBe('{"APP_KEY":"k","APP_URL":"u","DB_URL":"d","EMPTY":""}')
    const reversed = new Map([...secrets].reverse())
    expect(map({ mode: 'json', objectName: 'ALL' }, heroku, reversed).desired.get('ALL')).toBe(text)
  })

  test('as JSON: any keys and values are read back unchanged', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string({ minLength: 1 }), fc.string({ unit: anyCharacter })), (values) => {
        const { desired } = map({ mode: 'json', objectName: 'ALL' }, heroku, new Map(Object.entries(values)))
        expect(JSON.parse(desired.get('ALL') ?? '{}')).toEqual(values)
      }),
      { numRuns: times(200, 2_000) },
    )
  })

  test.each(['json', 'dotenv'])('without empty values as %s, if configured', (mode) => {
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
    ['a space', { rename: 'DB_URL=A B' }, '"A B"'],
    ['a line break', { prefix: 'X=1\nAPP_' }, '"X=1\\nAPP_APP_KEY"'],
    ['an equals sign', { suffix: '=1;' }, '"APP_KEY=1;"'],
    ['no characters', { include: 'APP_KEY', stripPrefix: 'APP_KEY' }, '""'],
  ])('a key with %s is reported, because a dotenv file would misread it', (_what, mapping, key) => {
    const { desired, problems } = map({ mode: 'dotenv', objectName: 'ALL', ...mapping })
    expect(desired.size).toBe(0)
    expect(problems).toEqual([{ name: 'ALL', problem: expect.stringContaining(`contains the key ${key};`) }])
  })

  test('needs a name, and is empty without secrets', () => {
    expect(map({ mode: 'json' }).problems).toEqual([{ name: 'objectName', problem: 'is required.' }])
    expect(map({ mode: 'json', objectName: 'ALL' }, heroku, new Map()).desired.size).toBe(0)
  })
})
