/**
 * Reads the credential of a request: the Authorization header or, for a web interface, the session cookie of a
 * same-origin request.
 */
import type { Config } from '../../config.ts'
import { isLoopback } from '../../config.ts'
import { type BearerPrefix, sessionPrefix } from '../../crypto/token.ts'
import { Failure } from '../../failure.ts'
import type { Exchange } from '../exchange.ts'

const maxCredentialLength = 4_096

export function readCredential(exchange: Exchange, config: Config): string {
  const { authorization, cookie } = exchange.headers
  if (hasTwice(exchange, 'authorization')) throw new Failure('unauthenticated')
  if (authorization !== undefined) return readBearer(authorization)
  if (cookie === undefined) throw new Failure('unauthenticated')
  const value = readCookie(cookie, cookieName(config))
  if (!value?.startsWith(sessionPrefix satisfies BearerPrefix) || !isSameOrigin(exchange, config)) {
    throw new Failure('unauthenticated')
  }
  return value
}

/** Node keeps the first of two Authorization or Host headers, but a proxy in front may have checked the second. */
export function hasTwice({ request: { rawHeaders } }: Exchange, header: 'authorization' | 'host'): boolean {
  let count = 0
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at]
    if (name?.length === header.length && name.toLowerCase() === header) count++
  }
  return count > 1
}

function readBearer(header: string): string {
  const value = header.length > maxCredentialLength ? undefined : /^bearer +([\x21-\x7e]+) *$/i.exec(header)?.[1]
  if (!value) throw new Failure('unauthenticated')
  return value
}

/** Only the browser can attest the origin; a request without either header is not trusted. */
function isSameOrigin({ headers }: Exchange, config: Config): boolean {
  const site = headers['sec-fetch-site']
  if (site !== undefined) return site === 'same-origin'
  return headers.origin === config.publicUrl
}

/** Browsers accept a `__Host-` cookie only with Secure, and Secure only over TLS or from loopback. */
function isSecure(config: Config): boolean {
  const url = new URL(config.publicUrl)
  return url.protocol === 'https:' || isLoopback(url.hostname.replace(/^\[|\]$/g, ''))
}

const cookieName = (config: Config) => (isSecure(config) ? '__Host-coffer_session' : 'coffer_session')

export function sessionCookie(config: Config, value: string, maxAgeSeconds: number): string {
  const secure = isSecure(config) ? '; Secure' : ''
  return `${cookieName(config)}=${value}; Path=/; Max-Age=${maxAgeSeconds}; HttpOnly; SameSite=Strict${secure}`
}

function readCookie(header: string, name: string): string | undefined {
  for (const part of header.split(';')) {
    const [key, value] = part.trim().split('=', 2)
    if (key === name) return value
  }
  return undefined
}
