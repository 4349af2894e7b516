import { expect, test } from 'vitest'
import { createKeyedSlots, createSlotPool, type Slot } from './pool.ts'

const codeOf = (error: unknown) => (error instanceof Error && 'code' in error ? error.code : error)

test('a request beyond the running and waiting limits is rejected at once', async () => {
  const pool = createSlotPool({ running: 2, waiting: 3 })
  const results = Array.from({ length: 8 }, () => pool.acquire(['one']))
  const refused = await Promise.all(results.slice(5).map((result) => result.catch(codeOf)))
  expect(refused).toEqual(Array(3).fill('overloaded'))
  expect(pool.waiting).toBe(3)
  const order = results.slice(0, 5)
  for (const result of order) (await result).release()
  expect(pool.isIdle).toBe(true)
})

test('a new client gets into a queue filled by another, and is served after one more of its requests', async () => {
  const pool = createSlotPool({ running: 1, waiting: 4 })
  const held = await pool.acquire(['greedy'])
  const greedy = Array.from({ length: 4 }, () => pool.acquire(['greedy']).catch(codeOf))
  const newcomer = pool.acquire(['newcomer'])
  expect(await greedy[3]).toBe('overloaded')
  held.release()
  const [first] = await Promise.all([greedy[0]])
  const served: string[] = []
  newcomer.then(() => served.push('newcomer'))
  greedy[1]?.then(() => served.push('greedy'))
  ;(first as Slot).release()
  ;(await newcomer).release()
  await greedy[1]
  expect(served).toEqual(['newcomer', 'greedy'])
})

test('a party holds at most its share of the slots, so that another starts at once', async () => {
  const pool = createSlotPool({ running: 2, waiting: 8, runningPerParty: 1 })
  const first = await pool.acquire(['a', 'ann'])
  const second = pool.acquire(['a', 'ben'])
  expect(pool.tryAcquire(['a', 'cleo'])).toBeUndefined()
  const other = pool.tryAcquire(['b', 'dan'])
  expect(other).toBeDefined()
  other?.release()
  expect(pool.waiting).toBe(1)
  first.release()
  ;(await second).release()
  expect(pool.isIdle).toBe(true)
})

test('a person holds at most one share of the slots across many workspaces', async () => {
  const pool = createSlotPool({ running: 2, waiting: 8, runningPerParty: 1 })
  const first = await pool.acquire(['a', 'ann'])
  const second = pool.acquire(['b', 'ann'])
  expect(pool.waiting).toBe(1)
  const other = pool.tryAcquire(['c', 'dan'])
  expect(other).toBeDefined()
  other?.release()
  expect(pool.waiting).toBe(1)
  first.release()
  ;(await second).release()
  expect(pool.isIdle).toBe(true)
})

test('slots of different sizes share a pool: one that does not fit waits, and smaller ones are served meanwhile', async () => {
  const pool = createSlotPool({ running: 8, waiting: 8, runningPerParty: 4 })
  const [ann, ben] = [await pool.acquire(['ann'], 4), await pool.acquire(['ben'], 3)]
  const cleo = pool.acquire(['cleo'], 4)
  expect(pool.tryAcquire(['dan'], 2)).toBeUndefined()
  expect([pool.mayHold('ann', 1), pool.mayHold('ben', 1), pool.mayHold('ben', 2)]).toEqual([false, true, false])
  const dan = await pool.acquire(['dan'], 1)
  ben.resize(1)
  expect(pool.waiting).toBe(4)
  ann.release()
  ;(await cleo).release()
  for (const slot of [ben, dan]) slot.release()
  expect(pool.isIdle).toBe(true)
})

test('a party that holds nothing may hold one slot beyond its share', async () => {
  const pool = createSlotPool({ running: 8, runningPerParty: 4 })
  const slot = pool.tryAcquire(['ann'], 6)
  expect(slot).toBeDefined()
  expect(pool.tryAcquire(['ann'], 1)).toBeUndefined()
  slot?.release()
  const beyond = [pool.force(['ann'], 8), pool.force(['ann'], 8)]
  expect(pool.tryAcquire(['ben'], 1)).toBeUndefined()
  for (const slot of beyond) slot.release()
  expect(pool.isIdle).toBe(true)
})

test('releasing a slot again has no effect', async () => {
  const pool = createSlotPool({ running: 1 })
  const slot = await pool.acquire(['a'])
  slot.release()
  slot.release()
  slot.resize(1)
  expect(pool.tryAcquire(['a'])).toBeDefined()
  expect(pool.tryAcquire(['a'])).toBeUndefined()
})

test('a waiter times out, and the slot goes to the next', async () => {
  const pool = createSlotPool({ running: 1, maxWaitMs: 20 })
  const slot = await pool.acquire(['a'])
  await expect(pool.acquire(['a'])).rejects.toMatchObject({ code: 'unavailable' })
  const next = pool.acquire(['a'])
  slot.release()
  ;(await next).release()
  expect(pool.isIdle).toBe(true)
})

test('each key has its own slots', async () => {
  const acquire = createKeyedSlots({ running: 1, waiting: 1 })
  const [a, b] = await Promise.all([acquire('a', ['x']), acquire('b', ['x'])])
  const waiting = acquire('a', ['x'])
  await expect(acquire('a', ['x'])).rejects.toMatchObject({ code: 'overloaded' })
  a.release()
  ;(await waiting).release()
  b.release()
  ;(await acquire('a', ['x'])).release()
})
