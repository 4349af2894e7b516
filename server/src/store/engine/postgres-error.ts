/** Errors of PostgreSQL and its driver as failures of the service. */
import pg from 'pg'
import { Failure } from '../../failure.ts'

/** SQLSTATE classes of a server that is down, starting, stopping, full or unreachable, or that rejects our login. */
const unavailableClasses: ReadonlySet<string> = new Set(['08', '28', '3D', '53', '57', '58'])
/** The server became a standby, or went read-only until its disk has space. */
const readOnly = '25006'
const uniqueViolation = '23505'
const foreignKeyViolation = '23503'
/** An earlier statement of the transaction failed: the server ignores the rest. */
const aborted = '25P02'
/** Serialization failure, deadlock: the server has rolled the transaction back, and it may succeed when repeated. */
export const conflictCodes: ReadonlySet<string> = new Set(['40001', '40P01'])
/** Conflicts, and transactions that were idle for too long: nothing is wrong with the storage. */
export const passingCodes: ReadonlySet<string> = new Set([...conflictCodes, '25P03', aborted])

export async function wrapErrors<Result>(work: () => Promise<Result>): Promise<Result> {
  try {
    return await work()
  } catch (error) {
    throw asFailure(error)
  }
}

function asFailure(error: unknown): unknown {
  if (!(error instanceof Error)) return error
  const code = 'code' in error && typeof error.code === 'string' ? error.code : undefined
  if (code === uniqueViolation || code === foreignKeyViolation)
    return new Failure('conflict', undefined, { cause: error })
  // Errors that are not DatabaseError come from the socket or the pool. EPIPE only looks like a SQLSTATE.
  const isServerAnswer = error instanceof pg.DatabaseError
  const isRefusal = code === undefined || code === readOnly || unavailableClasses.has(code.slice(0, 2))
  if (!isServerAnswer || isRefusal || passingCodes.has(code)) {
    return new Failure('unavailable', undefined, { cause: error })
  }
  return error
}
