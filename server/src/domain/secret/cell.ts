/** Describes values without showing them: whether they are empty, what they refer to, and which of them are equal. */
import type { GiveWay } from '../../long-work.ts'
import { surveyReferences, writeReferenceName } from './reference/reference.ts'
import { createOpeningPause } from './size.ts'

export type Cell = {
  readonly isEmpty: boolean
  /** The texts between `${` and `}`. */
  readonly references: readonly string[]
  readonly same: number
}

type Valued = { readonly secretId: string; readonly value: string }

/** Replaces each value by its cell. Expects all rows of each secret, because equal values are found among them. */
export async function toCells<Row extends Valued>(
  rows: readonly Row[],
  giveWay: GiveWay,
): Promise<(Row & { readonly cell: Cell })[]> {
  const cells: (Row & { readonly cell: Cell })[] = []
  const isPause = createOpeningPause()
  const numbersOf = new Map<string, Map<string, number>>()
  for (const row of rows) {
    const { secretId, value } = row
    const numbers = numbersOf.get(secretId) ?? new Map<string, number>()
    numbersOf.set(secretId, numbers)
    // Numbers count the different values of the secret: they depend on nothing but equality.
    const same = numbers.get(value) ?? numbers.size + 1
    numbers.set(value, same)
    const references = surveyReferences(value).references.map(writeReferenceName)
    cells.push({ ...row, value: '', cell: { isEmpty: value === '', references, same } })
    if (isPause(value.length)) await giveWay()
  }
  return cells
}
