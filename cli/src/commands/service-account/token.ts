import type { Scope } from '@coffer/sdk'
import { requireServiceAccount } from '../../access/actor.ts'
import { defineCommand } from '../../command.ts'
import { newTokenFlags, readNewToken } from '../../token/new-token.ts'
import { openWorkspace, showToken } from '../../token/token.ts'

export const token = defineCommand({
  usage: 'ACCOUNT NAME',
  args: [2, 2],
  findsPlace: true,
  flags: newTokenFlags,
  details: `
Creates a token of a service account, which is named by its name or id. The token is printed once and cannot be read
again. Without --scope it reaches all that the account does. It never has more rights than the account.

Examples:
  coffer service-account token deploy ci --permission read-write --expires 6mo
  coffer service-account token deploy ci --scope shop/staging --raw > /run/secrets/coffer-token`,
  async run(ctx, { flags, args: [account = '', name = ''] }) {
    const workspace = openWorkspace(ctx)
    const { id, grants } = await requireServiceAccount(workspace, account)
    const whole = () => unionOf(grants.map(({ scope }) => scope))
    const wanted = await readNewToken(ctx, workspace, name, flags, whole)
    const issued = await workspace.api.service.createToken({ ws: workspace.ws, id }, wanted.token)
    await showToken(ctx, wanted.scopeText, issued, flags.raw)
  },
})

function unionOf(scopes: readonly Scope[]): Scope {
  const collect = (list: 'teams' | 'projects' | 'environments') => [...new Set(scopes.flatMap((scope) => scope[list]))]
  return scopes.some(({ all }) => all)
    ? { all: true, teams: [], projects: [], environments: [] }
    : { all: false, teams: collect('teams'), projects: collect('projects'), environments: collect('environments') }
}
