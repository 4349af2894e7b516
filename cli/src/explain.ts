/** Adds what to do to an answer of the service, and names the flag that a field of the API stands for. */
import { ApiError, CofferError } from '@coffer/sdk'
import type { Context } from './context.ts'
import { CliError, exitNameOf } from './error.ts'
import { findUrl } from './place/place.ts'
import { findCredentialSource } from './session/credential-source.ts'
import { explainRefusal } from './session/refusal.ts'

const flagOfField: Readonly<Record<string, string>> = {
  slug: '--project',
  isPersonal: '--personal',
  format: '--format',
  environmentId: '--environment',
  expiresIn: '--expires',
  message: '--message',
  note: '--note',
}

/** `command` such as `coffer run`. */
export function explain(ctx: Context, command: string, error: unknown): unknown {
  if (!(error instanceof CofferError)) return error
  const status = error instanceof ApiError ? error.status : undefined
  if (error instanceof ApiError && status === 401) return explainRefusal(ctx, error)
  const withHint = (hint: string | undefined, message = error.message) =>
    new CliError(exitNameOf(error), message, hint, error)
  if (/cannot be resolved\.$/.test(error.message) && /^coffer (run|export)$/.test(command))
    return withHint(unresolvedHint(error))
  // Readers of a share have no workspace.
  if (status === 403 && !/password/.test(error.message)) return withHint(forbiddenHint(ctx))
  const [, field = '', problem = ''] = /^(?:operations\.\d+\.)?(\w+): (.*)$/s.exec(error.message) ?? []
  const flag = Object.hasOwn(flagOfField, field) ? flagOfField[field] : undefined
  if (status !== 400 || flag === undefined) return error
  return withHint(field === 'format' ? 'another --format, such as json' : undefined, `${flag}: ${problem}`)
}

function unresolvedHint({ message }: CofferError): string {
  const [, name = 'KEY'] = /refers to ([A-Za-z0-9_-]+)[,.]/.exec(message) ?? []
  return `coffer secrets set ${name}, or --on-unresolved keep; in a value, $$\{ is a plain $\{`
}

function forbiddenHint(ctx: Context): string {
  const isToken = findCredentialSource(ctx.env, findUrl(ctx))?.kind === 'token'
  return isToken ? 'a token with more rights: coffer token create --help' : 'ask an admin of the workspace'
}
