import { openGrants } from '../../access/grant.ts'
import { defineCommand } from '../../command.ts'
import { openWorkspace } from '../../token/token.ts'

export const list = defineCommand({
  usage: '',
  args: [0, 0],
  findsPlace: true,
  flags: {},
  details: `
Lists the members of the workspace and the people who are invited, with their grants. For admins of the whole workspace.

Examples:
  coffer members list
  coffer members list --json`,
  async run(ctx) {
    const workspace = openWorkspace(ctx)
    const members = await workspace.api.member.list({ ws: workspace.ws })
    const rows: string[][] = []
    if (!ctx.flags.json) {
      const grants = await openGrants(workspace)
      for (const { id, user, status, isOwner, grants: held } of members) {
        rows.push([id, user.email, isOwner ? 'owner' : status, await grants.describe(held)])
      }
    }
    ctx.out.show(members, () => ({ columns: ['id', 'email', 'status', 'grants'], rows }))
  },
})
