/** Explains why PostgreSQL cannot be used. Errors are recognised by code, because their text may contain secrets. */
import { codeOf } from '../../error-code.ts'

const noTls =
  'the server offers no TLS: switch it on there, or leave sslmode out of COFFER_DATABASE_URL where the network is trusted'
const notTrusted =
  'its certificate is not trusted: name its authority in COFFER_DATABASE_URL, ?sslmode=verify-full&sslrootcert=/path/of/ca.pem'
const checkUrl = 'check COFFER_DATABASE_URL'

const reasons: Readonly<Record<string, string>> = {
  ECONNREFUSED: `nothing listens at that address and port; ${checkUrl}`,
  ENOTFOUND: `its host name has no address; ${checkUrl}`,
  EAI_AGAIN: `its host name cannot be looked up; ${checkUrl}, and the name server`,
  ENOENT: `a file that COFFER_DATABASE_URL names does not exist`,
  EACCES: `a file that COFFER_DATABASE_URL names may not be read`,
  DEPTH_ZERO_SELF_SIGNED_CERT: notTrusted,
  SELF_SIGNED_CERT_IN_CHAIN: notTrusted,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: notTrusted,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: notTrusted,
  CERT_HAS_EXPIRED: 'its certificate has expired',
  ERR_TLS_CERT_ALTNAME_INVALID: `its certificate is for another host name; ${checkUrl}`,
  '28P01': `the user or the password is wrong or missing; ${checkUrl}`,
  '28000': 'the server does not let this user in from here, or not without TLS (pg_hba.conf)',
  '3D000': `the server has no database of that name; ${checkUrl}, or create it`,
  '42501':
    'its user lacks a permission: make them the owner of the database, or grant them "create" on the schema public',
  '25006': 'the server is read-only: name the primary in COFFER_DATABASE_URL',
  '53300': 'the server has no connection left',
  '57P03': 'the server is starting or stopping; try again in a moment',
}

/** The driver gives these errors no code, so their text is matched; it is never repeated to the user. */
const byText: readonly [text: RegExp, reason: string][] = [
  [/does not support SSL/, noTls],
  [/unsupported startup parameter/, 'it is a PgBouncer: add pgbouncer=true to the parameters of COFFER_DATABASE_URL'],
  [/URI malformed/, 'a special character in COFFER_DATABASE_URL is not percent-encoded'],
  [/password must be a (non-empty )?string/, `COFFER_DATABASE_URL has no password, and the server asks for one`],
]

const tlsParameters: ReadonlySet<string> = new Set([
  'ssl',
  'sslmode',
  'sslrootcert',
  'sslcert',
  'sslkey',
  'sslnegotiation',
])

/**
 * Finds parameters that the driver silently ignores (a mistyped TLS setting would leave the connection unencrypted) or
 * a port that makes it hang.
 */
export function parameterProblem(url: string): string | undefined {
  const parameters = new URL(url).searchParams
  const mistyped = [...parameters.keys()].find((name) => /ssl|tls/i.test(name) && !tlsParameters.has(name))
  // The name is not repeated: an unescaped password may have ended up as a parameter name.
  if (mistyped !== undefined)
    return 'a parameter of COFFER_DATABASE_URL is not one for TLS: use sslmode and sslrootcert'
  const port = parameters.get('port') ?? '5432'
  return /^\d{1,5}$/.test(port) && Number(port) <= 65_535
    ? undefined
    : `its port is not a number up to 65535; ${checkUrl}`
}

export function postgresRefusal(error: unknown): string {
  const origin = error instanceof Error && error.cause instanceof Error ? error.cause : error
  const code = codeOf(origin)
  const text = origin instanceof Error ? origin.message : ''
  const reason =
    reasons[code] ?? byText.find(([pattern]) => pattern.test(text))?.[1] ?? `it does not answer; ${checkUrl}`
  return code === 'undefined' || code === 'unknown error' ? reason : `${reason} (${code})`
}
