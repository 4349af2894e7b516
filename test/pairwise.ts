/** A choice of rows in which every two features that some row has together still meet. */
import { type Dice, shuffled } from './dice.ts'

const maxFeatures = 1_000_000
/** Rows that bring many new pairs are chosen first, so that fewer are needed. */
const leastNewPairs = [6, 3, 1]

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
  const chosen: Row[] = []
  let left = shuffled(rows, dice).map((row) => ({ row, features: featuresOf(row).map(numberOf) }))
  for (const least of leastNewPairs) {
    left = left.filter(({ row, features }) => {
      const pairs = features.flatMap((one, index) =>
        features.slice(index + 1).map((other) => one * maxFeatures + other),
      )
      const newPairs = pairs.filter((pair) => !met.has(pair))
      if (newPairs.length < least) return newPairs.length > 0
      for (const pair of newPairs) met.add(pair)
      chosen.push(row)
      return false
    })
  }
  return chosen
}
