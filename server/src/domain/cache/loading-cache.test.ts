import { expect, test } from 'vitest'
import { createLoadingCache } from './loading-cache.ts'

/** A cache whose loads end when the test calls `endLoad`. */
function slowCache(max = 10) {
  const loads: ((value: string) => void)[] = []
  const cache = createLoadingCache<string>(max, () => new Promise((resolve) => void loads.push(resolve)))
  return { cache, loads, endLoad: (index: number, value: string) => loads[index]?.(value) }
}

test.each([
  ['dropped', 'drop'],
  ['cleared', 'clear'],
] as const)('an entry that is %s while it loads is not cached, and the next get loads it again', async (_, forget) => {
  const { cache, endLoad } = slowCache()
  const before = cache.get('a')
  cache[forget]('a')
  const after = cache.get('a')
  endLoad(0, 'as it was before')
  expect(await before).toBe('as it was before')
  expect(cache.peek('a')).toBeUndefined()
  endLoad(1, 'as it is')
  expect(await after).toBe('as it is')
  expect(cache.peek('a')).toBe('as it is')
})

test('concurrent gets share one load', async () => {
  const { cache, loads, endLoad } = slowCache()
  const values = [cache.get('a'), cache.get('a'), cache.get('a')]
  expect(loads).toHaveLength(1)
  endLoad(0, 'once')
  expect(await Promise.all(values)).toEqual(['once', 'once', 'once'])
})

test('a failed load is retried by the next get', async () => {
  let isAway = true
  const cache = createLoadingCache(10, async () => {
    if (isAway) throw new Error('away')
    return 'there'
  })
  await expect(cache.get('a')).rejects.toThrow('away')
  isAway = false
  expect(await cache.get('a')).toBe('there')
})

test('the least recently used entry is evicted first', async () => {
  const cache = createLoadingCache(2, async (key) => key)
  await cache.get('a')
  await cache.get('b')
  cache.peek('a')
  await cache.get('c')
  expect(['a', 'b', 'c'].filter((key) => cache.peek(key))).toEqual(['a', 'c'])
})
