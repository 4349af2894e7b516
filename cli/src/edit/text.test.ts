// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the tests need text that looks like a reference.
/** The text of `coffer secrets edit`. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { hostileText, hostileValues } from '../../../test/hostile-text.ts'
import { times } from '../../../test/tier.ts'
import { parseText, TextError, writeText } from './text.ts'

const linesOf = (values: readonly string[], note = '') =>
  values.map((value, index) => ({ key: `K_${index}`, value, note }))
const entriesOf = (values: readonly string[]) => new Map(values.map((value, index) => [`K_${index}`, value]))

test('every value survives writing and reading, beside any note', () => {
  expect(parseText(writeText(['heading'], linesOf(hostileValues)))).toEqual(entriesOf(hostileValues))
  fc.assert(
    fc.property(fc.array(hostileText, { maxLength: 10 }), hostileText, hostileText, (values, heading, note) => {
      expect(parseText(writeText([heading], linesOf(values, note)))).toEqual(entriesOf(values))
    }),
    { numRuns: times(200, 5_000) },
  )
})

test('an editor that ends lines with CR LF, or adds a byte order mark, changes no value', () => {
  const values = ['plain', 'two words', "it's", '', 'two\nlines', "it's\ntwo", 'a\r\nb']
  const text = writeText(['heading'], linesOf(values))
  expect(parseText(`\ufeff${text.replaceAll('\n', '\r\n')}`)).toEqual(entriesOf(values))
})

describe('reads what people type', () => {
  test.each([
    ['A=b', 'b'],
    ['  export A = b  ', 'b'],
    ['A=b # comment', 'b'],
    ['A=b#c', 'b#c'],
    ['A=# comment', ''],
    ['A=', ''],
    ["A='b' # comment", 'b'],
    ['A="b\\nc\\"\\x"', 'b\nc"\\x'],
    ["A='b\nc'", 'b\nc'],
    ['A=`b"\'`', 'b"\''],
    ['A=${X}', '${X}'],
    ['A="${X} \\${Y}"', '${X} $${Y}'],
    ["A='${X}'", '$${X}'],
  ])('%j', (text, value) => {
    expect(parseText(`# comment\n\n${text}\nB=last`)).toEqual(
      new Map([
        ['A', value],
        ['B', 'last'],
      ]),
    )
  })
})

describe('refuses, naming the line and never the text', () => {
  test.each([
    ['OK=1\nc4n4ry', 'Line 2: expected KEY=value.'],
    ['OK=1\nc4n4ry key=1', 'Line 2: expected KEY=value.'],
    ['=c4n4ry', 'Line 1: expected KEY=value.'],
    ['A=1\n\nA=c4n4ry', 'Line 3: A is there twice.'],
    [`A='c4n4ry\nB=1`, 'Line 1: the quote that opens this value is never closed.'],
    ['A="c4n4ry\\"\n', 'Line 1: the quote that opens this value is never closed.'],
    [`A='x\ny' c4n4ry`, 'Line 1: only a comment may follow the closing quote.'],
  ])('%j', (text, problem) => {
    expect(() => parseText(text)).toThrow(new TextError(problem))
  })
})
