import { expect, test } from 'vitest'
import { createRecordLimit } from './record-limit.ts'

const limit = { max: 20, windowMs: 60_000 }

test('a workspace records the first twenty of a minute, independently of other workspaces', () => {
  let now = 0
  const refusals = createRecordLimit(() => now, limit)
  const admitted = (workspace: string, count: number) =>
    Array.from({ length: count }, () => refusals.admit(workspace)).filter(Boolean).length
  expect(admitted('a', 100)).toBe(20)
  expect(admitted('b', 5)).toBe(5)
  now += 59_999
  expect(admitted('a', 5)).toBe(0)
  now += 1
  expect(refusals.admit('a')).toEqual({ unrecorded: 85 })
  expect(refusals.admit('a')).toEqual({ unrecorded: 0 })
})

test('a workspace records again after the clock is set back', () => {
  let now = 24 * 60 * 60_000
  const refusals = createRecordLimit(() => now, limit)
  for (let index = 0; index < 25; index++) refusals.admit('a')
  now = 0
  expect(refusals.admit('a')).toEqual({ unrecorded: 5 })
})

test('the number of counted workspaces is bounded', () => {
  const refusals = createRecordLimit(() => 0, limit)
  for (let index = 0; index < 20; index++) refusals.admit('first')
  for (let index = 0; index < 10_000; index++) refusals.admit(`other ${index}`)
  // The oldest counter was evicted.
  expect(refusals.admit('first')).toEqual({ unrecorded: 0 })
})

test('the number of unrecorded entries is reported once, when the window has ended', () => {
  let now = 0
  const refusals = createRecordLimit(() => now, limit)
  for (let index = 0; index < 25; index++) refusals.admit('a')
  refusals.skip('a')
  expect(refusals.takeUnrecorded('a')).toBe(0)
  now += 60_000
  expect(refusals.takeUnrecorded('a')).toBe(6)
  expect(refusals.takeUnrecorded('a')).toBe(0)
  expect(refusals.admit('a')).toEqual({ unrecorded: 0 })
})
