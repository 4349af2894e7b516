import { expect, test } from 'vitest'
import { createDiskPace } from './sqlite-disk-pace.ts'

function createDisk() {
  const pace = createDiskPace(0.5)
  let now = 0
  return {
    isQuick: () => pace.isQuick(now),
    rest(ms: number) {
      now += ms
    },
    sync(count: number, ms: number) {
      for (let done = 0; done < count; done++) {
        pace.note(now, now + ms)
        now += ms
      }
    },
  }
}

test.each([
  ['of one second', 1, 1_000],
  ['of a few milliseconds, five in a row', 5, 8],
])('a fast disk still counts as fast after delays %s', (_what, count, ms) => {
  const disk = createDisk()
  expect(disk.isQuick()).toBe(true)
  disk.sync(50, 0.2)
  for (let delay = 0; delay < 10; delay++) {
    disk.sync(count, ms)
    expect(disk.isQuick()).toBe(true)
    disk.sync(100, 0.2)
  }
})

test.each([0.6, 10, 1_000])(
  'a disk that always takes %d ms soon counts as slow, and is tried again each second',
  (ms) => {
    const disk = createDisk()
    disk.sync(60, ms)
    expect(disk.isQuick()).toBe(false)
    disk.rest(1_001)
    expect(disk.isQuick()).toBe(true)
    disk.sync(1, ms)
    expect(disk.isQuick()).toBe(false)
  },
)

test('a slow disk that has become fast counts as fast again', () => {
  const disk = createDisk()
  disk.sync(60, 10)
  for (let second = 0; second < 60; second++) {
    disk.rest(1_001)
    disk.sync(1, 0.2)
  }
  expect(disk.isQuick()).toBe(true)
})
