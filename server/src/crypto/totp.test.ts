import { expect, test } from 'vitest'
import { base32, findTotpStep, hotp, newTotpSecret, otpauthUri, totpSecretBytes, totpStep } from './totp.ts'

/** The secret of the test vectors in both RFCs. */
const secret = Buffer.from('12345678901234567890')

test.each(
  ['755224', '287082', '359152', '969429', '338314', '254676', '287922', '162583', '399871', '520489'].map(
    (code, counter) => [counter, code] as const,
  ),
)('RFC 4226, appendix D: counter %i gives %s', (counter, code) => {
  expect(hotp(secret, counter)).toBe(code)
})

test.each([
  [59, '94287082'],
  [1_111_111_109, '07081804'],
  [1_111_111_111, '14050471'],
  [1_234_567_890, '89005924'],
  [2_000_000_000, '69279037'],
  [20_000_000_000, '65353130'],
])('RFC 6238, appendix B: second %i gives the last six digits of %s', (second, code) => {
  const step = totpStep(second * 1000)
  expect(hotp(secret, step)).toBe(code.slice(2))
  expect(findTotpStep(secret, code.slice(2), second * 1000, -1)).toBe(step)
})

const at = 1_800_000_000_000
const now = totpStep(at)

test.each([
  [-2, undefined],
  [-1, now - 1],
  [0, now],
  [1, now + 1],
  [2, undefined],
])('a code from a clock %i steps off matches step %s', (drift, found) => {
  expect(findTotpStep(secret, hotp(secret, now + drift), at, 0)).toBe(found)
})

test('a code is rejected once its step or a later one was used', () => {
  for (const drift of [-1, 0, 1]) {
    const code = hotp(secret, now + drift)
    expect(findTotpStep(secret, code, at, now + drift - 1)).toBe(now + drift)
    expect(findTotpStep(secret, code, at, now + drift)).toBeUndefined()
    expect(findTotpStep(secret, code, at, now + 1)).toBeUndefined()
  }
})

test.each(['', '1', '12345', '1234567', 'abcdef', '１２３４５６', ' 12345'])('%j is not a valid code', (code) => {
  expect(findTotpStep(secret, code, at, 0)).toBeUndefined()
})

test('a code of the first step of the epoch is accepted', () => {
  expect(findTotpStep(secret, hotp(secret, 0), 0, -1)).toBe(0)
})

test.each([
  ['', ''],
  ['f', 'MY'],
  ['fo', 'MZXQ'],
  ['foo', 'MZXW6'],
  ['foob', 'MZXW6YQ'],
  ['fooba', 'MZXW6YTB'],
  ['foobar', 'MZXW6YTBOI'],
])('RFC 4648: %j is %j in base32', (text, expected) => {
  expect(base32(Buffer.from(text))).toBe(expected)
})

test('a new secret has 160 bits and is never repeated', () => {
  const secrets = Array.from({ length: 100 }, () => newTotpSecret().toString('hex'))
  expect(new Set(secrets).size).toBe(100)
  expect(newTotpSecret()).toHaveLength(totpSecretBytes)
})

test('the URI names issuer and account, and escapes any address', () => {
  const uri = new URL(otpauthUri('Coffer', 'a+b?c&d@example.com', secret))
  expect(uri.href.startsWith('otpauth://totp/Coffer:')).toBe(true)
  expect(decodeURIComponent(uri.pathname)).toContain('Coffer:a+b?c&d@example.com')
  expect(Object.fromEntries(uri.searchParams)).toEqual({
    secret: 'GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ',
    issuer: 'Coffer',
    algorithm: 'SHA1',
    digits: '6',
    period: '30',
  })
})
