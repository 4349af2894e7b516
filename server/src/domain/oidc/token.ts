/**
 * Parses tokens of outside issuers, and checks everything except the signature and the identity's rules. Pure
 * functions. No claim may be trusted before the signature is verified.
 */
import type { IdentityCheck } from '@coffer/contract/oidc'
import { secondMs } from '../time.ts'
import { type JsonObject, parseJsonObject } from './json.ts'
import { describe } from './rule.ts'

export type ExternalToken = { readonly text: string; readonly header: JsonObject; readonly claims: JsonObject }

/** Asymmetric algorithms only: with a shared secret, anyone who can verify a token can also create one. */
export const algorithms: readonly string[] = [
  ...['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'],
  ...['ES256', 'ES384', 'ES512', 'EdDSA'],
]
/** Access tokens for our audience are accepted like ID tokens; logout tokens and proofs are not. */
const types: ReadonlySet<string> = new Set(['jwt', 'at+jwt', 'application/jwt', 'application/at+jwt'])
/** Headers that bring their own key or change what is signed. */
const refusedHeaders = ['jwk', 'jku', 'x5u', 'x5c', 'crit', 'b64', 'zip', 'cty']
const leewaySeconds = 60

/** Undefined unless the text is a signed JWT: three parts in canonical base64url, of which two are JSON objects. */
export function parseToken(text: string): ExternalToken | undefined {
  const [header, claims, signature, ...rest] = text.split('.').map(decodePart)
  if (!header || !claims || !signature || rest.length > 0) return undefined
  const [head, body] = [parseJsonObject(header), parseJsonObject(claims)]
  return head && body && { text, header: head, claims: body }
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** Header and claims must be UTF-8; the signature is binary, and decoded as Latin-1. */
function decodePart(part: string, index: number): string | undefined {
  const bytes = Buffer.from(part, 'base64url')
  if (bytes.toString('base64url') !== part) return undefined
  if (index === 2) return bytes.toString('latin1')
  try {
    return utf8.decode(bytes)
  } catch {
    return undefined
  }
}

export const formCheck = (ok: boolean): IdentityCheck => ({
  check: 'form',
  ok,
  expected: 'a signed JWT without duplicate names or deep nesting',
  actual: ok ? 'a signed JWT' : 'something else',
})

/** Checks that must pass before a key is looked up. */
export function checkHeader({ header }: ExternalToken): IdentityCheck[] {
  const { alg, typ, kid } = header
  const refused = refusedHeaders.filter((name) => Object.hasOwn(header, name))
  return [
    {
      check: 'algorithm',
      ok: typeof alg === 'string' && algorithms.includes(alg),
      expected: `one of ${algorithms.join(', ')}`,
      actual: describe(alg),
    },
    {
      check: 'type',
      ok: typ === undefined || (typeof typ === 'string' && types.has(typ.toLowerCase())),
      expected: 'JWT, at+jwt or none',
      actual: describe(typ),
    },
    {
      check: 'header',
      ok: refused.length === 0 && (kid === undefined || typeof kid === 'string'),
      expected: `a kid that is a string or absent, and none of ${refusedHeaders.join(', ')}`,
      actual: refused.length > 0 ? `has ${refused.join(', ')}` : `kid ${describe(kid)}`,
    },
  ]
}

export function checkTimes({ claims }: ExternalToken, nowMs: number): IdentityCheck[] {
  const now = nowMs / secondMs
  const { exp, iat, nbf } = claims
  const expected = (what: string) => `${what} ${isoSeconds(now)}, ± ${leewaySeconds} s`
  return [
    {
      check: 'expires',
      ok: isTime(exp) && exp > now - leewaySeconds,
      expected: expected('exp after'),
      actual: describeTime(exp),
    },
    {
      check: 'notBefore',
      ok: nbf === undefined || (isTime(nbf) && nbf <= now + leewaySeconds),
      expected: `${expected('nbf not after')}, or none`,
      actual: describeTime(nbf),
    },
    {
      check: 'issuedAt',
      ok: isTime(iat) && iat <= now + leewaySeconds,
      expected: expected('iat not after'),
      actual: describeTime(iat),
    },
  ]
}

/** Each of several audiences could forward the token to the others, so `azp` must then name us. */
export function checkAudience({ claims }: ExternalToken, audience: string): IdentityCheck[] {
  const { aud, azp } = claims
  const audiences: unknown[] = Array.isArray(aud) ? aud : [aud]
  const isShared = audiences.length > 1
  return [
    {
      check: 'audience',
      ok: audiences.includes(audience) && audiences.every((one) => typeof one === 'string'),
      expected: audience,
      actual: describe(aud),
    },
    {
      check: 'authorizedParty',
      ok: isShared ? azp === audience : azp === undefined || typeof azp === 'string',
      expected: isShared ? `azp ${audience}, because there are several audiences` : 'an azp that is a string or absent',
      actual: describe(azp),
    },
  ]
}

const maxTime = 8_640_000_000_000

const isTime = (value: unknown): value is number =>
  typeof value === 'number' && Number.isFinite(value) && value >= 0 && value <= maxTime

const isoSeconds = (seconds: number) => new Date(seconds * secondMs).toISOString()

const describeTime = (value: unknown) => (isTime(value) ? isoSeconds(value) : describe(value))
