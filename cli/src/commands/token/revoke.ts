import { defineCommand } from '../../command.ts'
import { CliError } from '../../error.ts'
import { visible } from '../../output/table.ts'
import { confirm } from '../../prompt.ts'
import { openWorkspace, requireToken } from '../../token/token.ts'

export const revoke = defineCommand({
  usage: 'NAME|ID',
  args: [1, 1],
  findsPlace: true,
  flags: { yes: { type: 'boolean', short: 'y', about: 'Do not ask' } },
  details: `
Ends a token. Whatever uses it is refused from its next request on.

Examples:
  coffer token revoke ci
  coffer token revoke 0197f2c4-7d1e-7c3a-9f7e-2b1d5a6c8e90 -y`,
  async run(ctx, { flags, args: [given = ''] }) {
    const workspace = openWorkspace(ctx)
    const token = await requireToken(ctx, workspace, given)
    const message = `Revoke the token ${visible(token.name)} (${token.prefix}…)?`
    if (!flags.yes && !(await confirm(ctx, { message, hint: '--yes' }))) throw new CliError('cancelled', 'Cancelled.')
    const answer = await workspace.api.token.revoke({ ws: workspace.ws, id: token.id })
    ctx.out.show(answer, () => ({ columns: ['id', 'name', 'state'], rows: [[token.id, token.name, 'revoked']] }))
  },
})
