import { defineCommand } from '../../command.ts'
import { formatTime } from '../../output/time.ts'
import { openPlaces } from '../../token/scope.ts'
import { listTokens, openWorkspace, stateOf } from '../../token/token.ts'

export const list = defineCommand({
  usage: '',
  args: [0, 0],
  findsPlace: true,
  flags: { all: { type: 'boolean', about: 'Also those that have expired or were revoked' } },
  details: `
Lists your API tokens; for an admin, everyone's. A token itself is never shown again, only its first letters.

Examples:
  coffer token list
  coffer token list --all --json`,
  async run(ctx, { flags }) {
    const workspace = openWorkspace(ctx)
    const tokens = (await listTokens(workspace)).filter((token) => flags.all || stateOf(ctx, token) === 'active')
    if (ctx.flags.json) return ctx.out.show(tokens, () => ({ columns: [], rows: [] }))
    const places = await openPlaces(workspace.api, workspace.ws)
    const rows: string[][] = []
    for (const token of tokens) {
      const at = (time: string | null, none: string) => (time === null ? none : formatTime(ctx.terminal, time))
      rows.push([
        token.id,
        token.name,
        `${token.prefix}…`,
        token.mayAdminister ? `${token.permission}, administers` : token.permission,
        await places.describe(token.scope),
        stateOf(ctx, token),
        at(token.expiresAt, 'never'),
        at(token.lastUsedAt, 'never'),
      ])
    }
    ctx.out.show(tokens, () => ({
      columns: ['id', 'name', 'token', 'permission', 'scope', 'state', 'expires', 'last used'],
      rows,
      empty: 'There are no tokens.',
    }))
  },
})
