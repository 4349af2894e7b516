/** Limits on references: in one written value, and in all values that one request processes. */
import { invalid } from '../../../failure.ts'
import { createPause, type GiveWay } from '../../../long-work.ts'
import { surveyReferences } from './reference.ts'

/** References behind references: a chain of values may be this long. */
export const defaultMaxDepth = 16
/** Distinct references in one value. */
const maxReferences = 1_000
/** Distinct references per value, summed over all values. */
export const maxLinks = 100_000
/** Occurrences including repeats: each one is a piece of text to store and join. */
export const maxMentions = 1_000_000

/** For loops over texts that may be full of references: takes the length of each. */
export const createReferencePause = () => createPause(64 * 1024, 64)

/** Call before all other checks of a write, because they visit each reference several times. */
export async function refuseManyReferences(
  written: readonly { readonly key: string; readonly value: string | null }[],
  giveWay: GiveWay,
): Promise<void> {
  const isPause = createReferencePause()
  let links = 0
  let mentions = 0
  for (const { key, value } of written) {
    if (!value?.includes('${')) continue
    const { references, count } = surveyReferences(value, maxReferences + 1)
    if (references.length > maxReferences) {
      throw invalid('value', `the value of ${key} has more than 1,000 references: split it.`)
    }
    links += references.length
    mentions += count
    if (links > maxLinks || mentions > maxMentions) throw tooManyReferences('write fewer at once')
    if (isPause(value.length)) await giveWay()
  }
}

export function tooManyReferences(advice: string) {
  return invalid('value', `these values hold more than 100,000 references, too many for one request: ${advice}.`)
}
