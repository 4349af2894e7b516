import { afterEach, expect, test } from 'vitest'
import { createLongWork, createPause, type GiveWay } from './long-work.ts'

/** Turns of the event loop so far. */
let turn = 0
let counter: NodeJS.Immediate | undefined
function countTurns(): void {
  turn++
  counter = setImmediate(countTurns)
}
afterEach(() => clearImmediate(counter))

/** Each look at this clock finds the portion used up. */
function fastClock(): () => number {
  let ms = 0
  return () => (ms += 1_000)
}

type Portion = { readonly worker: number; readonly turn: number }

async function workInPortions(portions: Portion[], worker: number, giveWay: GiveWay): Promise<void> {
  for (let portion = 0; portion < 10; portion++) {
    await giveWay()
    portions.push({ worker, turn })
  }
}

test.each(['whose time is measured', 'without'])(
  'each turn of the event loop has one portion, however many work, and all take turns: %s',
  async (kind) => {
    countTurns()
    const longWork = createLongWork(fastClock())
    const portions: Portion[] = []
    const workers = Array.from({ length: 20 }, async (_, worker) => {
      const { giveWay } = kind === 'without' ? longWork : await longWork.start()
      await workInPortions(portions, worker, giveWay)
    })
    await Promise.all(workers)
    expect(new Set(portions.map((portion) => portion.turn)).size).toBe(200)
    expect(portions.slice(20, 40).map(({ worker }) => worker)).toEqual(Array.from({ length: 20 }, (_, index) => index))
  },
)

test('work that holds a lock gets its portions before all others, which go on after it', async () => {
  const { giveWay, ahead } = createLongWork(fastClock())
  const portions: Portion[] = []
  const others = [0, 1].map((worker) => workInPortions(portions, worker, giveWay))
  const holders = [2, 3].map((worker) => workInPortions(portions, worker, ahead.ahead.giveWay))
  await Promise.all(holders)
  // The two holders end before anybody else has had a portion.
  expect(portions.filter(({ worker }) => worker < 2)).toEqual([])
  expect(portions.slice(0, 4).map(({ worker }) => worker)).toEqual([2, 3, 2, 3])
  await Promise.all(others)
  expect(portions).toHaveLength(40)
})

test('all who work in one turn share its portion', async () => {
  let ms = 0
  const { giveWay } = createLongWork(() => ms)
  const first = giveWay()
  const second = giveWay()
  expect(first).toBeInstanceOf(Promise)
  await first
  ms += 4
  expect(giveWay()).toBeUndefined()
  ms += 1
  expect(giveWay()).toBeInstanceOf(Promise)
  await second
  expect(giveWay()).toBeUndefined()
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

test('a pause is due when steps and their work add up to it', () => {
  const isPause = createPause(100, 10)
  expect([30, 30, 10, 90, 0].map(isPause)).toEqual([false, false, true, true, false])
})
