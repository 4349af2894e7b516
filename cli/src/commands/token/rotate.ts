import { defineCommand } from '../../command.ts'
import { readDuration } from '../../duration.ts'
import { usageError } from '../../error.ts'
import { askConfirmation } from '../../session/confirmation.ts'
import { openPlaces } from '../../token/scope.ts'
import { openWorkspace, requireToken, showToken } from '../../token/token.ts'

export const rotate = defineCommand({
  usage: 'NAME|ID',
  args: [1, 1],
  findsPlace: true,
  flags: {
    grace: { type: 'string', value: 'TIME', about: 'The old token works this much longer; 0s by default, 24h at most' },
    raw: { type: 'boolean', about: 'Print the token alone, without a line break at its end' },
  },
  details: `
Replaces a token by a new one with the same rights. The new one is printed once. For a token that may administer, the
command asks for your password or a code.

Examples:
  coffer token rotate ci --grace 1h
  coffer token rotate ci --raw > /run/secrets/coffer-token`,
  async run(ctx, { flags, args: [given = ''] }) {
    if (flags.raw && ctx.flags.json) throw usageError('Give --raw or --json.')
    const graceMs = readDuration(flags.grace, '--grace', { unset: '0s', range: ['0s', '24h'], example: '1h' })
    const graceSeconds = Math.ceil(graceMs / 1_000)
    const workspace = openWorkspace(ctx)
    const { api, ws } = workspace
    const { id, scope, mayAdminister } = await requireToken(ctx, workspace, given)
    const scopeText = await (await openPlaces(api, ws)).describe(scope)
    const confirmation = mayAdminister ? await askConfirmation(ctx) : {}
    const issued = await api.token.rotate({ ws, id }, { graceSeconds, ...confirmation })
    await showToken(ctx, scopeText, issued, flags.raw)
  },
})
