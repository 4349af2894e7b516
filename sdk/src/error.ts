/**
 * Errors of the SDK. None holds a secret value, a credential, or the error of another library: `JSON.parse` and `fetch`
 * quote their input. Only the code of a failed connection is kept.
 */

export class CofferError extends Error {
  override readonly name: string = 'CofferError'
  /** The HTTP status, if the service responded. */
  readonly status: number | undefined
  /** Names the request in the log and the audit log of the service. */
  readonly requestId: string | undefined

  constructor(message: string, status?: number, requestId?: string) {
    super(message)
    this.status = status
    this.requestId = requestId
  }
}

/** The service refused the request, or could not answer it. `message` is the service's own. */
export class ApiError extends CofferError {
  override readonly name = 'ApiError'
  declare readonly status: number
  /** How long the service asks to wait, from `Retry-After`. */
  readonly retryAfterMs: number | undefined
  /** The service refused before any work, so that even a write may be sent again. */
  readonly isUnprocessed: boolean

  constructor(message: string, status: number, requestId?: string, retryAfterMs?: number, isUnprocessed = false) {
    super(message, status, requestId)
    this.retryAfterMs = retryAfterMs
    this.isUnprocessed = isUnprocessed
  }
}

/** No response: the connection failed, broke, or took too long. */
export class ConnectionError extends CofferError {
  override readonly name = 'ConnectionError'
  /** Such as `ECONNREFUSED`; `TIMEOUT` for a request that took too long; `UNKNOWN` where the platform gives no code. */
  readonly code: string

  constructor(message: string, code: string) {
    super(message)
    this.code = code
  }
}

/** A response that no Coffer service sends: not JSON, the wrong shape, or a redirect. */
export class ResponseError extends CofferError {
  override readonly name = 'ResponseError'
}

/** A missing or wrong setting, or no credential. */
export class SettingError extends CofferError {
  override readonly name = 'SettingError'
}

/** The environment has no secret of this name. */
export class MissingSecret extends CofferError {
  override readonly name = 'MissingSecret'
  readonly secret: string

  constructor(secret: string, place: string) {
    super(`There is no secret ${secret} in ${place}.`)
    this.secret = secret
  }
}

/** A secret whose value does not have the required type. */
export class InvalidSecret extends CofferError {
  override readonly name = 'InvalidSecret'
  readonly secret: string

  constructor(secret: string, place: string) {
    super(`The value of ${secret} in ${place} does not have the required type.`)
    this.secret = secret
  }
}
