/**
 * Catalogue of all expected errors. The code is for logs and tests; the message is for the person, and the only part
 * that reaches the wire. A message never holds a value, a token, a URL with a query, SQL, or another library's text.
 */
const catalogue = {
  invalid: { status: 400, message: 'The request is not valid.' },
  malformed: { status: 400, message: 'The request could not be parsed.' },
  /** Device flow clients parse the message, which is sent as `{ error }`. */
  devicePoll: { status: 400, message: 'expired_token' },
  unauthenticated: { status: 401, message: 'A valid credential is required: send "Authorization: Bearer <token>".' },
  exchangeRefused: {
    status: 401,
    message: 'The token was not accepted. An admin of the workspace can find the reason in its audit log.',
  },
  loginRefused: { status: 401, message: 'The email address or the password is wrong.' },
  codeRequired: {
    status: 401,
    message: 'code: is required. The password is right, but this account also needs a code from its authenticator app.',
  },
  codeRefused: { status: 401, message: 'code: is wrong or was already used.' },
  forbidden: { status: 403, message: 'You do not have permission to do this.' },
  readOnly: { status: 403, message: 'This credential is read-only.' },
  sessionOnly: { status: 403, message: 'Only a signed-in person can do this, not a token.' },
  sessionOrMarked: {
    status: 403,
    message: 'This decides who else has access: sign in, or use a token that was created with mayAdminister.',
  },
  notFound: { status: 404, message: 'Not found.' },
  conflict: { status: 409, message: 'This conflicts with existing data.' },
  preconditionFailed: { status: 412, message: 'This has changed since you read it: read it again.' },
  tooLarge: { status: 413, message: 'The request body is larger than 8 MiB.' },
  unsupportedMediaType: { status: 415, message: 'Send JSON: Content-Type: application/json, UTF-8, not compressed.' },
  rateLimited: { status: 429, message: 'Rate limit exceeded.' },
  internal: { status: 500, message: 'Something went wrong on our side.' },
  integrity: {
    status: 500,
    message: 'Stored data failed its integrity check. Ask the operator to run the doctor command.',
  },
  keysChanged: {
    status: 500,
    message: 'The keys in the database were changed outside of Coffer. Ask the operator to run the doctor command.',
  },
  unavailable: { status: 503, message: 'The service cannot reach its storage right now; try again in a moment.' },
  unrecorded: {
    status: 503,
    message: 'This could not be recorded in the audit trail, so it was not done; try again in a moment.',
  },
  vendorUnavailable: {
    status: 503,
    message: 'The vendor is unavailable or gave an unexpected response; try again in a moment.',
  },
  overloaded: { status: 503, message: 'The service is busy; try again in a moment.' },
  sealed: {
    status: 503,
    message:
      'The service is sealed: its operators must hand it shares of the master key, with "keys unseal" on its machine.',
  },
  stopping: { status: 503, message: 'The service is stopping; try again in a moment.' },
} as const

export type FailureCode = keyof typeof catalogue

export class Failure extends Error {
  readonly code: FailureCode
  readonly status: number
  readonly retryAfterSeconds: number | undefined

  constructor(code: FailureCode, message?: string, options?: { cause?: unknown; retryAfterSeconds?: number }) {
    super(message ?? catalogue[code].message, options?.cause === undefined ? undefined : { cause: options.cause })
    this.name = 'Failure'
    this.code = code
    this.status = catalogue[code].status
    this.retryAfterSeconds = options?.retryAfterSeconds ?? (this.status === 503 ? 1 : undefined)
  }
}

/** An invalid input value that the caller can fix. The message starts with the field's name. */
export function invalid(field: string, problem: string): Failure {
  return new Failure('invalid', `${field}: ${problem}`)
}

export function isFailure(error: unknown, code?: FailureCode): error is Failure {
  return error instanceof Failure && (code === undefined || error.code === code)
}
