import { defineCommand } from '../../command.ts'
import { usageError } from '../../error.ts'
import { readSettings } from '../../place/place.ts'
import { newTokenFlags, readNewToken } from '../../token/new-token.ts'
import { scopeWords } from '../../token/scope.ts'
import { openWorkspace, showToken } from '../../token/token.ts'

export const create = defineCommand({
  usage: 'NAME',
  args: [1, 1],
  flags: newTokenFlags,
  details: `
Creates an API token, for a server or a pipeline. The token is printed once and cannot be read again. Without --scope it
reaches the environment of this folder. It ends when you leave the workspace: a service account's does not
(coffer service-account).

Examples:
  coffer token create ci --scope shop/production
  coffer token create deploy --permission read-write --scope shop --expires 24h --ip 203.0.113.0/24
  coffer token create ci --raw > /run/secrets/coffer-token`,
  async run(ctx, { flags, args: [name = ''] }) {
    const workspace = openWorkspace(ctx)
    const { token, scopeText } = await readNewToken(ctx, workspace, name, flags, () => placeOf(ctx))
    const issued = await workspace.api.token.create({ ws: workspace.ws }, token)
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
