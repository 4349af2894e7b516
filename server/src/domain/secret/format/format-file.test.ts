// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the tests need text that looks like a reference.
/** Import files: errors name the line, and no file blocks the service. */

import type { Entry } from '@coffer/contract/secret-format'
import { describe, expect, test } from 'vitest'
import { parse as parseYaml } from 'yaml'
import { times } from '../../../../../test/tier.ts'
import type { WriteOptions } from './entry.ts'
import { type ExportFormat, formatLines, type ImportFormat, parseEntries, parseInPieces } from './format.ts'

const importFormats = ['dotenv', 'json', 'yaml', 'csv'] as const
const options = { name: 'Checkout API / production', isResolved: false }
const canary = 'c4n4ry'

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

describe('an error in a file names the line and no value', () => {
  const two = `"${canary}\n${canary}"`

  test.each<[ImportFormat, string, string, string]>([
    ['dotenv', 'a key without a value', `A=1\n${canary}`, 'line 2: expected KEY=value'],
    ['dotenv', 'an exported key without a value', `A=${two}\nexport B`, 'line 3: expected KEY=value'],
    ['dotenv', 'no key', `\n=${canary}`, 'line 2: the key is not 1-255 letters, digits, _ and -'],
    ['dotenv', 'a key with a space', `A=1\nB ${canary}=2`, 'line 2: the key is not 1-255 letters, digits, _ and -'],
    ['dotenv', 'a line of base64', `A=1\n${canary}+/=`, 'line 2: the key is not 1-255 letters, digits, _ and -'],
    ['dotenv', 'a colon instead of the equals sign', `A: ${canary}`, 'line 1: expected KEY=value'],
    ['dotenv', 'a duplicate', `A=${two}\r\n\r\nB=1\r\nA=${canary}`, 'line 5: A is already given on line 1'],
    [
      'dotenv',
      'an unclosed double quote',
      `A=1\n\nB="${canary}\nC=2\n`,
      'line 3: the quote that opens this value is never closed',
    ],
    ['dotenv', 'an unclosed single quote', `A='${canary}`, 'line 1: the quote that opens this value is never closed'],
    [
      'dotenv',
      'an escaped closing quote',
      `A="${canary}\\"`,
      'line 1: the quote that opens this value is never closed',
    ],
    [
      'dotenv',
      'text after the closing quote',
      `A=1\nB=${two} ${canary}`,
      'line 3: only a comment may follow the quote that closes the value begun on line 2',
    ],
    ['json', 'an empty file', '', 'line 1: expected a JSON object of keys and values'],
    ['json', 'a list', `\n["${canary}"]`, 'line 2: expected a JSON object of keys and values'],
    ['json', 'a string', `"${canary}"`, 'line 1: expected a JSON object of keys and values'],
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
    ['json', 'a hexadecimal number', '{"A": 0x10}', 'line 1: expected a value for "A"'],
    ['json', 'a leading zero', '{"A": 01}', 'line 1: expected a value for "A"'],
    ['json', 'single quotes', `{'A': '${canary}'}`, 'line 1: expected a key in double quotes'],
    ['json', 'a trailing comma', `{"A": "${canary}",\n}`, 'line 2: expected a key in double quotes'],
    ['json', 'a missing comma', `{"A": "${canary}"\n"B": 1}`, 'line 2: expected a comma or a closing brace'],
    ['json', 'no colon', `{"A" "${canary}"}`, 'line 1: expected a colon after the key'],
    ['json', 'an unclosed string', `{"A":\n"${canary}`, 'line 2: the quote that opens this string is never closed'],
    [
      'json',
      'a raw line break',
      `{"A": ${two}}`,
      'line 1: a string contains a line break or a control character; escape it',
    ],
    ['json', 'a bad escape', `{"A": "${canary}\\q"}`, 'line 1: a string contains an escape that JSON does not allow'],
    ['json', 'text after the object', `{"A": 1}\n${canary}`, 'line 2: expected nothing after the closing brace'],
    ['yaml', 'a list', `# c\n- ${canary}`, 'line 2: expected a mapping of keys to values'],
    ['yaml', 'a scalar', canary, 'line 1: expected a mapping of keys to values'],
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
    ['yaml', 'a standard YAML tag', `A: !!binary ${canary}`, 'line 1: tags are not allowed'],
    ['yaml', 'a tagged mapping', `!secret\nA: ${canary}`, 'line 1: tags are not allowed'],
    ['yaml', 'a directive', `%TAG ! tag:${canary},2000:\n---\nA: 1`, 'line 1: directives are not allowed'],
    ['yaml', 'an unknown alias', `A: 1\nB: *${canary}`, 'line 2: an alias must name the anchor of an earlier value'],
    ['yaml', 'a second document', `A: ${canary}\n---\nB: 1`, 'line 2: expected one document only'],
    ['yaml', 'a tab', `A:\n\t${canary}: 1`, 'line 2: a tab is used as indentation; use spaces'],
    [
      'yaml',
      'an unclosed quote',
      `A: 1\nB: "${canary}\nC: 2`,
      'line 2: the quote that opens this string is never closed',
    ],
    [
      'yaml',
      'a bad escape',
      `A: 1\nB: "${canary}\\q"`,
      'line 2: a quoted string contains an escape that YAML does not allow',
    ],
    ['yaml', 'text after quotes', `A: 1\nB: "${canary}" ${canary}`, 'line 2: this is not valid YAML'],
    ['yaml', 'a reserved character', `A: 1\nB: @${canary}`, 'line 2: this is not valid YAML'],
    ['csv', 'an empty file', '', 'line 1: expected a header row with the columns key and value'],
    ['csv', 'no header', `A,${canary}\n`, 'line 1: expected a header row with the columns key and value, each once'],
    [
      'csv',
      'two columns with the same name',
      'key,value,key\n',
      'line 1: expected a header row with the columns key and value, each once',
    ],
    ['csv', 'a missing cell', `key,value\nA,${two}\n${canary}`, 'line 4: expected 2 cells as in the header, found 1'],
    ['csv', 'an extra cell', `key,value\nA,b,${canary}`, 'line 2: expected 2 cells as in the header, found 3'],
    [
      'csv',
      'a duplicate after CR LF in quotes',
      `key,value\r\nA,"${canary}\r\n${canary}"\r\n\r\nA,b`,
      'line 5: A is already given on line 2',
    ],
    ['csv', 'a bad key', `key,value\n${canary} x,b`, 'line 2: the key is not 1-255 letters, digits, _ and -'],
    [
      'csv',
      'an unclosed quote',
      `key,value\nA,"${canary}\nB,2`,
      'line 2: the quote that opens this cell is never closed',
    ],
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

describe('no file blocks the service', () => {
  /** Anything but linear time would take minutes with either. */
  const size = times(512 * 1024, 2 * 1024 * 1024)

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
  ])('%s: %j followed by many %j', (format, start, piece) => {
    const startedAt = performance.now()
    try {
      parseEntries(format, start + piece.repeat(size / piece.length))
    } catch (error) {
      expect(error).toMatchObject({ code: 'invalid' })
    }
    expect(performance.now() - startedAt).toBeLessThan(60_000)
  })
})

describe('a file is parsed in pieces', () => {
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
  ])('%s: %j followed by many %j', (format, start, piece, count) => {
    expect(piecesOf(format, start + piece.repeat(size / piece.length))).toBeGreaterThanOrEqual(count)
  })

  test.each(importFormats)('%s: 10,000 entries', (format) => {
    const entries = Array.from({ length: 10_000 }, (_, index) => ({ key: `KEY_${index}`, value: `${index}` }))
    const text = textOf(format, entries)
    expect(piecesOf(format, text)).toBeGreaterThanOrEqual(20)
    expect(parseEntries(format, text)).toEqual(entries)
  })

  test('with the same result as in one piece, at any boundary', () => {
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
  ])('%s: a value beyond the maximum length is not read to its end', (format, content) => {
    expect(problemOf(() => parseEntries(format, content))).toContain('the text that begins here is too long')
  })
})
