import { expect, test } from 'vitest'
import { createRecordLimit } from './record-limit.ts'

const limit = { max: 20, windowMs: 60_000 }

test('a workspace keeps the first twenty of a minute, whatever another one does', () => {
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

test('a clock that is set back does not silence a workspace', () => {
  let now = 24 * 60 * 60_000
  const refusals = createRecordLimit(() => now, limit)
  for (let index = 0; index < 25; index++) refusals.admit('a')
  now = 0
  expect(refusals.admit('a')).toEqual({ unrecorded: 5 })
})

test('what is counted does not grow without end', () => {
  const refusals = createRecordLimit(() => 0, limit)
  for (let index = 0; index < 20; index++) refusals.admit('first')
  for (let index = 0; index < 10_000; index++) refusals.admit(`other ${index}`)
  // Forgotten by now.
  expect(refusals.admit('first')).toEqual({ unrecorded: 0 })
})

test('what was not recorded is told once, when the window is over', () => {
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
