// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the tests need text that looks like a reference.
/** `${…}` in files: an export that is imported again gives the same secrets, with and without its references. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { hostileText, hostileValues } from '../../../../../test/hostile-text.ts'
import { times } from '../../../../../test/tier.ts'
import { parsePieces, readReference } from '../reference/reference.ts'
import { formatLines, type ImportFormat, parseEntries } from './format.ts'

const formats = ['dotenv', 'json', 'yaml', 'csv'] as const satisfies readonly ImportFormat[]

/** Pieces that make references, escapes and what is nearly one. */
const pieces = [
  '${A}',
  '${production.A}',
  '$${A}',
  '${',
  '$',
  '{A}',
  '\\',
  "'",
  '"',
  '`',
  '\n',
  '${A:-b}',
  '$(id)',
  '${A$',
  'u0024',
]
const referring = fc.oneof(
  hostileText,
  fc.array(fc.oneof(fc.constantFrom(...pieces), hostileText), { maxLength: 8 }).map((parts) => parts.join('')),
)
const fixed = [...hostileValues, ...pieces, ...pieces.flatMap((one) => pieces.map((other) => one + other))]

const write = (format: ImportFormat, value: string, isResolved: boolean) =>
  [...formatLines(format, [{ key: 'A', value }], { name: 'test', isResolved }).lines].join('')
const read = (format: ImportFormat, file: string, isLiteral = false) =>
  parseEntries(format, file, { isLiteral })[0]?.value ?? 'absent'
/** The text that a read with `resolve` returns if no reference can be resolved, marked where a reference is left. */
const resolved = (stored: string) =>
  parsePieces(stored, readReference).map((piece) => (typeof piece === 'string' ? piece : { piece }))

describe.each(formats)('%s', (format) => {
  const check = (property: (value: string) => void) => {
    fixed.forEach(property)
    fc.assert(fc.property(referring, property), { numRuns: times(500, 20_000) })
  }

  test('returns the stored text, references and escapes alike', () => {
    check((value) => {
      expect(read(format, write(format, value, false))).toBe(value)
    })
  })

  test('returns resolved text as text, if it is imported as literal', () => {
    check((value) => {
      expect(resolved(read(format, write(format, value, true), true))).toEqual([value])
    })
  })
})

test('a resolved dotenv file needs no choice: it says itself what is text', () => {
  for (const value of fixed) expect(resolved(read('dotenv', write('dotenv', value, true)))).toEqual([value])
  fc.assert(
    fc.property(referring, (value) => {
      expect(resolved(read('dotenv', write('dotenv', value, true)))).toEqual([value])
    }),
    { numRuns: times(500, 20_000) },
  )
})

describe('a file of dotenvx', () => {
  const sealed = `encrypted:${Buffer.alloc(113, 4).toString('base64')}`
  const file = `DOTENV_PUBLIC_KEY="02ab"\n\n# .env\nHELLO="${sealed}"\n`

  test.each([file, `A=1\nB=2\nC=3\nHELLO=${sealed}`])('is refused with what to do', (content) => {
    expect(() => parseEntries('dotenv', content)).toThrow(
      /^content: line 4: this value is encrypted by dotenvx: run `dotenvx decrypt`/,
    )
  })

  test('is text in a literal import, and so is a word that is not encrypted', () => {
    expect(read('dotenv', `HELLO=${sealed}`, true)).toBe(sealed)
    expect(read('dotenv', 'A=encrypted:yes')).toBe('encrypted:yes')
  })
})
