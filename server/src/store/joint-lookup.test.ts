import { expect, test } from 'vitest'
import { createJointLookup } from './joint-lookup.ts'

/** Each load waits until the test answers it. */
function openLookup() {
  const loads: {
    keys: readonly string[]
    resolve(rows: ReadonlyMap<string, string>): void
    reject(error: Error): void
  }[] = []
  const find = createJointLookup<string>((keys) => {
    const { promise, resolve, reject } = Promise.withResolvers<ReadonlyMap<string, string>>()
    loads.push({ keys, resolve, reject })
    return promise
  })
  const nextLoad = (count: number) => expect.poll(() => loads.length).toBe(count)
  return { loads, find, nextLoad }
}

test('lookups of the same moment are one query for their distinct keys, and each finds its own row', async () => {
  const { loads, find, nextLoad } = openLookup()
  const found = Promise.all([find(['a', 'old a']), find(['b']), find(['a']), find(['nobody'])])
  await nextLoad(1)
  expect(loads[0]?.keys).toEqual(['a', 'old a', 'b', 'nobody'])
  loads[0]?.resolve(
    new Map([
      ['old a', 'row of a'],
      ['a', 'newest row of a'],
      ['b', 'row of b'],
    ]),
  )
  expect(await found).toEqual(['newest row of a', 'row of b', 'newest row of a', undefined])
})

test('a lookup that comes while a query is under way has a query of its own', async () => {
  const { loads, find, nextLoad } = openLookup()
  const first = find(['a'])
  await nextLoad(1)
  const second = find(['b'])
  await nextLoad(2)
  expect(loads.map(({ keys }) => keys)).toEqual([['a'], ['b']])
  loads[1]?.resolve(new Map([['b', 'row of b']]))
  expect(await second).toBe('row of b')
  loads[0]?.resolve(new Map([['a', 'row of a']]))
  expect(await first).toBe('row of a')
})

test('a failed query fails its lookups, and the next one succeeds', async () => {
  const { loads, find, nextLoad } = openLookup()
  const failing = Promise.allSettled([find(['a']), find(['b'])])
  await nextLoad(1)
  loads[0]?.reject(new Error('the database is away'))
  expect((await failing).map(({ status }) => status)).toEqual(['rejected', 'rejected'])
  const next = find(['a'])
  await nextLoad(2)
  loads[1]?.resolve(new Map([['a', 'row of a']]))
  expect(await next).toBe('row of a')
})
