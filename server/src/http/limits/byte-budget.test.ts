import { beforeEach, expect, test } from 'vitest'
import { yieldToEventLoop } from '../../event-loop.ts'
import { isFailure } from '../../failure.ts'
import { type ByteBudget, createByteBudget, type Holder, type Reservation } from './byte-budget.ts'

const mebibyte = 1024 * 1024
const all = 64 * mebibyte
const [half, quarter, eighth] = [all / 2, all / 4, all / 8]

let at = 0
let budget: ByteBudget
let ended: string[]

beforeEach(() => {
  at = 0
  ended = []
  budget = createByteBudget(all, { stalledMs: 1_000, waitMs: 10_000, now: () => at })
})

const person = (client: string, workspace = `${client}'s`): Holder => ({ client, workspace, hasCredential: true })
const stranger = (client: string): Holder => ({ client, workspace: undefined, hasCredential: false })

/** A transfer that has begun; its name is added to `ended` when the budget ends it. */
function transfer(holder: Holder, bytes: number, name = holder.client): Reservation {
  const reservation = budget.take(holder, bytes)
  reservation.begin(() => ended.push(name))
  return reservation
}

const refusal = (work: () => unknown): boolean => {
  try {
    work()
    return false
  } catch (error) {
    if (isFailure(error, 'overloaded')) return true
    throw error
  }
}

test('one client holds at most half, but a single transfer is always admitted', () => {
  transfer(person('ann'), half + eighth)
  expect(refusal(() => transfer(person('ann'), 1))).toBe(true)
  expect(refusal(() => budget.requireRoom(person('ann')))).toBe(true)
  expect(refusal(() => transfer(person('bob'), eighth))).toBe(false)
})

test('anonymous clients of any number of networks share half; the rest is for clients with a credential', () => {
  for (let network = 0; network < 32; network++) transfer(stranger(`n${network}`), mebibyte)
  expect(refusal(() => transfer(stranger('another'), mebibyte))).toBe(true)
  expect(refusal(() => budget.requireRoom(stranger('another')))).toBe(true)
  expect(refusal(() => transfer(person('ann'), half))).toBe(false)
  expect(ended).toEqual([])
})

test('stalled responses to anonymous clients are ended for a client with a credential', async () => {
  for (let network = 0; network < 64; network++) {
    budget.takeAnyway(stranger(`n${network}`), mebibyte).begin(() => ended.push('stranger'))
  }
  const waiting = budget.wait(person('ann'), 2 * mebibyte)
  at += 1_000
  await waiting
  expect(ended).toEqual(['stranger', 'stranger'])
})

test('a stalled transfer keeps its reservation while there is enough budget', () => {
  transfer(person('ann'), half)
  at += 300_000
  transfer(person('bob'), half)
  expect(ended).toEqual([])
})

test('a full budget ends stalled transfers: anonymous first, then of the largest holder, longest stalled first', () => {
  transfer(person('ann'), eighth)
  at += 500
  for (const name of ['bob1', 'bob2', 'bob3']) transfer(person('bob'), eighth, name)
  for (const network of ['n1', 'n2', 'n3', 'n4']) transfer(stranger(network), eighth)
  at += 1_000
  for (const who of ['eve', 'fay', 'gus', 'hal', 'ian']) {
    expect(refusal(() => budget.take(person(who), eighth))).toBe(false)
  }
  expect(ended).toEqual(['n1', 'n2', 'n3', 'n4', 'bob1'])
})

test('a request waits for a transfer to stall or to end, and is rejected if neither happens', async () => {
  const ann = transfer(person('ann'), half)
  const bob = transfer(person('bob'), half)
  const keepMoving = () => [ann, bob].map((reservation) => reservation.moved(4 * mebibyte))
  const refused = budget.wait(person('eve'), quarter).catch((error: unknown) => isFailure(error, 'overloaded'))
  for (let second = 0; second < 10; second++) {
    at += 1_000
    keepMoving()
  }
  expect(await refused).toBe(true)
  const waiting = budget.wait(person('eve'), quarter)
  ann.release()
  await waiting
  const stalling = budget.wait(person('fay'), half)
  at += 999
  bob.release()
  await stalling
  expect(ended).toEqual([])
})

test('a trickle of bytes counts as stalled', async () => {
  const [slow, fast] = [transfer(person('slow'), half), transfer(person('fast'), half)]
  const waiting = budget.wait(person('eve'), quarter)
  for (let step = 0; step < 10; step++) {
    at += 100
    slow.moved(1_000)
    fast.moved(mebibyte)
  }
  await waiting
  expect(ended).toEqual(['slow'])
})

test('a client over its share loses a transfer to a waiting client, even a fast one', async () => {
  const reservations = ['one', 'two'].flatMap((who) =>
    Array.from({ length: 4 }, (_, at) => transfer(person(who), eighth, `${who} ${at}`)),
  )
  const waiting = budget.wait(person('eve'), eighth)
  for (let step = 0; step < 10; step++) {
    at += 100
    for (const reservation of reservations) reservation.moved(mebibyte)
  }
  await waiting
  expect(ended).toHaveLength(1)
})

test('a workspace over its share loses a transfer to a waiting one, even if each member holds little', async () => {
  const reservations = Array.from({ length: 16 }, (_, at) => transfer(person(`member ${at}`, 'crowd'), 4 * mebibyte))
  const other = budget.wait(person('eve', 'other'), 4 * mebibyte)
  for (let step = 0; step < 10; step++) {
    at += 100
    for (const reservation of reservations) reservation.moved(mebibyte)
  }
  await other
  expect(ended).toHaveLength(1)
})

test('a client over its share never ends the transfers of smaller holders, even stalled ones', async () => {
  transfer(person('ann'), quarter)
  for (const who of ['bob', 'cid', 'dan', 'eve', 'fay', 'gus']) transfer(person(who), eighth)
  at += 1_000
  expect(refusal(() => budget.take(person('ann'), eighth))).toBe(false)
  expect(ended).toEqual(['ann'])
})

test('a workspace over its share ends a transfer for a member that holds nothing', () => {
  for (let at = 0; at < 16; at++) transfer(person(`member ${at}`, 'crowd'), 4 * mebibyte)
  at += 1_000
  expect(refusal(() => budget.take(person('eve', 'crowd'), 4 * mebibyte))).toBe(false)
  expect(ended).toHaveLength(1)
})

test('an anonymous client never ends a transfer of a client with a credential', () => {
  transfer(person('ann'), half)
  transfer(person('bob'), half)
  at += 1_000
  expect(refusal(() => transfer(stranger('n1'), mebibyte))).toBe(true)
  expect(ended).toEqual([])
})

test('a reservation whose transfer has not begun is never ended', () => {
  budget.take(person('ann'), half)
  budget.take(person('bob'), half)
  at += 100_000
  expect(refusal(() => budget.take(person('eve'), mebibyte))).toBe(true)
})

test('waiting clients that claim most are rejected first in a full queue, and served last', async () => {
  const reservations = [transfer(person('ann'), half), transfer(person('bob'), half)]
  const served: string[] = []
  const wait = (who: string, name = who) =>
    budget.wait(person(who), eighth).then(
      () => served.push(name),
      () => served.push(`${name} refused`),
    )
  const greedy = Array.from({ length: 4 }, (_, at) => wait('greedy', `greedy ${at}`))
  const others = ['a', 'b', 'c', 'd', 'e'].map((who) => wait(who))
  // By then, all of them are waiting.
  await yieldToEventLoop()
  for (const reservation of reservations) reservation.release()
  await Promise.all([...greedy, ...others])
  expect(served).toEqual(['greedy 3 refused', 'a', 'b', 'c', 'd', 'e', 'greedy 0', 'greedy 1', 'greedy 2'])
})

test('a body with several reservations is ended once, and each waiting client gets its reservation once', async () => {
  const reservations = [budget.take(person('slow'), quarter), budget.take(person('slow'), quarter)]
  const releaseAll = () => {
    for (const reservation of reservations) reservation.release()
  }
  for (const reservation of reservations) reservation.begin(releaseAll)
  const fast = transfer(person('fast'), half)
  const waiting = [budget.wait(person('eve'), eighth), budget.wait(person('fay'), eighth)]
  at += 1_000
  fast.moved(half)
  for (const reservation of [fast, ...(await Promise.all(waiting))]) reservation.release()
  // The whole budget is free again: two clients each get half.
  expect(refusal(() => transfer(person('ann'), half))).toBe(false)
  expect(refusal(() => transfer(person('bob'), half))).toBe(false)
  expect(ended).toEqual([])
})
