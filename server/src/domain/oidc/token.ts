/**
 * Tokens of outside issuers: how they are read, and what is checked of them besides the signature and the rules of an
 * identity. Pure functions; nothing that a token says of itself is believed before its signature is.
 */
import type { IdentityCheck } from '@coffer/contract/oidc'
import { secondMs } from '../time.ts'
import { type JsonObject, parseJsonObject } from './json.ts'
import { describe } from './rule.ts'

export type ExternalToken = { readonly text: string; readonly header: JsonObject; readonly claims: JsonObject }

/** Only asymmetric ones: with a shared secret, whoever can check a token could make it. */
export const algorithms: readonly string[] = [
  ...['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'],
  ...['ES256', 'ES384', 'ES512', 'EdDSA'],
]
/** An access token whose audience we are is as good as an ID token; a logout token or a proof is neither. */
const types: ReadonlySet<string> = new Set(['jwt', 'at+jwt', 'application/jwt', 'application/at+jwt'])
/** They bring a key of their own, or change what is signed. */
const refusedHeaders = ['jwk', 'jku', 'x5u', 'x5c', 'crit', 'b64', 'zip', 'cty']
const leewaySeconds = 60

/** Undefined for what is no signed JWT: three parts of base64url in their one spelling, two of them JSON objects. */
export function parseToken(text: string): ExternalToken | undefined {
  const [header, claims, signature, ...rest] = text.split('.').map(decodePart)
  if (!header || !claims || !signature || rest.length > 0) return undefined
  const [head, body] = [parseJsonObject(header), parseJsonObject(claims)]
  return head && body && { text, header: head, claims: body }
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** As text of Latin letters where the bytes are no UTF-8: only a signature may be that. */
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
  expected: 'a signed JWT in which no name stands twice and nothing nests deeply',
  actual: ok ? 'a signed JWT' : 'something else',
})

/** What must hold before a key is even looked for. */
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
      expected: `a kid of text if any, and none of ${refusedHeaders.join(', ')}`,
      actual: refused.length > 0 ? `has ${refused.join(', ')}` : `kid ${describe(kid)}`,
    },
  ]
}

export function checkTimes({ claims }: ExternalToken, nowMs: number): IdentityCheck[] {
  const now = nowMs / secondMs
  const { exp, iat, nbf } = claims
  const expected = (what: string) => `${what} ${isoSeconds(now)}, give or take ${leewaySeconds} s`
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

/** Of several audiences each could pass the token on to the others: then it must have been made for us first of all. */
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
      expected: isShared ? `azp ${audience}, as there are several audiences` : 'any azp of text, or none',
      actual: describe(azp),
    },
  ]
}

const maxTime = 8_640_000_000_000

const isTime = (value: unknown): value is number =>
  typeof value === 'number' && Number.isFinite(value) && value >= 0 && value <= maxTime

const isoSeconds = (seconds: number) => new Date(seconds * secondMs).toISOString()

const describeTime = (value: unknown) => (isTime(value) ? isoSeconds(value) : describe(value))
