import { expect, test } from 'vitest'
import { newTypedCode, normaliseTypedCode } from './typed-code.ts'

test('a code is groups of four capital letters without vowels', () => {
  for (const [groups, form] of [
    [2, /^[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}$/],
    [3, /^[BCDFGHJKLMNPQRSTVWXZ]{4}(-[BCDFGHJKLMNPQRSTVWXZ]{4}){2}$/],
  ] as const) {
    for (let round = 0; round < 200; round++) expect(newTypedCode(groups)).toMatch(form)
  }
})

test('every letter is used, and codes do not repeat', () => {
  // With two groups, one run in 50,000 would repeat a code.
  const codes = Array.from({ length: 1_000 }, () => newTypedCode(3))
  expect(new Set(codes).size).toBe(1_000)
  expect(new Set(codes.join('').replaceAll('-', '')).size).toBe(20)
})

test.each(['BCDF-GHJK', 'bcdf-ghjk', 'BCDFGHJK', ' bcdf ghjk ', 'B-C-D-F-G-H-J-K', 'bcdf\tghjk'])(
  '%j is normalised',
  (text) => {
    expect(normaliseTypedCode(text)).toBe('BCDF-GHJK')
  },
)

test('text that is not a code is not normalised into one', () => {
  for (const text of ['', 'BCDF-GHJ', 'ÄÖÜ', '\u0000', 'BCDF-GHJKL']) {
    expect(normaliseTypedCode(text)).not.toBe('BCDF-GHJK')
  }
})
