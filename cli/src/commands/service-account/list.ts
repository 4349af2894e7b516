import { openGrants } from '../../access/grant.ts'
import { defineCommand } from '../../command.ts'
import { formatTime } from '../../output/time.ts'
import { openWorkspace } from '../../token/token.ts'

export const list = defineCommand({
  usage: '',
  args: [0, 0],
  findsPlace: true,
  flags: {},
  details: `
Lists the service accounts of the workspace with their grants and the number of tokens that work.

Examples:
  coffer service-account list
  coffer service-account list --json`,
  async run(ctx) {
    const workspace = openWorkspace(ctx)
    const accounts = await workspace.api.service.list({ ws: workspace.ws })
    const rows: (string | number)[][] = []
    if (!ctx.flags.json) {
      const grants = await openGrants(workspace)
      const at = (time: string | null) => (time === null ? 'never' : formatTime(ctx.terminal, time))
      for (const { id, name, grants: held, tokens, nextExpiryAt, lastUsedAt } of accounts) {
        rows.push([id, name, await grants.describe(held), tokens, at(nextExpiryAt), at(lastUsedAt)])
      }
    }
    ctx.out.show(accounts, () => ({
      columns: ['id', 'name', 'grants', 'tokens', 'next expiry', 'last used'],
      rows,
      empty: 'There are no service accounts.',
    }))
  },
})
