import { expect, test } from 'vitest'
import { setBounded } from './bounded-map.ts'

test('a full map evicts the entry that was set longest ago; a map with room evicts nothing', () => {
  const map = new Map<string, number>()
  for (const [value, key] of ['a', 'b', 'a', 'c'].entries()) setBounded(map, 2, key, value)
  expect([...map]).toEqual([
    ['a', 2],
    ['c', 3],
  ])
})
