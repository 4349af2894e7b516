import { requireServiceAccount } from '../../access/actor.ts'
import { defineCommand } from '../../command.ts'
import { openWorkspace, requireToken } from '../../token/token.ts'

export const transfer = defineCommand({
  usage: 'NAME|ID ACCOUNT',
  args: [2, 2],
  findsPlace: true,
  flags: {},
  details: `
Gives a token to a service account, which is named by its name or id. Its value, permission and scope stay, so nothing
that uses it changes; it no longer ends with the person who created it. The account must be allowed all that the token
may do. For admins of the whole workspace.

Examples:
  coffer token transfer ci deploy`,
  async run(ctx, { args: [given = '', account = ''] }) {
    const workspace = openWorkspace(ctx)
    const { id } = await requireToken(ctx, workspace, given)
    const { id: serviceAccountId } = await requireServiceAccount(workspace, account)
    const token = await workspace.api.token.transfer({ ws: workspace.ws, id }, { serviceAccountId })
    ctx.out.show(token, () => ({ columns: ['id', 'name', 'owner'], rows: [[token.id, token.name, token.ownerName]] }))
  },
})
