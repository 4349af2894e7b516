// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the tests need text that looks like a reference.
import { parseEnv } from 'node:util'
import { maxValueBytes } from '@coffer/contract/secret'
import type { Entry } from '@coffer/contract/secret-format'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parse as parseYaml } from 'yaml'
import { hostileText, hostileValues } from '../../../../../test/hostile-text.ts'
import { times } from '../../../../../test/tier.ts'
import type { WriteOptions } from './entry.ts'
import { type ExportFormat, formatLines, type ImportFormat, parseEntries } from './format.ts'

const importFormats = ['dotenv', 'json', 'yaml', 'csv'] as const
const options = { name: 'Checkout API / production', isResolved: false }

function someEntries(key: RegExp) {
  const entry = fc.record({ key: fc.stringMatching(key), value: hostileText })
  return fc.uniqueArray(entry, { selector: ({ key }) => key, maxLength: 8 })
}

const anyKey = /^[A-Za-z0-9_-]{1,12}$/

function entriesOf(values: readonly string[]) {
  return values.map((value, index) => ({ key: `KEY_${index}`, value }))
}

function formatEntries(format: ExportFormat, entries: readonly Entry[], options: WriteOptions) {
  const { lines, contentType } = formatLines(format, entries, options)
  return { text: [...lines].join(''), contentType }
}

function textOf(format: ExportFormat, entries: { key: string; value: string }[]): string {
  return formatEntries(format, entries, options).text
}

function parsed(format: ImportFormat, content: string): Record<string, string> {
  return Object.fromEntries(parseEntries(format, content).map(({ key, value }) => [key, value]))
}

/** The message of the failure, after a check that the caller can fix it. */
function problemOf(run: () => unknown): string {
  try {
    run()
  } catch (error) {
    expect(error).toMatchObject({ name: 'Failure', code: 'invalid' })
    return error instanceof Error ? error.message : ''
  }
  throw new Error('nothing was refused')
}

describe.each(importFormats)('%s', (format) => {
  test('round-trips every hostile value byte for byte, in order', () => {
    const entries = entriesOf(hostileValues)
    expect(parseEntries(format, textOf(format, entries))).toEqual(entries)
  })

  test('round-trips the largest values, even if each of their bytes is escaped, under the longest keys', () => {
    const entries = ['\0', '"', "'", '\\', '\n', '$'].map((character, index) => ({
      key: `${index}`.padEnd(255, '_'),
      value: character.repeat(maxValueBytes),
    }))
    expect(parseEntries(format, textOf(format, entries))).toEqual(entries)
  })

  test('round-trips any text under any key', () => {
    fc.assert(
      fc.property(someEntries(anyKey), (entries) => {
        expect(parseEntries(format, textOf(format, entries))).toEqual(entries)
      }),
      { numRuns: times(200, 2_000) },
    )
  })

  test('round-trips keys that a format or a language could misread', () => {
    const keys = [
      'NO',
      'null',
      'true',
      'y',
      '1e3',
      '10',
      '9',
      '-',
      '--',
      '---',
      '_',
      '-a',
      '__proto__',
      'export',
      'key',
    ]
    const entries = [...keys, 'constructor', '0x10', 'K'.repeat(255)].map((key) => ({ key, value: key }))
    expect(parseEntries(format, textOf(format, entries))).toEqual(entries)
  })

  test('round-trips an empty list', () => {
    expect(parseEntries(format, textOf(format, []))).toEqual([])
  })

  test('ignores a byte order mark before the first key', () => {
    expect(parsed(format, `\ufeff${textOf(format, [{ key: 'A', value: '1' }])}`)).toEqual({ A: '1' })
  })

  test('fails only with an error that names a line', () => {
    fc.assert(
      fc.property(someEntries(anyKey), fc.nat(), fc.nat(), hostileText, (entries, from, length, inserted) => {
        const text = textOf(format, entries)
        const start = from % (text.length + 1)
        const broken = text.slice(0, start) + inserted + text.slice(start + (length % 8))
        try {
          parseEntries(format, broken)
        } catch (error) {
          expect(error).toMatchObject({ code: 'invalid', message: expect.stringMatching(/^content: line [1-9]\d*: /) })
        }
      }),
      { numRuns: times(200, 2_000) },
    )
  })

  test('reads 10,000 entries in 8 MiB without quadratic time', () => {
    const entries = Array.from({ length: 10_000 }, (_, index) => ({
      key: `KEY_${index}`,
      value: `${index} 'single' "double" \\ $X #\n`.repeat(20),
    }))
    const text = textOf(format, entries)
    expect(text.length).toBeGreaterThan(5 * 1024 * 1024)
    const startedAt = performance.now()
    expect(parseEntries(format, text)).toHaveLength(10_000)
    expect(performance.now() - startedAt).toBeLessThan(60_000)
  })

  test.each([
    ['larger than 64 KiB', 'é'.repeat(32 * 1024 + 1), 'the value of KEY_1 is larger than 64 KiB'],
    ['with half of a surrogate pair', '\ud83d', 'the value of KEY_1 is not valid Unicode'],
  ])('refuses a value %s, naming the line', (_, value, problem) => {
    const text = textOf(format, entriesOf(['a', value]))
    const line = { dotenv: 2, json: 3, yaml: 2, csv: 3 }[format]
    expect(problemOf(() => parseEntries(format, text))).toBe(`content: line ${line}: ${problem}`)
  })
})

describe('dotenv', () => {
  test.each([
    ['plain', 'A=b', 'b'],
    ['export', 'export A=b', 'b'],
    ['export with tabs', '\texport\t A=b', 'b'],
    ['spaces around the equals sign', 'A = b', 'b'],
    ['spaces around a quoted value', 'A =  "b c"  ', 'b c'],
    ['spaces inside an unquoted value', 'A=b  c  ', 'b  c'],
    ['an empty value', 'A=', ''],
    ['an empty value in quotes', "A=''", ''],
    ['white space as value', 'A=   ', ''],
    ['a value with equals signs', 'A=b=c==', 'b=c=='],
    ['a comment after a value', 'A=b # c', 'b'],
    ['a comment after a tab', 'A=b\t#c', 'b'],
    ['a comment in place of a value', 'A= # c', ''],
    ['a hash without white space', 'A=b#c', 'b#c'],
    ['a hash at the start', 'A=#fff', '#fff'],
    ['a hash in quotes', 'A="b # c"', 'b # c'],
    ['a comment after quotes', "A='b' # it's", 'b'],
    ['a comment right after quotes', 'A="b"#c', 'b'],
    ['quotes inside an unquoted value', 'A=b"c\'d`e', 'b"c\'d`e'],
    ['a reference in single quotes as text', "A='${X}-$${Y}'", '$${X}-$$${Y}'],
    ['what cannot be a reference as it is', "A='${X:-1}'", '${X:-1}'],
    ['a reference after a backslash as text', 'A="\\${X}-${Y}"', '$${X}-${Y}'],
    ['a reference in back quotes', 'A=`${X}`', '${X}'],
    ['single quotes as literal text', 'A=\'b\\n$X \\\\ "c"\'', 'b\\n$X \\\\ "c"'],
    ['back quotes as literal text', 'A=`b\\n\'c\' "d"`', 'b\\n\'c\' "d"'],
    ['the escapes of double quotes', 'A="\\n\\r\\t\\\\\\"\\$\\`\\u00e9\\ud83d\\udd11"', '\n\r\t\\"$`é🔑'],
    ['other backslashes in double quotes', 'A="\\d+\\.\\u12 \\x41"', '\\d+\\.\\u12 \\x41'],
    ['backslashes without quotes', 'A=C:\\new\\dir', 'C:\\new\\dir'],
    ['references, unexpanded', 'A=${X}-$Y', '${X}-$Y'],
    ['references in double quotes without expanding them', 'A="${X}-$Y"', '${X}-$Y'],
    ['lines in double quotes', 'A="b\nc"', 'b\nc'],
    ['lines in single quotes', "A='b\n# c\nD=e'", 'b\n# c\nD=e'],
    ['lines in back quotes', 'A=`b\nc`', 'b\nc'],
    ['CR LF in quotes unchanged', 'A="b\r\nc"\r\n', 'b\r\nc'],
    ['a no-break space unchanged', 'A=\u00a0b\u00a0', '\u00a0b\u00a0'],
  ])('reads %s', (_, content, value) => {
    expect(parseEntries('dotenv', content)).toEqual([{ key: 'A', value }])
  })

  test.each([
    ['LF', '\n'],
    ['CR LF', '\r\n'],
    ['CR', '\r'],
  ])('reads comments, blank lines and keys of all kinds between %s', (_, lineBreak) => {
    const lines = [
      '# it\'s "a" comment',
      '',
      '  \t',
      '  # another=1',
      'A=1',
      '  B_2 = two',
      'c-3="three"',
      'export=4',
      '5=5',
    ]
    expect(parsed('dotenv', lines.join(lineBreak))).toEqual({ A: '1', B_2: 'two', 'c-3': 'three', export: '4', 5: '5' })
  })

  test.each([
    ['plain text', 'https://a.b/c:1,2@3', 'https://a.b/c:1,2@3'],
    ['an empty value', '', ''],
    ['a space', 'a b', "'a b'"],
    ['a tab', 'a\tb', "'a\tb'"],
    ['a single quote', "it's", '"it\'s"'],
    ['a single quote and a dollar that no shell expands', "it's 5$", '"it\'s 5$"'],
    ['a backslash', 'a\\b', "'a\\b'"],
    ['a backslash at the end', 'a b\\', '"a b\\u005c"'],
    ['lines', 'a\nb\n', "'a\nb\n'"],
    ['lines with quotes', '{\n  "a": "\\n"\n}', '\'{\n  "a": "\\n"\n}\''],
    ['lines with a single quote', "it's\nb", '"it\'s\nb"'],
    ['everything', '\'"`$\\\r\t\n\0', '"\'\\"\\`\\$\\\\\\r\\t\\n\\u0000"'],
    ['a reference', '${X}', '"${X}"'],
    ['an escaped reference', '$${X}', '"\\${X}"'],
    ['text that is no reference', '${X@P} $(id)', '"\\u0024{X@P} \\$(id)"'],
  ])('is written with minimal quoting for %s', (_, value, spelled) => {
    expect(textOf('dotenv', [{ key: 'A', value }])).toBe(`A=${spelled}\n`)
  })

  test.each([
    ['a service account key', '{\n  "private_key": "-----BEGIN PRIVATE KEY-----\\nMII=\\n"\n}\n'],
    ['a script', 'set -e\necho "$HOME" `id` \\d\n'],
    ['a certificate', '-----BEGIN CERTIFICATE-----\nMII=\n-----END CERTIFICATE-----\n'],
  ])('lets Node read %s of several lines', (_, value) => {
    const entries = ['A', 'B'].map((key) => ({ key, value }))
    expect(parseEnv(textOf('dotenv', entries))).toEqual({ A: value, B: value })
  })
})

describe('json', () => {
  test('keeps the spelling of numbers and booleans', () => {
    const content = '{"A": 1.0, "B": 1e3, "C": -0, "D": true, "E": false, "F": 12345678901234567890, "G": "1.0"}'
    expect(parsed('json', content)).toEqual({
      A: '1.0',
      B: '1e3',
      C: '-0',
      D: 'true',
      E: 'false',
      F: '12345678901234567890',
      G: '1.0',
    })
  })

  test('reads every escape and any white space', () => {
    expect(parsed('json', '\r\n\t{ "A"\n:\n"\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\ud83d\\udd11"\r}\n ')).toEqual({
      A: '"\\/\b\f\n\r\té🔑',
    })
  })
})

describe('yaml', () => {
  test('keeps the spelling of scalars', () => {
    const values = ['1.0', 'yes', '0x10', '2026-01-01', 'True', '1_000', '.inf', '012', 'a: b'.replace(': ', ':')]
    const content = values.map((value, index) => `K${index}: ${value}`).join('\n')
    expect(Object.values(parsed('yaml', content))).toEqual(values)
  })

  test.each([
    ['an empty value', 'A:\n', ''],
    ['an empty value before a comment', 'A: # c\n', ''],
    ['empty quotes', "A: ''\n", ''],
    ['a quoted null', "A: 'null'\n", 'null'],
    ['a quoted tilde', 'A: "~"\n', '~'],
    ['an explicit string', 'A: !!str null\n', 'null'],
    ['a comment', 'A: b # c\n', 'b'],
    ['a literal block', 'A: |\n  b\n   c\n\n  d\n', 'b\n c\n\nd\n'],
    ['a literal block without its last line break', 'A: |-\n  b\n', 'b'],
    ['a literal block with all its line breaks', 'A: |+\n  b\n\n', 'b\n\n'],
    ['a folded block', 'A: >-\n  b\n  c\n', 'b c'],
    ['a flow mapping', '{"A": b}', 'b'],
    ['a quoted key', '"A": b', 'b'],
    ['a document start and end', '---\nA: b\n...\n', 'b'],
    ['lines in double quotes', 'A: "b\n  c\\n\\\n  d"\n', 'b c\nd'],
    ['CR LF', 'A: |\r\n  b\r\n  c\r\n', 'b\nc\n'],
  ])('reads %s', (_, content, value) => {
    expect(parseEntries('yaml', content)).toEqual([{ key: 'A', value }])
  })

  test('resolves an alias to an earlier value', () => {
    expect(parsed('yaml', 'A: &x 1.0\nB: *x\nC: &x two\nD: *x\n')).toEqual({ A: '1.0', B: '1.0', C: 'two', D: 'two' })
  })

  test('refuses aliases that expand to more than the largest file', () => {
    const bomb = `A: &x ${'y'.repeat(60_000)}\n${Array.from({ length: 200 }, (_, index) => `B${index}: *x\n`).join('')}`
    expect(problemOf(() => parseEntries('yaml', bomb))).toBe('content: line 141: the aliases expand to more than 8 MiB')
  })

  test('is read the same by a parser that knows numbers, booleans and dates', () => {
    const entries = entriesOf(hostileValues)
    expect(parseYaml(textOf('yaml', entries), { version: '1.1' })).toEqual(
      Object.fromEntries(entries.map(({ key, value }) => [key, value])),
    )
  })
})

describe('csv', () => {
  test.each([
    ['columns in another order, and extra columns', 'note,VALUE,Key\n"n,1",b,A\n'],
    ['no line break at the end', 'key,value\nA,b'],
    ['blank lines', '\nkey,value\n\n\r\nA,b\n\n'],
    ['CR LF', 'key,value\r\nA,b\r\n'],
    ['CR', 'key,value\rA,b\r'],
    ['quotes around everything', '"key","value"\n"A","b"\n'],
  ])('reads %s', (_, content) => {
    expect(parsed('csv', content)).toEqual({ A: 'b' })
  })

  test('keeps spaces, line breaks and doubled quotes', () => {
    expect(parsed('csv', 'key,value\nA, b \nB,"c,\r\n""d"""\nC,\nD,""')).toEqual({
      A: ' b ',
      B: 'c,\r\n"d"',
      C: '',
      D: '',
    })
  })
})
