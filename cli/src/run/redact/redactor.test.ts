/** Values in the output of a command: found however the output is cut, and nothing else is touched. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { times } from '../../../../test/tier.ts'
import { formsOf, isHidden } from './forms.ts'
import { createRedactor, type RedactedStream } from './redactor.ts'

const text = (pieces: readonly Buffer[]) => Buffer.concat(pieces).toString('latin1')
const finish = (stream: RedactedStream, chunks: readonly Buffer[]) =>
  text([...chunks.flatMap((chunk) => stream.push(chunk)), ...stream.release()])

function cut(bytes: Buffer, sizes: readonly number[]): Buffer[] {
  const chunks: Buffer[] = []
  let at = 0
  for (const size of sizes) {
    chunks.push(bytes.subarray(at, at + size))
    at += size
  }
  return [...chunks, bytes.subarray(at)]
}

/** Slow and obvious: marks every byte of every occurrence, then replaces each run of occurrences that overlap. */
function expected(bytes: Buffer, forms: readonly Buffer[]): string {
  let shown = ''
  let maskedUntil = 0
  for (let at = 0; at < bytes.length; at++) {
    const lengths = forms
      .filter((form) => bytes.subarray(at, at + form.length).equals(form))
      .map(({ length }) => length)
    if (lengths.length > 0) {
      if (at >= maskedUntil) shown += '***'
      maskedUntil = Math.max(maskedUntil, at + Math.max(...lengths))
    }
    if (at >= maskedUntil) shown += String.fromCharCode(bytes[at] ?? 0)
  }
  return shown
}

// Few letters, so that values overlap, repeat and begin alike.
const word = (minLength: number, maxLength: number) =>
  fc.array(fc.constantFrom(97, 98, 99), { minLength, maxLength }).map((bytes) => Buffer.from(bytes))

test('finds what a search byte by byte finds, however the stream is cut', () => {
  fc.assert(
    fc.property(
      fc.array(word(4, 9), { minLength: 1, maxLength: 6 }),
      fc.array(
        fc.oneof(
          word(0, 12),
          fc.nat(5).map((index) => index),
        ),
        { maxLength: 30 },
      ),
      fc.array(fc.nat(7), { maxLength: 40 }),
      (forms, parts, sizes) => {
        const bytes = Buffer.concat(
          parts.map((part) => (typeof part === 'number' ? (forms[part % forms.length] ?? Buffer.alloc(0)) : part)),
        )
        expect(finish(createRedactor(forms).openStream(), cut(bytes, sizes))).toBe(expected(bytes, forms))
      },
    ),
    { numRuns: times(2_000, 20_000) },
  )
})

test('hides a value inside of what was held back for another', () => {
  const stream = createRedactor([Buffer.from('abcdefghij'), Buffer.from('cdefg')]).openStream()
  expect(text(stream.push(Buffer.from('-abcdefgh')))).toBe('-')
  expect(text(stream.release())).toBe('ab***h')
  expect(text(stream.push(Buffer.from('ij-')))).toBe('***-')
})

test('shows what was held back, and still hides the rest of a value', () => {
  const stream = createRedactor([Buffer.from('password-1')]).openStream()
  expect(text(stream.push(Buffer.from('Your pass')))).toBe('Your ')
  expect(stream.heldAt()).toBe(5)
  expect(text(stream.release())).toBe('pass')
  expect(stream.heldAt()).toBeUndefined()
  expect(text(stream.push(Buffer.from('word-1, ok')))).toBe('***, ok')
  expect(text(stream.push(Buffer.from(' pass')))).toBe(' ')
  expect(text(stream.release())).toBe('pass')
  expect(text(stream.push(Buffer.from('port')))).toBe('port')
})

describe('a value is hidden', () => {
  const value = 'p@ss "w/ord+é?>\\ 42'
  const redact = (output: string) => finish(createRedactor(formsOf([value])).openStream(), [Buffer.from(output)])

  test.each([
    ['as it is', value],
    ['in JSON', JSON.stringify(value).slice(1, -1)],
    ['in a URL', encodeURIComponent(value)],
    ['in a URL with small letters', encodeURIComponent(value).replace(/%../g, (code) => code.toLowerCase())],
    ['in a form', encodeURIComponent(value).replaceAll('%20', '+')],
    ['in hex', Buffer.from(value).toString('hex')],
    ['in hex with capitals', Buffer.from(value).toString('hex').toUpperCase()],
    ['in JSON of Python', 'p@ss \\"w/ord+\\u00e9?>\\\\ 42'],
    ['in JSON of PHP', 'p@ss \\"w\\/ord+\\u00e9?>\\\\ 42'],
    ['in JSON of Go', 'p@ss \\"w/ord+é?\\u003e\\\\ 42'],
    ['in the path of a URL', 'p%40ss%20%22w/ord%2B%C3%A9%3F%3E%5C%2042'],
    ['as the password of a URL', 'p%40ss%20%22w%2Ford+%C3%A9%3F%3E%5C%2042'],
  ])('%s', (_, form) => {
    expect(redact(`<${form}>`)).toBe('<***>')
  })

  test.each([
    ['JavaScript', 'Pa!ss(w0rd)~*'],
    ['Python', 'Pa%21ss%28w0rd%29~%2A'],
    ['URLSearchParams', 'Pa%21ss%28w0rd%29%7E*'],
    ['PHP', 'Pa%21ss%28w0rd%29%7E%2A'],
  ])('in a URL of %s, with signs that others leave as they are', (_, form) => {
    const stream = createRedactor(formsOf(['Pa!ss(w0rd)~*'])).openStream()
    expect(finish(stream, [Buffer.from(`<${form}>`)])).toBe('<***>')
  })

  test.each([64, 76])('in base64 with lines of %i characters', (width) => {
    const long = Array.from({ length: 40 }, (_, index) => `part${index}`).join(' ')
    const encoded = Buffer.from(`${long}\n`).toString('base64')
    const printed = encoded.replace(new RegExp(`.{${width}}`, 'g'), '$&\n')
    const shown = finish(createRedactor(formsOf([long])).openStream(), [Buffer.from(printed)])
    expect(shown).toMatch(/^(\*\*\*\n)+(\*\*\*)?[\w=]{0,4}$/)
  })

  test.each(['hex', 'HEX'])('in %s with the lines of xxd -p', (spelling) => {
    const long = Array.from({ length: 40 }, (_, index) => `part${index}`).join(' ')
    const hex = Buffer.from(`${long}\n`).toString('hex')
    const printed = (spelling === 'HEX' ? hex.toUpperCase() : hex).replace(/.{60}/g, '$&\n')
    const shown = finish(createRedactor(formsOf([long])).openStream(), [Buffer.from(printed)])
    expect(shown).toMatch(/^(\*\*\*\n)+(\*\*\*)?(0[aA])?\n?$/)
  })

  test.each(['', 'u:', 'user:', 'name:'])('in base64 after `%s`', (before) => {
    for (const encoding of ['base64', 'base64url'] as const) {
      const encoded = Buffer.from(`${before}${value}`).toString(encoding)
      const shown = redact(`<${encoded}>`)
      expect(shown).toContain('***')
      expect(shown.length).toBeLessThan(before.length * 2 + 12)
    }
  })

  test('line by line, without the frame of a key', () => {
    const key = '-----BEGIN KEY-----\nMIIEvQIBADAN\nBgkqhkiG9w0B\n-----END KEY-----\n'
    const stream = createRedactor(formsOf([key])).openStream()
    expect(finish(stream, [Buffer.from('log: BgkqhkiG9w0B\n-----BEGIN KEY-----\n')])).toBe(
      'log: ***\n-----BEGIN KEY-----\n',
    )
  })
})

test.each(['', 'test', '12345', 'true', 'false', '1234567890', '-12345.678', '10.20.30'])(
  '`%s` is not hidden',
  (value) => {
    expect(isHidden(value)).toBe(false)
  },
)
