/** Who wants to know when the storage itself refuses a commit: a full disk, a server that is away. */
import { codeOf } from '../../error-code.ts'
import { type Failure, isFailure } from '../../failure.ts'

type Bell = { ring(error: unknown): void; listen(listener: (error: Failure) => void): void }

/** `passing` are the codes of what only meets with others and is tried again: the storage is well. */
export function createRefusalBell(passing: ReadonlySet<string> = new Set()): Bell {
  let tell: ((error: Failure) => void) | undefined
  return {
    ring(error) {
      // Work that finds itself overtaken says so with the same code, and without a cause.
      const isStorage = isFailure(error, 'unavailable') && error.cause !== undefined
      if (isStorage && !passing.has(codeOf(error.cause))) tell?.(error)
    },
    listen(listener) {
      tell = listener
    },
  }
}
