/**
 * Credentials belong to an origin. A folder names a service in .coffer.json, and anybody can write that file: it must not
 * decide where a token is sent.
 */
import type { Context } from '../context.ts'
import { type Environment, isSet } from '../environment.ts'
import { CliError, usageError } from '../error.ts'
import { findCredentialSource } from '../session/credential-source.ts'
import { changeLogins, readLogins } from '../session/login-file.ts'
import { isLoopback } from './loopback.ts'
import type { Setting } from './place.ts'

export const originOf = (url: string | undefined): string | undefined => (url ? URL.parse(url)?.origin : undefined)

/**
 * True for the origin of COFFER_URL, or of --url where that is not set; for origins that somebody has signed in to, and for
 * those of `coffer trust`.
 */
export function isTrusted({ env, flags }: Pick<Context, 'env' | 'flags'>, url: string): boolean {
  const origin = originOf(url)
  if (origin === undefined) return false
  if (originOf(env.COFFER_URL || flags.url) === origin) return true
  return listTrusted(env).some((one) => one.origin === origin)
}

type Trusted = { readonly origin: string; readonly by: 'coffer trust' | 'coffer login' }

/** Signing out withdraws what the login has confirmed. */
export function listTrusted(env: Environment): Trusted[] {
  const { byUrl, trusted = [] } = readLogins(env)
  const signedIn = new Set(Object.keys(byUrl).flatMap((url) => originOf(url) ?? []))
  return [
    ...trusted.map((origin) => ({ origin, by: 'coffer trust' as const })),
    ...[...signedIn].map((origin) => ({ origin, by: 'coffer login' as const })),
  ]
}

/** Refuses to send the credential of the environment to an address that nobody has confirmed. Sessions have their own. */
export function requireTrusted(ctx: Context, url: string, found: Setting | undefined): void {
  if (isTrusted(ctx, url)) return
  const source = findCredentialSource(ctx.env, url)
  if (!source || source.kind === 'login') return
  throw usageError(
    `${source.from} is not sent to ${url}, which only ${found?.from} names: COFFER_URL is required beside it.`,
    `set COFFER_URL, or coffer trust ${originOf(url)} if this is your service`,
  )
}

export function addTrusted({ env }: Context, origin: string): void {
  changeLogins(env, ({ trusted = [], ...rest }) => ({ ...rest, trusted: [...new Set([...trusted, origin])] }))
}

export function removeTrusted({ env }: Context, origin: string): void {
  changeLogins(env, ({ trusted = [], ...rest }) => ({ ...rest, trusted: trusted.filter((one) => one !== origin) }))
}

/** Others on the network could read the credential and the values. Never allowed by .coffer.json. */
export function requireSafeTransport({ env, flags }: Context, url: string): void {
  if (URL.parse(url)?.protocol !== 'http:' || isLoopback(url) || flags['allow-http'] || isSet(env.COFFER_ALLOW_HTTP))
    return
  throw new CliError(
    'usage',
    `${url} is plain http: others on the network could read the credential and the secrets.`,
    'use https, or --allow-http or COFFER_ALLOW_HTTP=1 in a network that you trust',
  )
}
