import { expect, test } from 'vitest'
import { createLateTurns, createRoom, createTurns } from './turns.ts'

test('so many run at a time, so many wait, and the rest is refused at once', async () => {
  const inTurn = createTurns(2, 3)
  let running = 0
  let most = 0
  const finish: (() => void)[] = []
  const work = async () => {
    most = Math.max(most, ++running)
    await new Promise<void>((resolve) => finish.push(resolve))
    running--
    return 'done'
  }
  const results = Array.from({ length: 8 }, () => inTurn(work).catch((error) => error.code))
  for (let turn = 0; turn < 5; turn++) {
    await new Promise((resolve) => setImmediate(resolve))
    finish.shift()?.()
  }
  expect(await Promise.all(results)).toEqual([...Array(5).fill('done'), ...Array(3).fill('overloaded')])
  expect(most).toBe(2)
})

test('one that fails gives its turn on', async () => {
  const inTurn = createTurns(1, 10)
  const order: number[] = []
  const results = await Promise.allSettled(
    [1, 2, 3].map((at) =>
      inTurn(async () => {
        order.push(at)
        if (at === 2) throw new Error('failed')
      }),
    ),
  )
  expect(order).toEqual([1, 2, 3])
  expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
  await inTurn(async () => order.push(4))
  expect(order).toEqual([1, 2, 3, 4])
})

test('a late turn is taken once however often, when it is needed, and ends with the work', async () => {
  const inLateTurn = createLateTurns(1, 1)
  const order: string[] = []
  const work = (name: string, isCostly: boolean) =>
    inLateTurn(async (turn) => {
      if (isCostly) for (let time = 0; time < 3; time++) await turn.take()
      order.push(`${name} begins`)
      await new Promise((resolve) => setImmediate(resolve))
      order.push(`${name} ends`)
      if (name === 'first') throw new Error('failed')
    })
  const works = [work('first', true), work('second', true), work('third', true), work('cheap', false)]
  const results = await Promise.allSettled(works)
  expect(results.map(({ status }) => status)).toEqual(['rejected', 'fulfilled', 'rejected', 'fulfilled'])
  expect(results[2]).toMatchObject({ reason: { code: 'overloaded' } })
  expect(order.filter((step) => !step.startsWith('cheap'))).toEqual([
    'first begins',
    'first ends',
    'second begins',
    'second ends',
  ])
  expect(order.indexOf('cheap begins')).toBeLessThan(order.indexOf('second begins'))
})

test('who waits for room too long is refused, and the room that comes free later is handed to the next', async () => {
  const room = createRoom(1, { patienceMs: 20 })
  await room.enter()
  const impatient = room.enter()
  await expect(impatient).rejects.toMatchObject({ code: 'unavailable' })
  const next = room.enter()
  room.leave()
  await next
  room.leave()
  expect(room.enter()).toBeUndefined()
})
