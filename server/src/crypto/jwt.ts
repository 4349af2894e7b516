/** Our own JWTs: EdDSA only, signed by a key of our ring, with exactly the header that we write. */
import { isSignatureGenuine, type Signer, signBytes } from './signing.ts'

export const jwtLifetimeSeconds = 900

export type JwtClaims = {
  readonly iss: string
  /** Id of the token or identity that it was issued for. */
  readonly sub: string
  readonly kind: 'token' | 'oidc'
  readonly workspace: string
  /** Rotating the token or changing the identity invalidates JWTs of earlier generations. */
  readonly generation: number
  readonly iat: number
  readonly exp: number
}

export function signJwt(signer: Signer, claims: JwtClaims): string {
  const header = encode({ alg: 'EdDSA', typ: 'JWT', kid: signer.id })
  const signed = `${header}.${encode(claims)}`
  return `${signed}.${signBytes(signer, Buffer.from(signed)).toString('base64url')}`
}

/** The claims of a valid, unexpired JWT of ours; undefined for anything else. */
export function verifyJwt(
  jwt: string,
  findSigner: (id: string) => Signer | undefined,
  expected: { issuer: string; nowMs: number },
): JwtClaims | undefined {
  const [header, payload, signature, ...rest] = jwt.split('.')
  if (!header || !payload || !signature || rest.length > 0) return undefined
  const head = decode(header)
  if (head?.alg !== 'EdDSA' || head.typ !== 'JWT' || typeof head.kid !== 'string') return undefined
  if (Object.keys(head).length !== 3) return undefined
  const signer = findSigner(head.kid)
  const signatureBytes = Buffer.from(signature, 'base64url')
  // A different base64url spelling of the same bytes would be a different cache key.
  if (!signer || signatureBytes.toString('base64url') !== signature) return undefined
  if (!isSignatureGenuine(signer, Buffer.from(`${header}.${payload}`), signatureBytes)) return undefined
  const claims = decode(payload)
  if (!claims || !isClaims(claims) || claims.iss !== expected.issuer) return undefined
  const nowSeconds = expected.nowMs / 1000
  return claims.exp > nowSeconds && claims.iat <= nowSeconds + 60 ? claims : undefined
}

/** The key id from the unverified header. */
export function keyIdOf(jwt: string): string | undefined {
  const kid = decode(jwt.split('.', 1)[0] ?? '')?.kid
  return typeof kid === 'string' ? kid : undefined
}

function isClaims(claims: Record<string, unknown>): claims is JwtClaims {
  return (
    typeof claims.iss === 'string' &&
    typeof claims.sub === 'string' &&
    (claims.kind === 'token' || claims.kind === 'oidc') &&
    typeof claims.workspace === 'string' &&
    typeof claims.generation === 'number' &&
    typeof claims.iat === 'number' &&
    typeof claims.exp === 'number'
  )
}

function encode(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url')
}

function decode(part: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(Buffer.from(part, 'base64url').toString('utf8'))
    // The JSON is an object, but its fields are still unchecked.
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined
  } catch {
    return undefined
  }
}
