// biome-ignore-all lint/suspicious/noTemplateCurlyInString: text that looks like a reference is what is tested here.
import { spawnSync } from 'node:child_process'
import { parseEnv } from 'node:util'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parse as parseYaml } from 'yaml'
import { times } from '../../../../../test/tier.ts'
import { type Entry, type ExportFormat, formatLines, type ImportFormat, parseEntries, parseInPieces } from './format.ts'

const importFormats = ['dotenv', 'json', 'yaml', 'csv'] as const
const exportFormats = [...importFormats, 'shell', 'docker', 'k8s', 'tfvars'] as const
const options = { name: 'Checkout API / production' }
const canary = 'c4n4ry'

/** Each has broken some parser or writer of some format. */
const hostileValues = [
  '',
  ' ',
  '  both sides  ',
  '\t',
  '\ttabs\t',
  'a b',
  '#',
  '# not a comment',
  'a#b',
  'a #b',
  '$',
  '$X',
  '${X}',
  '$${X}',
  '$$${X}',
  '$%{x}',
  '%{if x}',
  '%%{',
  '$(id)',
  '`id`',
  '\\',
  '\\\\',
  'a\\',
  '\\n',
  '\\u0041',
  '\\$',
  'C:\\new\\table\\users',
  "'",
  '"',
  '`',
  "''",
  '""',
  "'quoted'",
  '"quoted"',
  '`quoted`',
  `it's "all" \`three\``,
  "it's $5",
  'a\nb',
  'a\r\nb',
  'a\rb',
  '\n',
  '\r',
  '\r\n',
  '\n\n\n',
  'ends with LF\n',
  'ends with CR\r',
  'ends with CR LF\r\n',
  '\nbegins with LF',
  '-----BEGIN KEY-----\nMIIEvQIBADANBg+/==\n-----END KEY-----\n',
  '{\n  "type": "service_account",\n  "key": "a\\nb"\n}',
  'true',
  'False',
  'null',
  '~',
  'yes',
  'NO',
  'on',
  '1e3',
  '0x10',
  '0o17',
  '007',
  '1.0',
  '-0',
  '.5',
  '.inf',
  '.nan',
  '1_000',
  '12:30:45',
  '2026-01-01',
  '2026-01-01T00:00:00Z',
  '- item',
  '? key',
  'key: value',
  'key:',
  ': ',
  '& a',
  '*alias',
  '!tag',
  '|',
  '>',
  '|-\n  block',
  '%directive',
  '@at',
  '---',
  '...',
  '<<',
  '[1, 2]',
  '{a: b}',
  ',',
  'a,b',
  '=',
  '=1+1',
  'a=b=c',
  'export A=1',
  '\0',
  'a\0b',
  '\u0001\u0002\u0007\b\u000b\f\u000e\u001b\u001f\u007f',
  '\u0080\u0085\u009f',
  '\u00a0no-break\u00a0',
  '\u2028',
  '\u2029',
  '\ufeff',
  '\ufeffinside\ufeff',
  '\ufffe\uffff\ufffd',
  '\u202eright to left',
  '🔑',
  '👩‍👩‍👧 é ﬁ 漢字',
  'e\u0301',
  '\u{10ffff}',
  'x'.repeat(64 * 1024),
]

const hostileText = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 40 }),
  fc.string({ unit: 'grapheme', maxLength: 40 }),
  fc
    .array(
      fc.constantFrom(...Array.from('\'"`\\$%{}#=,:;!&*|>-?[]() \t\r\n\0\u001f\u007f\u0085\u2028\ufeffnrtu0aA🔑')),
      {
        maxLength: 40,
      },
    )
    .map((characters) => characters.join('')),
  fc.array(fc.constantFrom(...hostileValues.slice(0, -1)), { maxLength: 4 }).map((pieces) => pieces.join('')),
)

function someEntries(key: RegExp) {
  const entry = fc.record({ key: fc.stringMatching(key), value: hostileText })
  return fc.uniqueArray(entry, { selector: ({ key }) => key, maxLength: 8 })
}

const anyKey = /^[A-Za-z0-9_-]{1,12}$/
const variableName = /^X_[A-Za-z0-9_]{0,8}$/

function entriesOf(values: readonly string[]) {
  return values.map((value, index) => ({ key: `KEY_${index}`, value }))
}

function formatEntries(format: ExportFormat, entries: readonly Entry[], options: { readonly name: string }) {
  const { lines, contentType } = formatLines(format, entries, options)
  return { text: [...lines].join(''), contentType }
}

function textOf(format: ExportFormat, entries: { key: string; value: string }[]): string {
  return formatEntries(format, entries, options).text
}

function parsed(format: ImportFormat, content: string): Record<string, string> {
  return Object.fromEntries(parseEntries(format, content).map(({ key, value }) => [key, value]))
}

/** The message without the field's name, after a check that the failure is one the caller can mend. */
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
  test('gives back every hostile value byte for byte, in order', () => {
    const entries = entriesOf(hostileValues)
    expect(parseEntries(format, textOf(format, entries))).toEqual(entries)
  })

  test('gives back any text under any key', () => {
    fc.assert(
      fc.property(someEntries(anyKey), (entries) => {
        expect(parseEntries(format, textOf(format, entries))).toEqual(entries)
      }),
      { numRuns: times(200, 2_000) },
    )
  })

  test('gives back keys that a format or a language could take for something else', () => {
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

  test('holds no entries too', () => {
    expect(parseEntries(format, textOf(format, []))).toEqual([])
  })

  test('ignores a byte order mark before the first key', () => {
    expect(parsed(format, `\ufeff${textOf(format, [{ key: 'A', value: '1' }])}`)).toEqual({ A: '1' })
  })

  test('never fails but with a message that names a line and is not a piece of the file', () => {
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

  test('reads 10,000 entries in 8 MiB without taking quadratic time', () => {
    const entries = Array.from({ length: 10_000 }, (_, index) => ({
      key: `KEY_${index}`,
      value: `${index} 'single' "double" \\ $X #\n`.repeat(20),
    }))
    const text = textOf(format, entries)
    expect(text.length).toBeGreaterThan(5 * 1024 * 1024)
    const startedAt = performance.now()
    expect(parseEntries(format, text)).toHaveLength(10_000)
    expect(performance.now() - startedAt).toBeLessThan(10_000)
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

describe('dotenv as it is written', () => {
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
    ['single quotes, literally', 'A=\'b\\n$X \\\\ "c"\'', 'b\\n$X \\\\ "c"'],
    ['back quotes, literally', 'A=`b\\n\'c\' "d"`', 'b\\n\'c\' "d"'],
    ['the escapes of double quotes', 'A="\\n\\r\\t\\\\\\"\\$\\`\\u00e9\\ud83d\\udd11"', '\n\r\t\\"$`é🔑'],
    ['other backslashes in double quotes', 'A="\\d+\\.\\u12 \\x41"', '\\d+\\.\\u12 \\x41'],
    ['backslashes without quotes', 'A=C:\\new\\dir', 'C:\\new\\dir'],
    ['references, unexpanded', 'A=${X}-$Y', '${X}-$Y'],
    ['references in double quotes, unexpanded', 'A="${X}-$Y"', '${X}-$Y'],
    ['lines in double quotes', 'A="b\nc"', 'b\nc'],
    ['lines in single quotes', "A='b\n# c\nD=e'", 'b\n# c\nD=e'],
    ['lines in back quotes', 'A=`b\nc`', 'b\nc'],
    ['CR LF in quotes, kept', 'A="b\r\nc"\r\n', 'b\r\nc'],
    ['a no-break space, kept', 'A=\u00a0b\u00a0', '\u00a0b\u00a0'],
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
    ['nothing special', 'https://a.b/c:1,2@3', 'A=https://a.b/c:1,2@3'],
    ['nothing at all', '', 'A='],
    ['a space', 'a b', "A='a b'"],
    ['a reference', '${X}', "A='${X}'"],
    ['a tab', 'a\tb', "A='a\tb'"],
    ['a single quote', "it's", 'A="it\'s"'],
    ['a backslash', 'a\\b', "A='a\\b'"],
    ['a backslash at the end', 'a b\\', 'A="a b\\u005c"'],
    ['lines', 'a\nb\n', 'A="a\\nb\\n"'],
    ['lines with quotes', '{\n  "a": "\\n"\n}', 'A=\'{\n  "a": "\\n"\n}\''],
    ['everything', '\'"`$\\\r\t\0', 'A="\'\\"\\`\\$\\\\\\r\\t\\u0000"'],
  ])('is written as simply as %s allows', (_, value, line) => {
    expect(textOf('dotenv', [{ key: 'A', value }])).toBe(`${line}\n`)
  })

  test.each([
    ['a key of a service account', '{\n  "private_key": "-----BEGIN PRIVATE KEY-----\\nMII=\\n"\n}\n'],
    ['a script', 'set -e\necho "$HOME" `id` \\d\n'],
    ['a certificate', '-----BEGIN CERTIFICATE-----\nMII=\n-----END CERTIFICATE-----\n'],
  ])('gives Node %s of several lines', (_, value) => {
    const entries = ['A', 'B'].map((key) => ({ key, value }))
    expect(parseEnv(textOf('dotenv', entries))).toEqual({ A: value, B: value })
  })
})

describe('json', () => {
  test('keeps numbers and booleans as they are written', () => {
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
  test('keeps scalars as they are written', () => {
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
    ['an explicit text', 'A: !!str null\n', 'null'],
    ['a comment', 'A: b # c\n', 'b'],
    ['a literal block', 'A: |\n  b\n   c\n\n  d\n', 'b\n c\n\nd\n'],
    ['a literal block without its last line break', 'A: |-\n  b\n', 'b'],
    ['a literal block that keeps them all', 'A: |+\n  b\n\n', 'b\n\n'],
    ['a folded block', 'A: >-\n  b\n  c\n', 'b c'],
    ['a flow mapping', '{"A": b}', 'b'],
    ['a quoted key', '"A": b', 'b'],
    ['a document start and end', '---\nA: b\n...\n', 'b'],
    ['lines in double quotes', 'A: "b\n  c\\n\\\n  d"\n', 'b c\nd'],
    ['CR LF', 'A: |\r\n  b\r\n  c\r\n', 'b\nc\n'],
  ])('reads %s', (_, content, value) => {
    expect(parseEntries('yaml', content)).toEqual([{ key: 'A', value }])
  })

  test('resolves an alias to an earlier text', () => {
    expect(parsed('yaml', 'A: &x 1.0\nB: *x\nC: &x two\nD: *x\n')).toEqual({ A: '1.0', B: '1.0', C: 'two', D: 'two' })
  })

  test('refuses aliases that stand for more than the largest file', () => {
    const bomb = `A: &x ${'y'.repeat(60_000)}\n${Array.from({ length: 200 }, (_, index) => `B${index}: *x\n`).join('')}`
    expect(problemOf(() => parseEntries('yaml', bomb))).toBe('content: line 141: the aliases expand to more than 8 MiB')
  })

  test('means the same to a reader that knows numbers, booleans and dates', () => {
    const entries = entriesOf(hostileValues)
    expect(parseYaml(textOf('yaml', entries), { version: '1.1' })).toEqual(
      Object.fromEntries(entries.map(({ key, value }) => [key, value])),
    )
  })
})

describe('csv', () => {
  test.each([
    ['the columns in another order, and others', 'note,VALUE,Key\n"n,1",b,A\n'],
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

describe('an error of a file names the line and no value', () => {
  const two = `"${canary}\n${canary}"`

  test.each<[ImportFormat, string, string, string]>([
    ['dotenv', 'a key alone', `A=1\n${canary}`, 'line 2: expected KEY=value'],
    ['dotenv', 'an exported key alone', `A=${two}\nexport B`, 'line 3: expected KEY=value'],
    ['dotenv', 'no key', `\n=${canary}`, 'line 2: the key is not 1-255 letters, digits, _ and -'],
    ['dotenv', 'a key with a space', `A=1\nB ${canary}=2`, 'line 2: the key is not 1-255 letters, digits, _ and -'],
    ['dotenv', 'a line of base64', `A=1\n${canary}+/=`, 'line 2: the key is not 1-255 letters, digits, _ and -'],
    ['dotenv', 'a colon for the equals sign', `A: ${canary}`, 'line 1: expected KEY=value'],
    ['dotenv', 'a duplicate', `A=${two}\r\n\r\nB=1\r\nA=${canary}`, 'line 5: A is already given on line 1'],
    [
      'dotenv',
      'an open double quote',
      `A=1\n\nB="${canary}\nC=2\n`,
      'line 3: the quote that opens this value is never closed',
    ],
    ['dotenv', 'an open single quote', `A='${canary}`, 'line 1: the quote that opens this value is never closed'],
    [
      'dotenv',
      'an escaped closing quote',
      `A="${canary}\\"`,
      'line 1: the quote that opens this value is never closed',
    ],
    [
      'dotenv',
      'text after the quotes',
      `A=1\nB=${two} ${canary}`,
      'line 3: only a comment may follow the quote that closes the value begun on line 2',
    ],
    ['json', 'nothing', '', 'line 1: expected a JSON object of keys and values'],
    ['json', 'a list', `\n["${canary}"]`, 'line 2: expected a JSON object of keys and values'],
    ['json', 'a text', `"${canary}"`, 'line 1: expected a JSON object of keys and values'],
    ['json', 'null', `{\n"A": "${canary}",\n"B": null}`, 'line 3: "B" is null; write "" if it is empty'],
    ['json', 'an object', `{\r\n"A": {"${canary}": 1}}`, 'line 2: "A" holds an object; only text can be a value'],
    ['json', 'a list as value', `{"A": ["${canary}"]}`, 'line 1: "A" holds a list; only text can be a value'],
    ['json', 'a duplicate', `{\n"A": "${canary}",\n"\\u0041": 1}`, 'line 3: A is already given on line 2'],
    ['json', 'a bad key', `{\n"a.b": "${canary}"}`, 'line 2: "a.b" is not 1-255 letters, digits, _ and -'],
    [
      'json',
      'an unprintable key',
      `{"\\u202e": "${canary}"}`,
      'line 1: this key is not 1-255 letters, digits, _ and -',
    ],
    ['json', 'a long key', `{"${'k'.repeat(256)}": 1}`, 'line 1: this key is not 1-255 letters, digits, _ and -'],
    ['json', 'a bare word', `{"A": ${canary}}`, 'line 1: expected a value for "A"'],
    ['json', 'a number of another language', '{"A": 0x10}', 'line 1: expected a value for "A"'],
    ['json', 'a leading zero', '{"A": 01}', 'line 1: expected a value for "A"'],
    ['json', 'single quotes', `{'A': '${canary}'}`, 'line 1: expected a key in double quotes'],
    ['json', 'a comma too many', `{"A": "${canary}",\n}`, 'line 2: expected a key in double quotes'],
    ['json', 'a comma too few', `{"A": "${canary}"\n"B": 1}`, 'line 2: expected a comma or a closing brace'],
    ['json', 'no colon', `{"A" "${canary}"}`, 'line 1: expected a colon after the key'],
    ['json', 'an open text', `{"A":\n"${canary}`, 'line 2: the quote that opens this string is never closed'],
    [
      'json',
      'a raw line break',
      `{"A": ${two}}`,
      'line 1: a string contains a line break or a control character; escape it',
    ],
    ['json', 'a bad escape', `{"A": "${canary}\\q"}`, 'line 1: a string contains an escape that JSON does not allow'],
    ['json', 'text behind', `{"A": 1}\n${canary}`, 'line 2: expected nothing after the closing brace'],
    ['yaml', 'a list', `# c\n- ${canary}`, 'line 2: expected a mapping of keys to values'],
    ['yaml', 'a text', canary, 'line 1: expected a mapping of keys to values'],
    ['yaml', 'a tilde', `A: ${canary}\nB: ~`, 'line 2: "B" has no value; quote it if this text is the value'],
    ['yaml', 'null', 'A: null', 'line 1: "A" has no value; quote it if this text is the value'],
    [
      'yaml',
      'a mapping',
      `A: 1\nB:\n  c: ${canary}`,
      'line 2: "B" holds a list or a mapping; only text can be a value',
    ],
    ['yaml', 'a list as value', `A: [${canary}]`, 'line 1: "A" holds a list or a mapping; only text can be a value'],
    ['yaml', 'a duplicate', `A: |\n  ${canary}\n  b\nB: 1\n"A": 2`, 'line 5: A is already given on line 1'],
    ['yaml', 'a bad key', `A: 1\na.b: ${canary}`, 'line 2: "a.b" is not 1-255 letters, digits, _ and -'],
    ['yaml', 'no key', `A: 1\n: ${canary}`, 'line 2: this key is not 1-255 letters, digits, _ and -'],
    ['yaml', 'a list as key', `[${canary}]: 1`, 'line 1: expected a key that is plain text'],
    ['yaml', 'a merge key', `A: &x ${canary}\n<<: *x`, 'line 2: merge keys are not allowed'],
    ['yaml', 'a tag', `A: 1\nB: !secret ${canary}`, 'line 2: tags are not allowed'],
    ['yaml', 'a tag of YAML', `A: !!binary ${canary}`, 'line 1: tags are not allowed'],
    ['yaml', 'a tagged mapping', `!secret\nA: ${canary}`, 'line 1: tags are not allowed'],
    ['yaml', 'a directive', `%TAG ! tag:${canary},2000:\n---\nA: 1`, 'line 1: directives are not allowed'],
    ['yaml', 'an unknown alias', `A: 1\nB: *${canary}`, 'line 2: an alias must name the anchor of an earlier value'],
    ['yaml', 'a second document', `A: ${canary}\n---\nB: 1`, 'line 2: expected one document only'],
    ['yaml', 'a tab', `A:\n\t${canary}: 1`, 'line 2: a tab is used as indentation; use spaces'],
    ['yaml', 'an open quote', `A: 1\nB: "${canary}\nC: 2`, 'line 2: the quote that opens this string is never closed'],
    [
      'yaml',
      'a bad escape',
      `A: 1\nB: "${canary}\\q"`,
      'line 2: a quoted string contains an escape that YAML does not allow',
    ],
    ['yaml', 'text after quotes', `A: 1\nB: "${canary}" ${canary}`, 'line 2: this is not valid YAML'],
    ['yaml', 'a reserved character', `A: 1\nB: @${canary}`, 'line 2: this is not valid YAML'],
    ['csv', 'nothing', '', 'line 1: expected a header row with the columns key and value'],
    ['csv', 'no header', `A,${canary}\n`, 'line 1: expected a header row with the columns key and value, each once'],
    [
      'csv',
      'two columns of one name',
      'key,value,key\n',
      'line 1: expected a header row with the columns key and value, each once',
    ],
    ['csv', 'a cell too few', `key,value\nA,${two}\n${canary}`, 'line 4: expected 2 cells as in the header, found 1'],
    ['csv', 'a cell too many', `key,value\nA,b,${canary}`, 'line 2: expected 2 cells as in the header, found 3'],
    [
      'csv',
      'a duplicate after CR LF in quotes',
      `key,value\r\nA,"${canary}\r\n${canary}"\r\n\r\nA,b`,
      'line 5: A is already given on line 2',
    ],
    ['csv', 'a bad key', `key,value\n${canary} x,b`, 'line 2: the key is not 1-255 letters, digits, _ and -'],
    ['csv', 'an open quote', `key,value\nA,"${canary}\nB,2`, 'line 2: the quote that opens this cell is never closed'],
    [
      'csv',
      'text after quotes',
      `key,value\nA,${two}${canary}`,
      'line 3: expected a comma or the end of the line after a closing quote',
    ],
    [
      'csv',
      'a quote inside a cell',
      `key,value\nA,${canary}"`,
      'line 2: a cell that contains a quote must be quoted, and the quote doubled',
    ],
  ])('%s: %s', (format, _, content, problem) => {
    const message = problemOf(() => parseEntries(format, content))
    expect(message).toBe(`content: ${problem}`)
    expect(message).not.toContain(canary)
  })
})

describe('a small or a large file cannot hold up the service', () => {
  const size = 2 * 1024 * 1024

  test.each<[ImportFormat, string, string]>([
    ...['[', '{', '- ', '? ', 'a: ', ']', '{}', '%\n', '\n', '#\n', '"', '&a ', 'a: @\n'].map(
      (piece): [ImportFormat, string, string] => ['yaml', '', piece],
    ),
    ['yaml', 'A: "', '\\q'],
    ['yaml', 'A: "', '\n'],
    ['yaml', 'A: x', ' '],
    ['dotenv', '', '\n'],
    ['dotenv', 'A=', ' '],
    ['dotenv', 'A="', '\\'],
    ['json', '', '{"a":'],
    ['json', '{"A": "', '\\'],
    ['json', '{', '\n'],
    ['csv', '', ','],
    ['csv', 'key,value\n', '\n'],
    ['csv', 'key,value\nA,', '"'],
  ])('%s: %j and many of %j', (format, start, piece) => {
    const startedAt = performance.now()
    try {
      parseEntries(format, start + piece.repeat(size / piece.length))
    } catch (error) {
      expect(error).toMatchObject({ code: 'invalid' })
    }
    expect(performance.now() - startedAt).toBeLessThan(10_000)
  })
})

describe('a file is read in pieces', () => {
  const size = 180_000
  const piecesOf = (format: ImportFormat, content: string) => {
    let count = 1
    const pieces = parseInPieces(format, content)
    for (let piece = pieces.next(); !piece.done; piece = pieces.next()) count += 1
    return count
  }

  test.each<[ImportFormat, string, string, number]>([
    ['yaml', '', '#\n', 100],
    ['yaml', '', '\n', 100],
    ['yaml', '', ' \n', 100],
    ['yaml', 'A:\n', '  # x\n', 50],
    ['yaml', 'A: |\n', '\n', 100],
    ['dotenv', '', '\n', 30],
    ['dotenv', '', '#\n', 15],
  ])('%s: %j and many of %j', (format, start, piece, count) => {
    expect(piecesOf(format, start + piece.repeat(size / piece.length))).toBeGreaterThanOrEqual(count)
  })

  test.each(importFormats)('%s: 10,000 entries', (format) => {
    const entries = Array.from({ length: 10_000 }, (_, index) => ({ key: `KEY_${index}`, value: `${index}` }))
    const text = textOf(format, entries)
    expect(piecesOf(format, text)).toBeGreaterThanOrEqual(20)
    expect(parseEntries(format, text)).toEqual(entries)
  })

  test('and means the same as in one go, wherever a piece ends', () => {
    const written = (index: number) =>
      [
        `K${index}: plain # comment`,
        `K${index}: "quoted\\n${index}"\n# ${'c'.repeat(index % 7)}\n`,
        `K${index}: |\n  block\n   ${index}\n`,
        `K${index}: &a${index} anchored`,
        `K${index}: *a${index - 1}`,
        `? K${index}\n: explicit`,
        `K${index}:`,
        `"K${index}": >-\n  folded\n  ${index}\n\n`,
      ][index % 8] ?? ''
    const text = Array.from({ length: 4_000 }, (_, index) => written(index)).join('\n')
    const expected = parseYaml(text, { schema: 'failsafe', uniqueKeys: false, maxAliasCount: -1 })
    expect(parsed('yaml', text)).toEqual(
      Object.fromEntries(Object.entries(expected).map(([key, value]) => [key, value ?? ''])),
    )
    const broken = text.replace('K3000: ', 'K3000 ')
    expect(problemOf(() => parseEntries('yaml', broken))).toContain('this is not valid YAML')
  })

  test.each<[ImportFormat, string]>([
    ['json', `{"A": "${'\\n'.repeat(400_000)}"}`],
    ['csv', `key,value\nA,"${'""'.repeat(400_000)}"`],
    ['dotenv', `A="${'\\n'.repeat(400_000)}"`],
    ['dotenv', `A=${' '.repeat(400_000)}x`],
  ])('%s: a text that is too long for any value is not read to its end', (format, content) => {
    expect(problemOf(() => parseEntries(format, content))).toContain('the text that begins here is too long')
  })
})

describe('shell', () => {
  const holdable = hostileValues.filter((value) => !value.includes('\0'))
  const shells = ['sh', 'bash', 'dash', 'busybox'].filter((shell) => spawnSync(shell, ['-c', ':']).status === 0)

  /** What the shell has in its variables once it has read the text. */
  function evaluated(shell: string, text: string, keys: string[]): string[] {
    const script = `eval "$(cat)"; printf '%s\\0' ${keys.map((key) => `"$${key}"`).join(' ')}`
    const { stdout, stderr } = spawnSync(shell, ['-c', script], { input: text, maxBuffer: 64 * 1024 * 1024 })
    expect(stderr.toString()).toBe('')
    return stdout.toString().split('\0').slice(0, -1)
  }

  test.each(shells)('gives %s every hostile value byte for byte', (shell) => {
    const entries = entriesOf(holdable)
    const keys = entries.map(({ key }) => key)
    expect(evaluated(shell, textOf('shell', entries), keys)).toEqual(holdable)
  })

  test.each(shells)('gives %s any text', (shell) => {
    fc.assert(
      fc.property(someEntries(variableName), (entries) => {
        fc.pre(entries.length > 0 && entries.every(({ value }) => !value.includes('\0')))
        const keys = entries.map(({ key }) => key)
        expect(evaluated(shell, textOf('shell', entries), keys)).toEqual(entries.map(({ value }) => value))
      }),
      { numRuns: times(15, 500) },
    )
  })

  test('exports the variables to what is started next', () => {
    const { stdout } = spawnSync('sh', ['-c', 'eval "$(cat)"; sh -c \'printf %s "$A"\''], {
      input: textOf('shell', [{ key: 'A', value: "it's" }]),
    })
    expect(stdout.toString()).toBe("it's")
  })
})

/** As `docker run --env-file` reads it: https://github.com/docker/cli/blob/master/opts/file.go */
function readAsDocker(text: string): { key: string; value: string }[] {
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  return lines.map((line) => ({ key: line.slice(0, line.indexOf('=')), value: line.slice(line.indexOf('=') + 1) }))
}

/** As HCL reads a quoted template without interpolation; a bare `${` or `%{` would be one, and fails. */
function readAsHcl(line: string): { key: string; value: string } {
  const [, key = '', quoted = ''] = /^([\p{ID_Start}_][\p{ID_Continue}-]*) = "(.*)"$/u.exec(line) ?? []
  const value = quoted.replace(
    /\\u([\da-f]{4})|\\([nrt"\\])|([$%])\3\{|[$%]\{|["\\\r\n]/g,
    (token, hex: string | undefined, letter: string | undefined, mark: string | undefined) => {
      if (hex !== undefined) return String.fromCharCode(Number.parseInt(hex, 16))
      if (letter !== undefined) return { n: '\n', r: '\r', t: '\t' }[letter] ?? letter
      if (mark !== undefined) return `${mark}{`
      throw new Error(`a bare ${JSON.stringify(token)} in an HCL string`)
    },
  )
  return { key, value }
}

describe('docker', () => {
  test('gives any text of one line', () => {
    fc.assert(
      fc.property(someEntries(anyKey), (entries) => {
        fc.pre(entries.every(({ value }) => !/[\0\r\n]/.test(value)))
        expect(readAsDocker(textOf('docker', entries))).toEqual(entries)
      }),
      { numRuns: times(200, 2_000) },
    )
  })

  test('keeps spaces and quotes, as nothing is escaped', () => {
    expect(textOf('docker', [{ key: 'A', value: ' "b" # $X ' }])).toBe('A= "b" # $X \n')
  })
})

describe('tfvars', () => {
  test('gives any text that Terraform does not normalise', () => {
    fc.assert(
      fc.property(someEntries(/^[A-Za-z_][A-Za-z0-9_-]{0,8}$/), (drawn) => {
        const entries = drawn.map(({ key, value }) => ({ key, value: value.normalize('NFC') }))
        expect(textOf('tfvars', entries).split('\n').slice(0, -1).map(readAsHcl)).toEqual(entries)
      }),
      { numRuns: times(200, 2_000) },
    )
  })

  test.each([
    ['${X}', '"$${X}"'],
    ['%{X}', '"%%{X}"'],
    // HCL reads $$${ as a literal $$ and then the beginning of a template.
    ['$${X}', '"\\u0024$${X}"'],
    ['$%{X}', '"\\u0024%%{X}"'],
    ['$X % $$', '"$X % $$"'],
    ['a"b\\\n\r\t\0\u007f', '"a\\"b\\\\\\n\\r\\t\\u0000\\u007f"'],
  ])('writes %j as %s', (value, quoted) => {
    expect(textOf('tfvars', [{ key: 'a', value }])).toBe(`a = ${quoted}\n`)
  })
})

describe('k8s', () => {
  test('is a Secret that holds every byte', () => {
    const entries = entriesOf(hostileValues)
    const manifest = parseYaml(textOf('k8s', entries), { version: '1.1' })
    expect(manifest).toEqual({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: 'checkout-api-production' },
      type: 'Opaque',
      data: Object.fromEntries(entries.map(({ key, value }) => [key, Buffer.from(value).toString('base64')])),
    })
  })

  test('has keys and values that stay text, and may be empty', () => {
    const entries = ['NO', '10', 'null', '-'].map((key) => ({ key, value: '' }))
    expect(parseYaml(textOf('k8s', entries), { version: '1.1' }).data).toEqual({ NO: '', 10: '', null: '', '-': '' })
    expect(parseYaml(textOf('k8s', [])).data).toEqual({})
  })

  test.each([
    ['Zürich  Straße!', 'zurich-stra-e'],
    ['--a..b--', 'a-b'],
    ['123', '123'],
    ['漢字', 'secrets'],
    ['', 'secrets'],
    [`${'a'.repeat(62)} b`, 'a'.repeat(62)],
  ])('names %j %s', (name, label) => {
    expect(parseYaml(formatEntries('k8s', [], { name }).text).metadata).toEqual({ name: label })
  })
})

describe('a format that cannot hold an entry says which', () => {
  test.each<[ExportFormat, string, string, string]>([
    ['shell', 'A', `${canary}\0`, 'shell cannot hold the value of A: it contains a NUL character'],
    [
      'shell',
      'A-B',
      canary,
      'shell cannot hold the key A-B: a variable is named with letters, digits and _, and does not begin with a digit',
    ],
    [
      'shell',
      '1A',
      canary,
      'shell cannot hold the key 1A: a variable is named with letters, digits and _, and does not begin with a digit',
    ],
    ['docker', 'A', `${canary}\0`, 'docker cannot hold the value of A: it contains a NUL character'],
    ['docker', 'A', `${canary}\n`, 'docker cannot hold the value of A: it contains a line break'],
    ['docker', 'A', `${canary}\r`, 'docker cannot hold the value of A: it contains a line break'],
    [
      'k8s',
      'A'.repeat(254),
      canary,
      `k8s cannot hold the key ${'A'.repeat(254)}: a key of a Secret has 253 characters at most`,
    ],
    ['tfvars', '1A', canary, 'tfvars cannot hold the key 1A: an identifier does not begin with a digit or a hyphen'],
    ['tfvars', '-A', canary, 'tfvars cannot hold the key -A: an identifier does not begin with a digit or a hyphen'],
    [
      'tfvars',
      'A',
      `${canary}e\u0301`,
      'tfvars cannot hold the value of A: it contains characters that Terraform would compose into others (Unicode NFC)',
    ],
    [
      'tfvars',
      'A',
      `${canary}${'\u0323\u0301'.repeat(64)}`,
      'tfvars cannot hold the value of A: it contains 128 combining marks in a row',
    ],
  ])('%s: %s', (format, key, value, problem) => {
    const message = problemOf(() =>
      formatEntries(
        format,
        [
          { key: 'OK', value: '' },
          { key, value },
        ],
        options,
      ),
    )
    expect(message).toBe(`format: ${problem}`)
    expect(message).not.toContain(canary)
  })
})

test('each format is sent as what it is', () => {
  const types = exportFormats.map((format) => [format, formatEntries(format, [], options).contentType])
  expect(Object.fromEntries(types)).toEqual({
    dotenv: 'text/plain; charset=utf-8',
    shell: 'text/plain; charset=utf-8',
    docker: 'text/plain; charset=utf-8',
    tfvars: 'text/plain; charset=utf-8',
    json: 'application/json; charset=utf-8',
    yaml: 'application/yaml; charset=utf-8',
    k8s: 'application/yaml; charset=utf-8',
    csv: 'text/csv; charset=utf-8',
  })
})
