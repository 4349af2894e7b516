/** Options of a select field that come from the vendor. */
import { isFault } from './fault.ts'
import type { Connection, Option } from './provider.ts'

/** A credential that may write but not list is valid: the person types the value instead. */
export async function unlessForbidden<Result>(work: Promise<Result>): Promise<Result | undefined> {
  return work.catch((error: unknown) => {
    if (isFault(error, 'scope')) return undefined
    throw error
  })
}

export const offering =
  (list: (connection: Connection) => AsyncIterable<Option>) =>
  (connection: Connection): Promise<readonly Option[] | undefined> =>
    unlessForbidden(Array.fromAsync(list(connection)))
