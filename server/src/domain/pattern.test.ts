import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { times } from '../../../test/tier.ts'
import { matchesPattern } from './pattern.ts'

describe('a pattern', () => {
  test.each([
    ['abc', 'abc', true],
    ['abc', 'ABC', false],
    ['abc', 'abcd', false],
    ['abc', '', false],
    ['*', '', true],
    ['*', 'any / thing:at\nall', true],
    ['a*', 'a', true],
    ['a*', 'ba', false],
    ['*a', 'ba', true],
    ['*a', 'ab', false],
    ['a*a', 'a', false],
    ['a*a', 'aa', true],
    ['ab*bc', 'abc', false],
    ['ab*bc', 'abbc', true],
    ['a*b*c', 'a-b-c', true],
    ['a*b*c', 'a-c-b', false],
    ['a*bb*b', 'abb', false],
    ['a*bb*b', 'abbb', true],
    ['a**b', 'ab', true],
    ['repo:o/*:ref:refs/heads/main', 'repo:o/r:ref:refs/heads/main', true],
    ['repo:o/*:ref:refs/heads/main', 'repo:o/r:ref:refs/heads/main:x', false],
    ['a.c', 'abc', false],
    ['a?c', 'abc', false],
    ['[a-z]', 'b', false],
    ['a\\*', 'a\\x', true],
  ])('%s and %s: %s', (pattern, value, expected) => {
    expect(matchesPattern(pattern, value)).toBe(expected)
  })

  test('matches exactly when the equivalent regular expression does', () => {
    const text = fc.string({ unit: fc.constantFrom('a', 'b', '*', '.'), maxLength: 8 })
    fc.assert(
      fc.property(text, text, (pattern, value) => {
        const parts = pattern.split('*').map((part) => part.replaceAll('.', '\\.'))
        expect(matchesPattern(pattern, value)).toBe(new RegExp(`^${parts.join('[^]*')}$`).test(value))
      }),
      { numRuns: times(200, 20_000) },
    )
  })

  test('that makes a regular expression backtrack is matched in one pass', () => {
    const pattern = `${'a*'.repeat(200)}b`
    let searches = 0
    // Counts the searches in a value: one for each part between stars.
    class CountedString extends String {
      override indexOf(part: string, from?: number): number {
        searches++
        return super.indexOf(part, from)
      }
    }
    const value = new CountedString('a'.repeat(16_000)) as unknown as string
    expect(matchesPattern(pattern, value)).toBe(false)
    expect(matchesPattern(`${'a*'.repeat(200)}a`, value)).toBe(true)
    expect(searches).toBeLessThanOrEqual(400)
  })
})
