/** Tokens of the workspace: finding one by its name, and printing a new one. */
import { type Api, type IssuedToken, listAll, type Token } from '@coffer/sdk'
import { connect } from '../connect.ts'
import type { Context } from '../context.ts'
import { CliError, usageError } from '../error.ts'
import { visible } from '../output/table.ts'
import { formatTime } from '../output/time.ts'
import { readSettings, requireSetting } from '../place/place.ts'

export type Workspace = { readonly api: Api; readonly ws: string }

export const openWorkspace = (ctx: Context): Workspace => ({
  api: connect(ctx),
  ws: requireSetting(readSettings(ctx), 'workspace'),
})

export async function listTokens({ api, ws }: Workspace): Promise<Token[]> {
  return Array.fromAsync(listAll(api.token.list, { ws }, { limit: 200 }))
}

type TokenState = 'active' | 'expired' | 'revoked'

export function stateOf({ now }: Context, { revokedAt, expiresAt }: Token): TokenState {
  if (revokedAt !== null) return 'revoked'
  return expiresAt !== null && Date.parse(expiresAt) <= now() ? 'expired' : 'active'
}

/** By its id or its name. Only tokens that still work have a name. */
export async function requireToken(ctx: Context, workspace: Workspace, given: string): Promise<Token> {
  const tokens = await listTokens(workspace)
  const byId = tokens.find(({ id }) => id === given.toLowerCase())
  if (byId) return byId
  const [found, another] = tokens.filter((token) => token.name === given && stateOf(ctx, token) === 'active')
  if (!found) throw new CliError('notFound', `There is no active token ${visible(given)}.`, 'coffer token list')
  if (another) throw usageError(`Several tokens are called ${visible(given)}: name one by its id.`, 'coffer token list')
  return found
}

/**
 * The token is printed once, on stdout; with `raw` it is all that is printed there. Asks the service nothing: a failure
 * would lose the token.
 */
export async function showToken(ctx: Context, scope: string, issued: IssuedToken, isRaw: boolean): Promise<void> {
  const expires = issued.expiresAt === null ? 'never' : formatTime(ctx.terminal, issued.expiresAt)
  if (isRaw) await ctx.out.raw(issued.token)
  else {
    ctx.out.show(issued, () => ({
      columns: ['name', 'token', 'permission', 'scope', 'expires'],
      rows: [[issued.name, issued.token, issued.permission, scope, expires]],
    }))
  }
  ctx.out.note('The token is shown only now. Use it as COFFER_TOKEN, and keep it like a password.')
}
