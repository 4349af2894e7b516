import { isFault } from './fault.ts'

/** For the options of a select: what the credential may not list, the person types. */
export async function unlessForbidden<Result>(work: Promise<Result>): Promise<Result | undefined> {
  return work.catch((error: unknown) => {
    if (isFault(error, 'scope')) return undefined
    throw error
  })
}
