import fc from 'fast-check'
import { expect, test } from 'vitest'
import { times } from '../../../test/tier.ts'
import { newId } from './id.ts'

const form = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
const timeOf = (id: string) => Number.parseInt(id.replaceAll('-', '').slice(0, 12), 16)

function expectIncreasing(ids: readonly string[]): void {
  expect(ids.filter((id, at) => at > 0 && id <= (ids[at - 1] ?? ''))).toEqual([])
}

test('an id is a lower-case UUID v7 with its creation time', () => {
  const before = Date.now()
  const id = newId()
  expect(id).toMatch(form)
  expect(timeOf(id)).toBeGreaterThanOrEqual(before)
  expect(timeOf(id)).toBeLessThanOrEqual(Date.now() + 1)
})

test('consecutive ids increase strictly, even within one millisecond', () => {
  const ids = Array.from({ length: 50_000 }, () => newId())
  expectIncreasing(ids)
  expect(ids.filter((id) => !form.test(id))).toEqual([])
})

test('ids increase strictly and stay valid when the clock jumps', () => {
  const start = Date.now()
  const steps = fc.array(fc.integer({ min: -5_000, max: 5_000 }), { minLength: 2, maxLength: 200 })
  fc.assert(
    fc.property(steps, (offsets) => {
      const ids = offsets.map((offset) => newId(start + offset))
      expectIncreasing(ids)
      expect(ids.filter((id) => !form.test(id))).toEqual([])
    }),
    { numRuns: times(200, 2_000) },
  )
})

test('ids of a stopped clock overflow into the next millisecond and never repeat', () => {
  const at = Date.now() + 60_000
  const ids = Array.from({ length: 10_000 }, () => newId(at))
  expectIncreasing(ids)
  expect(new Set(ids.map((id) => id.slice(0, 18))).size).toBe(ids.length)
  expect(timeOf(ids.at(-1) ?? '')).toBeLessThanOrEqual(at + 3)
})

test('the last 62 bits are random and differ between ids of the same millisecond', () => {
  const at = Date.now() + 120_000
  const tails = Array.from({ length: 5_000 }, () => newId(at).slice(19))
  expect(new Set(tails).size).toBe(tails.length)
})
