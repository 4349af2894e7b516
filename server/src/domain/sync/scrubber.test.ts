import fc from 'fast-check'
import { expect, test } from 'vitest'
import { anyCharacter } from '../../../../test/any-character.ts'
import { times } from '../../../../test/tier.ts'
import { createScrubber } from './scrubber.ts'

const spellings: [string, (secret: string) => string][] = [
  ['unencoded', (secret) => secret],
  ['in JSON', (secret) => JSON.stringify(secret)],
  ['in a URL', (secret) => encodeURIComponent(secret)],
  ['in base64', (secret) => Buffer.from(secret).toString('base64')],
  ['in base64url', (secret) => Buffer.from(secret).toString('base64url')],
  ['in hex', (secret) => Buffer.from(secret).toString('hex')],
]

test.each(spellings)('a value quoted %s by a vendor is hidden', (_title, spell) => {
  const secret = 'p4$$w0rd "with" ünusual\nlines & more'
  const text = createScrubber(['other', secret]).scrub(`The value ${spell(secret)} is not allowed.`)
  expect(text).not.toContain(spell(secret))
  expect(text).toContain('The value ')
  expect(text).toContain(' is not allowed.')
})

test('a truncated value in a vendor message is hidden', () => {
  const secret = 'abcdefghijklmnopqrstuvwxyz0123456789'
  expect(createScrubber([secret]).scrub(`starts with ${secret.slice(0, 20)}… ${secret.slice(0, 15)}`)).toBe(
    'starts with [hidden]… [hidden]',
  )
})

test.each(spellings)('a value quoted %s and truncated by a vendor is hidden', (_title, spell) => {
  const secret = 'p4$$w0rd "with" ünusual\nlines & more'
  const quoted = spell(secret).replace(/^"/, '')
  expect(createScrubber([secret]).scrub(`starts with ${quoted.slice(0, 20)}…`)).toBe('starts with [hidden]…')
})

test.each([
  ['eu-cent', 'no such region eu-central-1 in eu-cent'],
  ['1', 'port 1 or 80 of host 1'],
  ['on', 'value "on" is wrong: once upon'],
  ['seven77', 'seven77'],
])('a value of less than eight characters garbles no sentence: %s', (value, text) => {
  expect(createScrubber([value, value.padEnd(12, '\n')]).scrub(text)).toBe(text)
})

test('no text keeps a secret of eight or more characters', () => {
  fc.assert(
    fc.property(
      fc.string({ minLength: 8, unit: anyCharacter }).filter((secret) => secret.trim().length >= 8),
      fc.string(),
      fc.string(),
      (secret, before, after) => {
        const result = createScrubber([secret]).scrub(`${before}${secret}${after}`)
        expect(result.replaceAll('[hidden]', '')).not.toContain(secret)
      },
    ),
    { numRuns: times(200, 2_000) },
  )
})

test('a secret that becomes known after a text was scrubbed is hidden in the next one', () => {
  const scrubber = createScrubber(['first secret'])
  const text = 'first secret, second secret'
  expect(scrubber.scrub(text)).toBe('[hidden], second secret')
  scrubber.hide(['second secret'])
  expect(scrubber.scrub(text)).toBe('[hidden], [hidden]')
})
