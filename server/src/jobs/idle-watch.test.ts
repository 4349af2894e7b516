import { expect, test } from 'vitest'
import { createIdleWatch, lookMs } from './memory.ts'

const mebibyte = 1024 * 1024

/** A process that works and takes memory as it is told; a release leaves 100 MiB. */
function watch() {
  const process = { cpuMs: 0, elapsedMs: 0, residentBytes: 100 * mebibyte }
  let releases = 0
  const look = createIdleWatch(
    () => {
      releases++
      // More than an idle service takes between two looks.
      process.cpuMs += 1_000
      process.residentBytes = 100 * mebibyte
    },
    () => ({ ...process }),
  )
  return {
    grow: (mebibytes: number) => {
      process.residentBytes += mebibytes * mebibyte
    },
    countReleases: (...cpuMs: number[]) => {
      const before = releases
      for (const ms of cpuMs) {
        process.cpuMs += ms
        process.elapsedMs += lookMs
        look()
      }
      return releases - before
    },
  }
}
const idle = Array<number>(100).fill(10)

test('memory is returned once after the start, and once each time it has grown', () => {
  const { grow, countReleases } = watch()
  expect(countReleases(1_000)).toBe(0)
  expect(countReleases(10)).toBe(1)
  expect(countReleases(...idle)).toBe(0)
  grow(50)
  expect(countReleases(4_000)).toBe(0)
  expect(countReleases(10)).toBe(1)
  expect(countReleases(...idle)).toBe(0)
})

test('neither work without growth nor a little growth is worth a release', () => {
  const { grow, countReleases } = watch()
  expect(countReleases(...idle)).toBe(1)
  expect(countReleases(4_000, ...idle)).toBe(0)
  grow(5)
  expect(countReleases(...idle)).toBe(0)
})

test('a service with few requests is not stopped again and again', () => {
  const { grow, countReleases } = watch()
  expect(countReleases(...idle)).toBe(1)
  let releases = 0
  // Half an hour.
  for (let look = 0; look < 120; look++) {
    grow(10)
    releases += countReleases(600)
  }
  expect(releases).toBe(3)
})

test('a service with work in between is not idle', () => {
  const { countReleases } = watch()
  expect(countReleases(...Array<number>(50).fill(1_000))).toBe(0)
})
