/** How many references there may be: in one value that is written, and in all that one request looks at. */

import { createPause, nextTurn } from '../../../event-loop.ts'
import { invalid } from '../../../failure.ts'
import { surveyReferences } from './reference.ts'

/** Different ones in one value. */
const maxReferences = 1_000
/** Different ones of each value, over all values. */
export const maxLinks = 100_000
/** However often the same stands in a value: each time is a piece of text to keep and to join. */
export const maxMentions = 1_000_000

/** For a walk over texts that may be full of references, by the length of each. */
export const createReferencePause = () => createPause(256 * 1024, 64)

/** Before anything else is done with what should be written: all that follows looks at each reference several times. */
export async function refuseManyReferences(
  written: readonly { readonly key: string; readonly value: string | null }[],
): Promise<void> {
  const isPause = createReferencePause()
  let links = 0
  let mentions = 0
  for (const { key, value } of written) {
    if (!value?.includes('${')) continue
    const { references, count } = surveyReferences(value, maxReferences + 1)
    if (references.length > maxReferences) {
      throw invalid('value', `the value of ${key} refers to more than 1,000 others: split it.`)
    }
    links += references.length
    mentions += count
    if (links > maxLinks || mentions > maxMentions) throw tooManyReferences('write fewer at once')
    if (isPause(value.length)) await nextTurn()
  }
}

export function tooManyReferences(advice: string) {
  return invalid('value', `these values refer to others more than 100,000 times, too much for one request: ${advice}.`)
}
