/** A choice of rows in which every two features that some row has together still meet. */
import { type Dice, shuffled } from './dice.ts'

export function choosePairwise<Row>(
  rows: readonly Row[],
  featuresOf: (row: Row) => readonly string[],
  dice: Dice,
): Row[] {
  const met = new Set<string>()
  return shuffled(rows, dice).filter((row) => {
    const features = featuresOf(row)
    const pairs = features.flatMap((one, index) => features.slice(index + 1).map((other) => `${one} × ${other}`))
    const isNew = pairs.some((pair) => !met.has(pair))
    for (const pair of pairs) met.add(pair)
    return isNew
  })
}
