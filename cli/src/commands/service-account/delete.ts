import { requireServiceAccount } from '../../access/actor.ts'
import { describeRemoval } from '../../access/removal.ts'
import { defineCommand } from '../../command.ts'
import { CliError } from '../../error.ts'
import { visible } from '../../output/table.ts'
import { confirm } from '../../prompt.ts'
import { openWorkspace } from '../../token/token.ts'

export const remove = defineCommand({
  usage: 'NAME|ID',
  args: [1, 1],
  findsPlace: true,
  flags: { yes: { type: 'boolean', short: 'y', about: 'Do not ask' } },
  details: `
Deletes a service account with its tokens, after saying what ends with it.

Examples:
  coffer service-account delete deploy`,
  async run(ctx, { flags, args: [given = ''] }) {
    const workspace = openWorkspace(ctx)
    const { id, name } = await requireServiceAccount(workspace, given)
    const path = { ws: workspace.ws, id }
    for (const line of describeRemoval(await workspace.api.service.remove(path, { dryRun: true }))) ctx.out.note(line)
    const message = `Delete the service account ${visible(name)}?`
    if (!flags.yes && !(await confirm(ctx, { message, hint: '--yes' }))) throw new CliError('cancelled', 'Cancelled.')
    const ended = await workspace.api.service.remove(path)
    ctx.out.show(ended, () => ({ columns: ['id', 'name', 'state'], rows: [[id, name, 'deleted']] }))
  },
})
