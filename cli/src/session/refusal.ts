/** What a refused credential means for the person. */
import type { ApiError } from '@coffer/sdk'
import type { Context } from '../context.ts'
import { CliError } from '../error.ts'
import { findUrl } from '../place/place.ts'
import { findCredentialSource } from './credential-source.ts'

export function explainRefusal(ctx: Context, error: ApiError): Error {
  const url = findUrl(ctx)
  const source = findCredentialSource(ctx.env, url)
  if (url === undefined || !source || source.kind === 'identity') return error
  const [message, hint] =
    source.kind === 'login'
      ? [`Your session at ${url} has ended: it was revoked or has expired.`, `coffer login ${url}`]
      : [`${url} does not accept ${source.from}: the token is wrong, expired or revoked.`, 'coffer token create NAME']
  return new CliError('notSignedIn', message, hint, error)
}
