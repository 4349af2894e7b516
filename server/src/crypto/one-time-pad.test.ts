import fc from 'fast-check'
import { expect, test } from 'vitest'
import { hide, reveal, revealBytes } from './one-time-pad.ts'

test('what is hidden is revealed letter for letter, whatever its length', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', maxLength: 300 }), fc.constantFrom(0, 20_000), (text, padding) => {
      const whole = text + 'x'.repeat(padding)
      expect(reveal(hide(whole))).toBe(whole)
      expect(revealBytes(hide(whole)).toString()).toBe(whole)
    }),
  )
})

test('neither part holds the text, and no two hidings share a pad', () => {
  const text = Buffer.from('a canary of more than a few bytes, twice: a canary of more than a few bytes')
  const [first, second] = [hide(text.toString()), hide(text.toString())]
  for (const { pad, covered } of [first, second]) {
    expect(Buffer.from(pad.buffer).includes(text.subarray(0, 8))).toBe(false)
    expect(Buffer.from(covered.buffer).includes(text.subarray(0, 8))).toBe(false)
  }
  expect(Buffer.compare(Buffer.from(first.pad.buffer), Buffer.from(second.pad.buffer))).not.toBe(0)
})
