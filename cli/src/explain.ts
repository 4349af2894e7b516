/** Adds what to do to an answer of the service, and names the flag that a field of the API stands for. */
import { ApiError, CofferError } from '@coffer/sdk'
import { connect } from './connect.ts'
import type { Context } from './context.ts'
import { CliError, exitNameOf } from './error.ts'
import { findUrl, readSettings, requireSetting } from './place/place.ts'
import { requireWorkspace } from './place/workspace-choice.ts'
import { findCredentialSource } from './session/credential-source.ts'
import { readMe } from './session/me.ts'
import { explainRefusal } from './session/refusal.ts'
import { lifetimeWithin } from './token/lifetime.ts'

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
export async function explain(ctx: Context, command: string, error: unknown): Promise<unknown> {
  if (!(error instanceof CofferError)) return error
  const status = error instanceof ApiError ? error.status : undefined
  if (error instanceof ApiError && status === 401) return explainRefusal(ctx, error)
  const withHint = (hint: string | undefined, message = error.message) =>
    new CliError(exitNameOf(error), message, hint, error)
  if (/cannot be resolved\.$/.test(error.message) && /^coffer (run|export)$/.test(command))
    return withHint(unresolvedHint(error))
  // Whatever a command looks for in a workspace is missing if there is no such workspace.
  const ws = readSettings(ctx).find('workspace')?.value
  if (status === 404 && ws !== undefined) {
    const wrong = await requireWorkspace(connect(ctx, { timeoutMs: 2_000, retries: 0 }), ws).catch((caught) => caught)
    return wrong instanceof CliError ? wrong : error
  }
  const maxDays = /^expiresIn: .* valid for (\d+) days? at most/.exec(error.message)?.[1]
  if (status === 403 && maxDays !== undefined) {
    const longest = command === 'coffer share' ? `${maxDays}d` : lifetimeWithin(Number(maxDays))
    return withHint(longest && `--expires ${longest}`, error.message.replace('expiresIn', '--expires'))
  }
  // Readers of a share have no workspace.
  if (status === 403 && !/password/.test(error.message)) return withHint(await forbiddenHint(ctx))
  const [, field = '', problem = ''] = /^(?:operations\.\d+\.)?(\w+): (.*)$/s.exec(error.message) ?? []
  const flag = Object.hasOwn(flagOfField, field) ? flagOfField[field] : undefined
  if (status !== 400 || flag === undefined) return error
  return withHint(field === 'format' ? 'another --format, such as json' : undefined, `${flag}: ${problem}`)
}

function unresolvedHint({ message }: CofferError): string {
  const [, name = 'KEY'] = /refers to ([A-Za-z0-9_-]+)[,.]/.exec(message) ?? []
  return `coffer secrets set ${name}, or --on-unresolved keep; in a value, $$\{ is a plain $\{`
}

async function forbiddenHint(ctx: Context): Promise<string> {
  const isToken = findCredentialSource(ctx.env, findUrl(ctx))?.kind === 'token'
  const rights = await describeRights(ctx, isToken).catch(() => '')
  return isToken
    ? `a token with more rights${rights}: coffer token create --help`
    : `ask an admin of the workspace${rights}`
}

/** What the credential may do, so that one sees what is missing. */
async function describeRights(ctx: Context, isToken: boolean): Promise<string> {
  const api = connect(ctx, { timeoutMs: 2_000, retries: 0 })
  if (isToken) return ` than this one (${(await readMe(api)).credential.permission})`
  const ws = requireSetting(readSettings(ctx), 'workspace')
  const { grants } = await api.workspace.read({ ws })
  return `; your role in ${ws}: ${[...new Set(grants.map(({ role }) => role))].join(', ')}`
}
