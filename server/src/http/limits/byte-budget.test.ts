import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { isFailure } from '../../failure.ts'
import { type ByteBudget, createByteBudget, type Reservation } from './byte-budget.ts'

const mebibyte = 1024 * 1024
const all = 64 * mebibyte
const [half, quarter, eighth] = [all / 2, all / 4, all / 8]

let budget: ByteBudget
let ended: string[]

beforeEach(() => {
  vi.useFakeTimers()
  ended = []
  budget = createByteBudget(all, { stalledMs: 1_000, waitMs: 10_000 })
})
afterEach(() => vi.useRealTimers())

/** A transfer that has begun; when the budget ends it, its name is added to `ended`. */
async function transfer(client: string, bytes: number): Promise<Reservation> {
  const reservation = await budget.reserve([client], bytes)
  reservation.begin(() => {
    ended.push(client)
    reservation.release()
  })
  return reservation
}

const isRefused = (waiting: Promise<unknown>) =>
  waiting.then(
    () => false,
    (error) => isFailure(error, 'overloaded'),
  )

test('one client holds at most half and is refused beyond it at once, but a single transfer is always admitted', async () => {
  await transfer('ann', half + eighth)
  expect(await isRefused(transfer('ann', 1))).toBe(true)
  expect([budget.hasRoom(['ann']), budget.hasRoom(['bob'])]).toEqual([false, true])
  expect(await isRefused(transfer('bob', eighth))).toBe(false)
})

test('anonymous clients of any number of networks share half; the rest is for clients with a credential', async () => {
  for (let network = 0; network < 32; network++) await budget.reserve(['public', `n${network}`], mebibyte)
  expect(budget.hasRoom(['public', 'another'])).toBe(false)
  const another = isRefused(budget.reserve(['public', 'another'], mebibyte))
  expect(await isRefused(budget.reserve(['ann'], half))).toBe(false)
  await vi.advanceTimersByTimeAsync(10_000)
  expect(await another).toBe(true)
})

test('a stalled transfer keeps its reservation while nobody waits, and ends when somebody does', async () => {
  await transfer('ann', half)
  await transfer('bob', half)
  await vi.advanceTimersByTimeAsync(300_000)
  expect(ended).toEqual([])
  const waiting = transfer('eve', quarter)
  await vi.advanceTimersByTimeAsync(200)
  await waiting
  expect(ended).toContain('ann')
})

test('a trickle of bytes counts as stalled', async () => {
  const [slow, fast] = [await transfer('slow', half), await transfer('fast', half)]
  const waiting = transfer('eve', quarter)
  for (let step = 0; step < 11; step++) {
    await vi.advanceTimersByTimeAsync(100)
    slow.moved(1_000)
    fast.moved(mebibyte)
  }
  await waiting
  expect(ended).toEqual(['slow'])
})

test('a request that finds no room is refused after the wait, and leaves the others alone', async () => {
  const both = [await transfer('ann', half), await transfer('bob', half)]
  const refused = isRefused(budget.reserve(['eve'], quarter))
  for (let step = 0; step < 100; step++) {
    await vi.advanceTimersByTimeAsync(100)
    for (const reservation of both) reservation.moved(mebibyte)
  }
  expect(await refused).toBe(true)
  expect(ended).toEqual([])
})

test('clients that wait are served in turn; of those that wait for too many bytes, the largest is refused', async () => {
  const both = [await transfer('ann', half), await transfer('bob', half)]
  const served: string[] = []
  const wait = (name: string, bytes: number) =>
    budget.reserve([name.replace(/ .*/, '')], bytes).then(
      () => served.push(name),
      () => served.push(`${name} refused`),
    )
  const greedy = ['greedy 1', 'greedy 2', 'greedy 3', 'greedy 4'].map((name) => wait(name, eighth))
  const others = ['a', 'b', 'c', 'd', 'e'].map((name) => wait(name, eighth))
  await vi.advanceTimersByTimeAsync(0)
  for (const reservation of both) reservation.release()
  await Promise.all([...greedy, ...others])
  expect(served).toEqual(['greedy 4 refused', 'greedy 1', 'a', 'b', 'c', 'd', 'e', 'greedy 2', 'greedy 3'])
})

test('a reservation whose transfer has not begun, or is over, is never ended', async () => {
  await budget.reserve(['ann'], half)
  const over = await transfer('bob', half)
  over.release()
  await budget.reserve(['bob'], half)
  const refused = isRefused(budget.reserve(['eve'], mebibyte))
  await vi.advanceTimersByTimeAsync(100_000)
  expect(await refused).toBe(true)
  expect(ended).toEqual([])
})

test('a response that must not be refused takes room beyond the budget, and the next ones wait for it', async () => {
  const owed = [half, half, half].map((bytes) => budget.reserveAnyway(['ann'], bytes))
  const waiting = transfer('bob', quarter)
  for (const reservation of owed) reservation.release()
  await waiting
  expect(ended).toEqual([])
})
