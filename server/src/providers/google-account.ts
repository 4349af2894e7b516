/** Signing in to Google: a service account's key signs the request for a token, which lasts an hour. */
import { createPrivateKey, type KeyObject, sign } from 'node:crypto'
import { VendorFault } from './fault.ts'
import type { Connection } from './provider.ts'
import { clockFault } from './vendor-clock.ts'
import { faultOf } from './vendor-http.ts'
import { maybeTextAt, textAt } from './vendor-json.ts'

type ServiceAccount = {
  readonly email: string
  readonly project: string
  readonly keyId: string
  readonly key: KeyObject
}

/** Reads Google's key file, on one line or in base64. URLs in the file are ignored. */
export function readServiceAccount(text: string): ServiceAccount | undefined {
  const json = parse(text) ?? parse(Buffer.from(text, 'base64').toString('utf8'))
  const email = maybeTextAt(json, 'client_email')
  const project = maybeTextAt(json, 'project_id')
  const key = readKey(maybeTextAt(json, 'private_key'))
  const isForUs = maybeTextAt(json, 'type') === 'service_account' && isOfGoogle(maybeTextAt(json, 'universe_domain'))
  if (!isForUs || !email || !project || !key) return undefined
  return { email, project, keyId: maybeTextAt(json, 'private_key_id') ?? '', key }
}

const isOfGoogle = (universe = 'googleapis.com') => universe === 'googleapis.com'

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function readKey(pem: string | undefined): KeyObject | undefined {
  try {
    const key = createPrivateKey(pem ?? '')
    return key.asymmetricKeyType === 'rsa' ? key : undefined
  } catch {
    return undefined
  }
}

export function requireServiceAccount({ credential }: Pick<Connection, 'credential'>): ServiceAccount {
  const account = readServiceAccount(credential.serviceAccount ?? '')
  if (account === undefined) {
    throw new VendorFault('auth', 'The key of the service account cannot be read.', { field: 'serviceAccount' })
  }
  return account
}

const tokenUrl = 'https://oauth2.googleapis.com/token'
const scope = 'https://www.googleapis.com/auth/cloud-platform'

export async function fetchGoogleToken(connection: Connection): Promise<string> {
  const assertion = signedClaims(requireServiceAccount(connection), connection.now())
  const response = await connection.http.send({
    method: 'POST',
    url: tokenUrl,
    service: 'Google OAuth',
    headers: { 'content-type': 'application/x-www-form-urlencoded;charset=UTF-8' },
    body: new URLSearchParams({ grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer', assertion }).toString(),
    isRead: true,
    accept: [400],
  })
  // invalid_grant: the key was deleted or our clock is wrong.
  const nowMs = connection.now()
  if (response.status === 400) throw clockFault(response, nowMs) ?? faultOf(response, nowMs, 'auth')
  return textAt(response.json, 'access_token')
}

function signedClaims({ email, keyId, key }: ServiceAccount, nowMs: number): string {
  const iat = Math.floor(nowMs / 1_000)
  const header = { alg: 'RS256', typ: 'JWT', kid: keyId }
  const claims = { iss: email, scope, aud: tokenUrl, iat, exp: iat + 3_600 }
  const text = [header, claims].map((part) => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.')
  return `${text}.${sign('RSA-SHA256', Buffer.from(text), key).toString('base64url')}`
}
