/** Device login (RFC 8628): this program waits until somebody approves its code in a signed-in browser. */
import { type Api, ApiError, ConnectionError, type DeviceCode } from '@coffer/sdk'
import { CliError } from '../error.ts'

/** The approval page shows it. */
const clientId = 'coffer-cli'
const slowDownMs = 5_000

export const createDeviceCode = (api: Api): Promise<DeviceCode> => api.auth.createDeviceCode({ clientId })

type Clock = {
  now(): number
  sleep(durationMs: number): Promise<void>
}

/** Returns the session. A service that restarts meanwhile only delays it. */
export async function waitForApproval(api: Api, code: DeviceCode, clock: Clock): Promise<string> {
  const endsAt = clock.now() + code.expiresIn * 1_000
  let intervalMs = Math.max(1, code.interval) * 1_000
  let waitMs = intervalMs
  while (clock.now() + waitMs < endsAt) {
    await clock.sleep(waitMs)
    waitMs = intervalMs
    try {
      return await collectSession(api, code)
    } catch (error) {
      if (error instanceof ConnectionError) continue
      if (!(error instanceof ApiError)) throw error
      if (error.message === 'slow_down') {
        intervalMs += slowDownMs
        waitMs = intervalMs
      } else if (error.status === 429 || error.status >= 502) {
        waitMs = Math.max(intervalMs, error.retryAfterMs ?? 0)
      } else if (error.message !== 'authorization_pending') throw explain(error)
    }
  }
  throw expired()
}

/** Of an approved code. */
export async function collectSession(api: Api, { deviceCode }: DeviceCode): Promise<string> {
  return (await api.auth.pollDevice({ clientId, deviceCode })).accessToken
}

function explain(error: ApiError): Error {
  if (error.message === 'access_denied') return new CliError('forbidden', 'The login was denied in the browser.')
  return error.message === 'expired_token' ? expired() : error
}

const expired = () => new CliError('notSignedIn', 'The code has expired: nobody has approved it.', 'coffer login')
