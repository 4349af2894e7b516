import { defineCommand } from '../../command.ts'
import { usageError } from '../../error.ts'
import { readSettings } from '../../place/place.ts'
import { askConfirmation } from '../../session/confirmation.ts'
import { findLifetime } from '../../token/lifetime.ts'
import { newTokenFlags, readNewToken } from '../../token/new-token.ts'
import { scopeWords } from '../../token/scope.ts'
import { openWorkspace, showToken } from '../../token/token.ts'

export const create = defineCommand({
  usage: 'NAME',
  args: [1, 1],
  findsPlace: true,
  flags: {
    ...newTokenFlags,
    'may-administer': {
      type: 'boolean',
      about: 'May manage members, invites, service accounts and identities; asks for password or code',
    },
  },
  details: `
Creates an API token, for a server or a pipeline. The token is printed once and cannot be read again. Without --scope it
reaches the environment of this folder. It ends when you leave the workspace: a service account's does not
(coffer service-account).

A token with --may-administer may also manage members, invites, service accounts and identities, if you are an admin of the
whole workspace. The command asks for your password, or for a code of your authenticator app. Such a token lives 3mo at
most.

Examples:
  coffer token create ci --scope shop/production
  coffer token create deploy --permission read-write --scope shop --expires 24h --ip 203.0.113.0/24
  coffer token create ops --may-administer --permission read-write --scope all --expires 24h
  coffer token create ci --raw > /run/secrets/coffer-token`,
  async run(ctx, { flags, args: [name = ''] }) {
    if (flags['may-administer'] && findLifetime(flags.expires).days > findLifetime('3mo').days) {
      throw usageError('--expires is 3mo at most for a token that may administer.', '--expires 3mo')
    }
    const workspace = openWorkspace(ctx)
    const { token, scopeText } = await readNewToken(ctx, workspace, name, flags, () => placeOf(ctx))
    const mark = flags['may-administer'] ? { mayAdminister: true, ...(await askConfirmation(ctx)) } : {}
    const issued = await workspace.api.token.create({ ws: workspace.ws }, { ...token, ...mark })
    await showToken(ctx, scopeText, issued, flags.raw)
  },
})

function placeOf(ctx: Parameters<typeof readSettings>[0]): string {
  const { find } = readSettings(ctx)
  const project = find('project')?.value
  const environment = find('environment')?.value
  if (project === undefined || environment === undefined) {
    throw usageError('--scope is missing, and this folder has no environment.', `--scope with ${scopeWords}`)
  }
  return `${project}/${environment}`
}
