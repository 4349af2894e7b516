import { expect, test } from 'vitest'
import { createLongWork } from './long-work.ts'

test('each turn of the event loop has one portion, however many work, and all take turns', async () => {
  let turn = 0
  let isOver = false
  const count = () => {
    turn++
    if (!isOver) setImmediate(count)
  }
  setImmediate(count)
  let ms = 0
  // Each look at the clock finds the portion used up.
  const { start } = createLongWork(() => (ms += 1_000))
  const portions: { worker: number; turn: number }[] = []
  const workers = Array.from({ length: 20 }, async (_, worker) => {
    const { giveWay } = await start()
    for (let portion = 0; portion < 10; portion++) {
      portions.push({ worker, turn })
      await giveWay()
    }
  })
  await Promise.all(workers)
  isOver = true
  expect(new Set(portions.map((portion) => portion.turn)).size).toBe(200)
  expect(portions.slice(20, 40).map(({ worker }) => worker)).toEqual(Array.from({ length: 20 }, (_, index) => index))
})

test('a portion that has time left goes on at once, and waits do not count as work', async () => {
  let ms = 0
  const { giveWay, workedMs } = await createLongWork(() => ms).start()
  ms += 4
  expect(giveWay()).toBeUndefined()
  ms += 1
  const waiting = giveWay()
  expect(waiting).toBeInstanceOf(Promise)
  ms += 1_000
  await waiting
  ms += 2
  expect(workedMs()).toBe(7)
})
