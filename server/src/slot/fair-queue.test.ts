import { expect, test } from 'vitest'
import { createFairQueue, type Parties } from './fair-queue.ts'

function queueOf(maxSize: number, entries: readonly (readonly [entry: string, ...parties: Parties])[]) {
  const queue = createFairQueue<string>(maxSize)
  const dropped = entries.flatMap(([entry, ...parties]) => queue.add(parties, entry))
  return { queue, dropped }
}

function takeAll(queue: { take(): string | undefined }): string[] {
  const taken: string[] = []
  for (let entry = queue.take(); entry !== undefined; entry = queue.take()) taken.push(entry)
  return taken
}

test('parties are served round-robin, and the entries of a party in order of arrival', () => {
  const { queue } = queueOf(10, [
    ['a1', 'a'],
    ['a2', 'a'],
    ['a3', 'a'],
    ['b1', 'b'],
    ['b2', 'b'],
    ['c1', 'c'],
  ])
  expect(takeAll(queue)).toEqual(['a1', 'b1', 'c1', 'a2', 'b2', 'a3'])
})

test('each level is shared separately: a workspace with many people gets no more turns than one with a single person', () => {
  const { queue } = queueOf(10, [
    ['w1 ann 1', 'w1', 'ann'],
    ['w1 ann 2', 'w1', 'ann'],
    ['w1 ben 1', 'w1', 'ben'],
    ['w1 cleo 1', 'w1', 'cleo'],
    ['w2 dan 1', 'w2', 'dan'],
    ['w2 dan 2', 'w2', 'dan'],
  ])
  expect(takeAll(queue)).toEqual(['w1 ann 1', 'w2 dan 1', 'w1 ben 1', 'w2 dan 2', 'w1 cleo 1', 'w1 ann 2'])
})

test('a party that returns is queued behind the waiting parties', () => {
  const { queue } = queueOf(10, [
    ['a1', 'a'],
    ['a2', 'a'],
    ['b1', 'b'],
  ])
  expect([queue.take(), queue.take()]).toEqual(['a1', 'b1'])
  queue.add(['b'], 'b2')
  expect(takeAll(queue)).toEqual(['a2', 'b2'])
})

test('a full queue drops the newest entry of the largest party, on every level', () => {
  const { queue, dropped } = queueOf(4, [
    ['ann 1', 'w1', 'ann'],
    ['ann 2', 'w1', 'ann'],
    ['ann 3', 'w1', 'ann'],
    ['ben 1', 'w1', 'ben'],
    ['dan 1', 'w2', 'dan'],
    ['cleo 1', 'w1', 'cleo'],
  ])
  expect(dropped).toEqual(['ann 3', 'ann 2'])
  expect(queue.size).toBe(4)
  expect(takeAll(queue)).toEqual(['ann 1', 'dan 1', 'ben 1', 'cleo 1'])
})

test('a full queue rejects an entry of the largest party, or of one of equal size', () => {
  const { dropped } = queueOf(2, [
    ['a1', 'a'],
    ['a2', 'a'],
    ['a3', 'a'],
    ['b1', 'b'],
    ['b2', 'b'],
    ['c1', 'c'],
  ])
  expect(dropped).toEqual(['a3', 'a2', 'b2', 'c1'])
})

test('a full queue drops the newest entry of a person who is waiting in many workspaces', () => {
  const { queue, dropped } = queueOf(3, [
    ['ann 1', 'w1', 'ann'],
    ['ann 2', 'w2', 'ann'],
    ['ann 3', 'w3', 'ann'],
    ['ben 1', 'w4', 'ben'],
    ['ann 4', 'w5', 'ann'],
    ['ben 2', 'w6', 'ben'],
  ])
  expect(dropped).toEqual(['ann 3', 'ann 4', 'ben 2'])
  expect(takeAll(queue)).toEqual(['ann 1', 'ann 2', 'ben 1'])
})

test('ineligible parties are skipped and keep their place', () => {
  const { queue } = queueOf(10, [
    ['a1', 'a'],
    ['b1', 'b'],
  ])
  const isEligible = (entry: string) => entry !== 'a1'
  expect(queue.take(isEligible)).toBe('b1')
  expect(queue.take(isEligible)).toBeUndefined()
  expect(queue.take()).toBe('a1')
})

test('an ineligible person is skipped for another of the same workspace, or of the next one', () => {
  const { queue } = queueOf(10, [
    ['ann 1', 'w1', 'ann'],
    ['ben 1', 'w1', 'ben'],
    ['ann 2', 'w2', 'ann'],
    ['cleo 1', 'w3', 'cleo'],
  ])
  const isEligible = (entry: string) => !entry.startsWith('ann')
  expect([queue.take(isEligible), queue.take(isEligible), queue.take(isEligible)]).toEqual([
    'ben 1',
    'cleo 1',
    undefined,
  ])
  expect(queue.size).toBe(2)
  expect(takeAll(queue).toSorted()).toEqual(['ann 1', 'ann 2'])
})

test('an entry is removed once', () => {
  const { queue } = queueOf(10, [
    ['a1', 'a', 'x'],
    ['a2', 'a', 'x'],
  ])
  expect(queue.remove('a1')).toBe(true)
  expect(queue.remove('a1')).toBe(false)
  expect(takeAll(queue)).toEqual(['a2'])
})

test('an entry that is removed unserved leaves its party where it is', () => {
  const { queue } = queueOf(10, [
    ['a1', 'a'],
    ['a2', 'a'],
    ['b1', 'b'],
  ])
  queue.remove('a1')
  expect(takeAll(queue)).toEqual(['a2', 'b1'])
})

test('a full queue drops as many entries as a larger one needs, of the party with the largest sum', () => {
  const queue = createFairQueue<string>(10)
  for (const entry of ['a1', 'a2', 'a3', 'a4']) expect(queue.add(['a'], entry, 2)).toEqual([])
  expect(queue.add(['b'], 'b1', 2)).toEqual([])
  expect(queue.add(['c'], 'c1', 3)).toEqual(['a4', 'a3'])
  expect(queue.add(['b'], 'b2', 8)).toEqual(['b2'])
  expect(queue.size).toBe(9)
  expect(takeAll(queue)).toEqual(['a1', 'b1', 'c1', 'a2'])
})
