/** Failures of the command line, and the exit code of every failure. */
import { ApiError, type CofferError, ConnectionError } from '@coffer/sdk'
import { isLoopback } from './place/loopback.ts'

export const exitCodes = {
  ok: 0,
  failure: 1,
  usage: 2,
  notSignedIn: 3,
  forbidden: 4,
  notFound: 5,
  conflict: 6,
  unreachable: 7,
  rateLimited: 8,
  /** Ctrl-C at a question. */
  cancelled: 130,
  /** `coffer run` failed before the command started. */
  runFailed: 125,
  cannotExecute: 126,
  commandNotFound: 127,
} as const

export type ExitName = keyof typeof exitCodes

/** A failure that is explained to the user: what went wrong, and what to do about it. Never holds a value or a token. */
export class CliError extends Error {
  override readonly name = 'CliError'
  readonly exit: ExitName
  /** A command or an action that helps, printed after `try:`. */
  readonly hint: string | undefined

  /** `cause` is the answer of the service that this error explains. */
  constructor(exit: ExitName, message: string, hint?: string, cause?: CofferError) {
    super(message, { cause })
    this.exit = exit
    this.hint = hint
  }
}

export const usageError = (message: string, hint?: string) => new CliError('usage', message, hint)

export function exitNameOf(error: unknown): ExitName {
  if (error instanceof CliError) return error.exit
  if (error instanceof ConnectionError) return 'unreachable'
  if (error instanceof ApiError) return exitNameOfStatus(error.status)
  return 'failure'
}

/** The action that helps, if one is known. */
export function hintOf(error: unknown): string | undefined {
  if (error instanceof CliError) return error.hint
  if (!(error instanceof ConnectionError)) return undefined
  if (error.code === 'ENOTFOUND') return 'check the name of the host; coffer status shows where it comes from'
  if (error.code !== 'ECONNREFUSED') return undefined
  // The message starts with the address.
  return isLoopback(error.message.split(' ')[0] ?? '')
    ? 'start it with coffer-server, or with npm start in a checkout'
    : 'check the address and the port, and that the service runs there'
}

function exitNameOfStatus(status: number): ExitName {
  if (status === 401) return 'notSignedIn'
  if (status === 403) return 'forbidden'
  if (status === 404) return 'notFound'
  if (status === 409 || status === 412 || status === 428) return 'conflict'
  if (status === 429) return 'rateLimited'
  return status >= 502 && status <= 504 ? 'unreachable' : 'failure'
}
