/** Signing in to Google with the key of a service account. */
import { googleTokenRequest, readServiceAccount, type ServiceAccount } from '../google-service-account.ts'
import { VendorFault } from './fault.ts'
import type { Connection } from './provider.ts'
import { clockFault } from './vendor-clock.ts'
import { faultOf } from './vendor-http.ts'
import { textAt } from './vendor-json.ts'

export function requireServiceAccount({ credential }: Pick<Connection, 'credential'>): ServiceAccount {
  const account = readServiceAccount(credential.serviceAccount ?? '')
  if (account === undefined) {
    throw new VendorFault('auth', 'The key of the service account cannot be read.', { field: 'serviceAccount' })
  }
  return account
}

export async function fetchGoogleToken(connection: Connection): Promise<string> {
  const response = await connection.http.send({
    ...googleTokenRequest(requireServiceAccount(connection), connection.now()),
    method: 'POST',
    service: 'Google OAuth',
    isRead: true,
    accept: [400],
  })
  // invalid_grant: the key was deleted or our clock is wrong.
  const nowMs = connection.now()
  if (response.status === 400) throw clockFault(response, nowMs) ?? faultOf(response, nowMs, 'auth')
  return textAt(response.json, 'access_token')
}
