/** A choice of rows in which every two features that some row has together still meet. */
import { type Dice, shuffled } from './dice.ts'

export function choosePairwise<Row>(
  rows: readonly Row[],
  featuresOf: (row: Row) => readonly string[],
  dice: Dice,
): Row[] {
  // Numbers instead of texts: there are hundreds of thousands of pairs.
  const numbers = new Map<string, number>()
  const numberOf = (feature: string) => {
    const number = numbers.get(feature) ?? numbers.size
    numbers.set(feature, number)
    return number
  }
  const met = new Set<number>()
  return shuffled(rows, dice).filter((row) => {
    const features = featuresOf(row).map(numberOf)
    const before = met.size
    for (const [index, one] of features.entries()) {
      for (const other of features.slice(index + 1)) met.add(one * maxFeatures + other)
    }
    return met.size > before
  })
}

const maxFeatures = 1_000_000
