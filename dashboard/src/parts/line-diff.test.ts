import { expect, test } from 'vitest'
import { diffLines } from './line-diff.ts'

const signs = { same: ' ', removed: '-', added: '+' } as const
const written = (before: string, after: string) =>
  diffLines(before, after).map(({ kind, text }) => `${signs[kind]}${text}`)

test.each([
  ['a', 'a', [' a']],
  ['', 'a', ['-', '+a']],
  ['a\nb\nc', 'a\nx\nc', [' a', '-b', '+x', ' c']],
  ['a\nb\nc\nd', 'b\nd\ne', ['-a', ' b', '-c', ' d', '+e']],
  ['a', 'a\na', [' a', '+a']],
  ['a\nb\na\nb', 'a\nb', [' a', ' b', '-a', '-b']],
])('%j to %j', (before, after, lines) => {
  expect(written(before, after)).toEqual(lines)
})

test('the lines that are kept or removed are the old text, those kept or added the new one', () => {
  const before = Array.from({ length: 60 }, (_, index) => String((index * 7) % 13)).join('\n')
  const after = Array.from({ length: 50 }, (_, index) => String((index * 5) % 11)).join('\n')
  const found = diffLines(before, after)
  const textOf = (without: string) => found.flatMap(({ kind, text }) => (kind === without ? [] : [text])).join('\n')
  expect(textOf('added')).toBe(before)
  expect(textOf('removed')).toBe(after)
  expect(found.some(({ kind }) => kind === 'same')).toBe(true)
})

test('texts of thousands of different lines are shown as replaced, without a long wait', () => {
  const text = (word: string) => Array.from({ length: 5_000 }, (_, index) => `${word} ${index}`).join('\n')
  expect(diffLines(text('old'), text('new'))).toHaveLength(10_000)
})
