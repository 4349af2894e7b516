/** The one connection to the service: same origin, signed in by the session cookie. */
import { createApi, fetchTransport, type Transport } from '@coffer/sdk'
import { reportSessionEnd } from './session-end.ts'

/** A refused login is no ended session, although both have the same status. */
const transport: Transport = async (request) => {
  const response = await fetchTransport(request)
  if (response.status === 401 && !request.url.endsWith('/v1/auth/login')) reportSessionEnd()
  return response
}

/** For one request. A person rather waits than wonders whether a large import was written or not. */
const timeoutMs = 60_000

export const api = createApi({ url: location.origin, credential: null, timeoutMs, platform: { transport } })
