import { createHmac } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { times } from '../../../test/tier.ts'
import { newKey } from './envelope.ts'
import { newId } from './id.ts'
import { createRootKey, masterWrapKey } from './keyring.ts'
import { bearerKind, createBearer, hashBearer, invitePrefix, sessionPrefix, tokenPrefix } from './token.ts'

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const prefixes = [tokenPrefix, sessionPrefix, invitePrefix] as const

/** CRC-32 (IEEE 802.3) bit by bit: a reference for the implementation under test. */
function crc32(text: string): number {
  let rest = 0xffff_ffff
  for (const byte of Buffer.from(text)) {
    rest ^= byte
    for (let bit = 0; bit < 8; bit++) rest = rest & 1 ? (rest >>> 1) ^ 0xedb8_8320 : rest >>> 1
  }
  return (rest ^ 0xffff_ffff) >>> 0
}

function checksumOf(body: string): string {
  const digits = Array.from({ length: 6 }, (_, at) => alphabet.charAt(Math.floor(crc32(body) / 62 ** (5 - at)) % 62))
  return digits.join('')
}

test('the reference implementation in this test is CRC-32', () => {
  expect(crc32('123456789')).toBe(0xcbf4_3926)
})

describe.each(prefixes)('%s', (prefix) => {
  test('is followed by 30 random characters and 6 of CRC-32, all base62', () => {
    for (let round = 0; round < 500; round++) {
      const value = createBearer(prefix)
      expect(value).toMatch(new RegExp(`^${prefix}[0-9A-Za-z]{36}$`))
      expect(value.slice(-6)).toBe(checksumOf(value.slice(0, -6)))
      expect(bearerKind(value)).toBe(prefix)
    }
  })

  test('is accepted with the right checksum only', () => {
    const body = fc.string({ unit: fc.constantFrom(...alphabet), minLength: 30, maxLength: 30 })
    const checksum = fc.string({ unit: fc.constantFrom(...alphabet), minLength: 6, maxLength: 6 })
    fc.assert(
      fc.property(body, checksum, (random, other) => {
        const right = checksumOf(prefix + random)
        expect(bearerKind(prefix + random + right)).toBe(prefix)
        expect(bearerKind(prefix + random + other)).toBe(other === right ? prefix : undefined)
      }),
      { numRuns: times(200, 2_000) },
    )
  })

  /** The first word of a token is configurable, so the checksum does not cover it. */
  const fixedFrom = prefix === tokenPrefix ? 'cof'.length : 0

  test('is refused with any one character changed', () => {
    const value = createBearer(prefix)
    const characters = `${alphabet}_-+/=. \u00e9`
    for (let at = fixedFrom; at < value.length; at++) {
      for (const character of characters) {
        if (character === value.charAt(at)) continue
        expect(bearerKind(value.slice(0, at) + character + value.slice(at + 1))).toBeUndefined()
      }
    }
  })

  test('is refused with two neighbours swapped, or one character lost or doubled', () => {
    const value = createBearer(prefix)
    for (let at = fixedFrom; at < value.length - 1; at++) {
      const [one, other] = [value.charAt(at), value.charAt(at + 1)]
      if (one !== other) expect(bearerKind(value.slice(0, at) + other + one + value.slice(at + 2))).toBeUndefined()
      expect(bearerKind(value.slice(0, at) + value.slice(at + 1))).toBeUndefined()
      expect(bearerKind(value.slice(0, at) + one + value.slice(at))).toBeUndefined()
    }
  })
})

test('the checksum covers the prefix: a token is not accepted as a session', () => {
  const body = createBearer(tokenPrefix).slice(tokenPrefix.length)
  expect(bearerKind(sessionPrefix + body)).toBeUndefined()
})

test('a token may start with any word of 2 to 12 letters and digits, and its hash ignores that word', () => {
  const root = createRootKey(newId(), masterWrapKey(newKey())).root
  const value = createBearer(tokenPrefix)
  const rest = value.slice('cof'.length)
  for (const word of ['ab', 'acme', '4x', 'ey', 'live', 'abcdefghij12']) {
    expect(bearerKind(word + rest), word).toBe(tokenPrefix)
    expect(hashBearer(root, word + rest).equals(hashBearer(root, value)), word).toBe(true)
  }
  for (const word of ['', 'a', 'abcdefghijklm', 'Acme', 'a-b', 'a_b', 'é€', ' cof', 'cof_live_cof']) {
    expect(bearerKind(word + rest), word).toBeUndefined()
  }
  const session = createBearer(sessionPrefix)
  expect(bearerKind(`acme${session.slice('cof'.length)}`)).toBeUndefined()
})

test.each([
  ['nothing', ''],
  ['only a prefix', tokenPrefix],
  ['unrelated text', 'Bearer'],
  ['another prefix', createBearer(tokenPrefix).replace('cof_live_', 'cof_test_')],
  ['an upper-case prefix', createBearer(tokenPrefix).replace('cof_', 'COF_')],
  ['a leading space', ` ${createBearer(tokenPrefix)}`],
  ['a trailing line break', `${createBearer(tokenPrefix)}\n`],
  ['a trailing NUL', `${createBearer(tokenPrefix)}\0`],
  ['two tokens in a row', createBearer(tokenPrefix) + createBearer(tokenPrefix)],
  ['10 kB', tokenPrefix + 'a'.repeat(10_000)],
])('refuses %s', (_what, value) => {
  expect(bearerKind(value)).toBeUndefined()
})

test('refuses any text that is not a generated credential', () => {
  fc.assert(
    fc.property(fc.string({ maxLength: 60 }), fc.constantFrom('', ...prefixes), (text, prefix) => {
      expect(bearerKind(prefix + text)).toBeUndefined()
    }),
    { numRuns: times(200, 2_000) },
  )
})

test('every character of the alphabet is equally likely in every position', () => {
  const values = Array.from({ length: 6_200 }, () => createBearer(tokenPrefix).slice(tokenPrefix.length, -6))
  expect(new Set(values).size).toBe(values.length)
  // Chi-squared with 61 degrees of freedom exceeds 170 once in 10^11 times.
  const chiSquared = (characters: string) => {
    const counts = Map.groupBy(characters, (character) => character)
    const expected = characters.length / 62
    return [...alphabet].reduce((sum, c) => sum + ((counts.get(c)?.length ?? 0) - expected) ** 2 / expected, 0)
  }
  expect(chiSquared(values.join(''))).toBeLessThan(170)
  for (let at = 0; at < 30; at++) expect(chiSquared(values.map((value) => value.charAt(at)).join(''))).toBeLessThan(170)
})

test('the stored hash is an HMAC under the root, and differs for every root and every value', () => {
  const master = masterWrapKey(newKey())
  const root = createRootKey(newId(), master).root
  const value = createBearer(tokenPrefix)
  expect(hashBearer(root, value).equals(createHmac('sha256', root.token).update(value).digest())).toBe(true)
  expect(hashBearer(root, value).equals(hashBearer(createRootKey(newId(), master).root, value))).toBe(false)
  expect(hashBearer(root, value).equals(hashBearer(root, createBearer(tokenPrefix)))).toBe(false)
})
