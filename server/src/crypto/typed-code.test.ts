import { expect, test } from 'vitest'
import { newTypedCode, normaliseTypedCode } from './typed-code.ts'

test('a code is groups of four capitals, none of them a vowel', () => {
  for (const [groups, form] of [
    [2, /^[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}$/],
    [3, /^[BCDFGHJKLMNPQRSTVWXZ]{4}(-[BCDFGHJKLMNPQRSTVWXZ]{4}){2}$/],
  ] as const) {
    for (let round = 0; round < 200; round++) expect(newTypedCode(groups)).toMatch(form)
  }
})

test('every letter is used, and codes do not repeat', () => {
  // Of two groups, one run in 50,000 would have a code twice.
  const codes = Array.from({ length: 1_000 }, () => newTypedCode(3))
  expect(new Set(codes).size).toBe(1_000)
  expect(new Set(codes.join('').replaceAll('-', '')).size).toBe(20)
})

test.each(['BCDF-GHJK', 'bcdf-ghjk', 'BCDFGHJK', ' bcdf ghjk ', 'B-C-D-F-G-H-J-K', 'bcdf\tghjk'])(
  '%j is understood',
  (text) => {
    expect(normaliseTypedCode(text)).toBe('BCDF-GHJK')
  },
)

test('what is no code stays none', () => {
  for (const text of ['', 'BCDF-GHJ', 'ÄÖÜ', '\u0000', 'BCDF-GHJKL']) {
    expect(normaliseTypedCode(text)).not.toBe('BCDF-GHJK')
  }
})
