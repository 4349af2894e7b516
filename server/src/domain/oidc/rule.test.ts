import { describe, expect, test } from 'vitest'
import { checkRules, findClaim, isExact, isNarrowing } from './rule.ts'

describe('a claim is found', () => {
  const claims = {
    ref: 'main',
    'a.b': 'literal',
    a: { b: 'nested', c: { d: 'deep' } },
    'kubernetes.io': { namespace: 'payments', pod: { name: 'api' }, 'x.y': { z: 1 } },
    'https://example.com/x': ['one'],
    list: [{ b: 'in a list' }],
    nothing: null,
    '': 'empty',
  }
  test.each([
    ['ref', 'main'],
    ['a.b', 'literal'],
    ['a.c.d', 'deep'],
    ['a.c', { d: 'deep' }],
    ['kubernetes.io.namespace', 'payments'],
    ['kubernetes.io.pod.name', 'api'],
    ['kubernetes.io.x.y.z', 1],
    ['https://example.com/x', ['one']],
    ['nothing', null],
    ['absent', undefined],
    ['a.absent', undefined],
    ['list.b', undefined],
    ['list.0', undefined],
    ['ref.length', undefined],
    ['a.constructor.name', undefined],
    ['__proto__.toString', undefined],
    ['constructor', undefined],
    ['.', undefined],
    ['..', undefined],
  ])('%s', (name, expected) => {
    expect(findClaim(claims, name)).toEqual(expected)
  })
})

const fits = (rules: Record<string, string | string[]>, claims: Record<string, unknown>) =>
  checkRules({ subject: null, claims: rules }, claims).every(({ ok }) => ok)

describe('rules', () => {
  test.each([
    ['that string', 'x', true],
    ['a list with that string', ['y', 'x'], true],
    ['a list without that string', ['y'], false],
    ['a list within a list', [['x']], false],
    ['an empty list', [], false],
    ['an object', { x: 'x' }, false],
    ['null', null, false],
    ['no claim', undefined, false],
  ])('that require x are checked against %s', (_what, value, expected) => {
    expect(fits({ claim: 'x' }, { claim: value })).toBe(expected)
  })

  test.each([
    ['true', true, true],
    ['true', 'true', true],
    ['false', true, false],
    ['20', 20, true],
    ['20', 20.5, false],
    ['9007199254740992', 2 ** 53, false],
    ['null', null, false],
    ['*', null, false],
  ])('that require %s are checked against the JSON value %s', (pattern, value, expected) => {
    expect(fits({ claim: pattern }, { claim: value })).toBe(expected)
  })

  test('must all match; one value of a list is enough', () => {
    expect(fits({ a: ['1', '2'], b: 'x*' }, { a: '2', b: 'xy' })).toBe(true)
    expect(fits({ a: ['1', '2'], b: 'x*' }, { a: '2', b: 'y' })).toBe(false)
  })

  test('a subject must be a string', () => {
    const check = (sub: unknown) => checkRules({ subject: 's*', claims: {} }, { sub })[0]?.ok
    expect([check('so'), check(['so']), check(undefined), check({ so: 1 })]).toEqual([true, false, false, false])
  })

  test.each([
    [{ subject: 'a', claims: { b: 'c' } }, true, true],
    [{ subject: 'a', claims: { b: ['c', 'd*'] } }, false, true],
    [{ subject: 'a*', claims: {} }, false, true],
    [{ subject: '*', claims: {} }, false, false],
    [{ subject: '*', claims: { b: 'c' } }, false, true],
    [{ subject: null, claims: { b: '*', c: '**' } }, false, false],
    [{ subject: null, claims: { b: ['c', '*'] } }, false, false],
  ])('of %j are exact: %s, narrowing: %s', (rules, exact, narrowing) => {
    expect([isExact(rules), isNarrowing(rules)]).toEqual([exact, narrowing])
  })

  test('the claim value shown by a check is truncated', () => {
    const [check] = checkRules({ subject: 'a', claims: {} }, { sub: 'x'.repeat(10_000) })
    expect(check?.actual).toHaveLength(301)
  })
})
