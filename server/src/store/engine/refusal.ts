/** Notifies a listener when the storage itself refuses a commit, for example on a full disk or a lost server. */
import { codeOf } from '../../error-code.ts'
import { type Failure, isFailure } from '../../failure.ts'

type Bell = { ring(error: unknown): void; listen(listener: (error: Failure) => void): void }

/** `passing` lists codes of conflicts with other transactions, which are retried and say nothing about the storage. */
export function createRefusalBell(passing: ReadonlySet<string> = new Set()): Bell {
  let tell: ((error: Failure) => void) | undefined
  return {
    ring(error) {
      // Domain code also throws `unavailable` when it loses a race, but without a cause.
      const isStorage = isFailure(error, 'unavailable') && error.cause !== undefined
      if (isStorage && !passing.has(codeOf(error.cause))) tell?.(error)
    },
    listen(listener) {
      tell = listener
    },
  }
}
