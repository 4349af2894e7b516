/** The key file of a Google service account, and the signed request for a token, which lasts an hour. */
import { createPrivateKey, type KeyObject, sign } from 'node:crypto'

export type ServiceAccount = {
  readonly email: string
  readonly project: string
  readonly keyId: string
  readonly key: KeyObject
}

/** Reads Google's key file, on one line or in base64. URLs in the file are ignored. */
export function readServiceAccount(text: string): ServiceAccount | undefined {
  const json = parse(text) ?? parse(Buffer.from(text, 'base64').toString('utf8'))
  const field = (name: string): string | undefined => {
    const value: unknown = typeof json === 'object' && json !== null ? Reflect.get(json, name) : undefined
    return typeof value === 'string' ? value : undefined
  }
  const email = field('client_email')
  const project = field('project_id')
  const key = readKey(field('private_key'))
  const isForUs = field('type') === 'service_account' && isOfGoogle(field('universe_domain'))
  if (!isForUs || !email || !project || !key) return undefined
  return { email, project, keyId: field('private_key_id') ?? '', key }
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

const tokenUrl = 'https://oauth2.googleapis.com/token'
const scope = 'https://www.googleapis.com/auth/cloud-platform'

export type TokenRequest = { readonly url: string; readonly headers: Record<string, string>; readonly body: string }

/** The request whose response holds `access_token`. */
export function googleTokenRequest(account: ServiceAccount, nowMs: number): TokenRequest {
  const grant = { grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer', assertion: signedClaims(account, nowMs) }
  return {
    url: tokenUrl,
    headers: { 'content-type': 'application/x-www-form-urlencoded;charset=UTF-8' },
    body: new URLSearchParams(grant).toString(),
  }
}

function signedClaims({ email, keyId, key }: ServiceAccount, nowMs: number): string {
  const iat = Math.floor(nowMs / 1_000)
  const header = { alg: 'RS256', typ: 'JWT', kid: keyId }
  const claims = { iss: email, scope, aud: tokenUrl, iat, exp: iat + 3_600 }
  const text = [header, claims].map((part) => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.')
  return `${text}.${sign('RSA-SHA256', Buffer.from(text), key).toString('base64url')}`
}
