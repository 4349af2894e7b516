/** Reproducible random numbers: the same seed gives the same sequence. */
import { randomInt } from 'node:crypto'

/** The seed of this run; tests that use it print it. */
export const seed = Number(process.env.COFFER_TEST_SEED ?? randomInt(2 ** 31))

/** An integer from 0 up to but not including `below`. */
export type Dice = (below: number) => number

/** Mulberry32: small and the same on every machine. */
export function createDice(seed: number): Dice {
  let state = seed
  return (below) => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below
  }
}

export function pick<Item>(list: readonly Item[], dice: Dice): Item {
  const item = list[dice(list.length)]
  if (item === undefined) throw new Error('cannot pick from an empty list')
  return item
}

export function shuffled<Item>(list: readonly Item[], dice: Dice): Item[] {
  return list
    .map((item) => ({ item, rank: dice(1_000_000) }))
    .sort((a, b) => a.rank - b.rank)
    .map(({ item }) => item)
}
