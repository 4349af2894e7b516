import { defineCommand } from '../../command.ts'
import { usageError } from '../../error.ts'
import { readSettings } from '../../place/place.ts'
import { openPlaces, scopeWords } from '../../token/scope.ts'
import { openWorkspace, showToken } from '../../token/token.ts'

const lifetimes = ['24h', '5d', '30d', '60d', '3m', '6m', '1y', 'never'] as const

export const create = defineCommand({
  usage: 'NAME',
  args: [1, 1],
  flags: {
    permission: {
      type: 'string',
      value: 'RIGHT',
      about: 'What it may do; read by default',
      choices: ['read', 'read-write'],
    },
    scope: { type: 'list', value: 'PLACE', about: `What it reaches: ${scopeWords}; several times for several` },
    expires: { type: 'string', value: 'TIME', about: 'How long it works; 30d by default', choices: lifetimes },
    ip: { type: 'list', value: 'CIDR', about: 'Accept it only from this address or network' },
    raw: { type: 'boolean', about: 'Print the token alone, without a line break at its end' },
  },
  details: `
Creates an API token, for a server or a pipeline. The token is printed once and cannot be read again. Without --scope it
reaches the environment of this folder.

Examples:
  coffer token create ci --scope shop/production
  coffer token create deploy --permission read-write --scope shop --expires 24h --ip 203.0.113.0/24
  coffer token create ci --raw > /run/secrets/coffer-token`,
  async run(ctx, { flags, args: [name = ''] }) {
    if (flags.raw && ctx.flags.json) throw usageError('Give --raw or --json.')
    const workspace = openWorkspace(ctx)
    const words = flags.scope.length > 0 ? flags.scope : [placeOf(ctx)]
    const places = await openPlaces(workspace.api, workspace.ws)
    const scope = await places.parse(words)
    const scopeText = await places.describe(scope)
    const issued = await workspace.api.token.create(
      { ws: workspace.ws },
      {
        name,
        permission: flags.permission === 'read-write' ? 'read-write' : 'read',
        scope,
        expiresIn: lifetimes.find((lifetime) => lifetime === flags.expires) ?? '30d',
        ...(flags.ip.length > 0 && { allowedIps: [...flags.ip] }),
      },
    )
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
